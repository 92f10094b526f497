"""The number of training links of a candidate, the same for every node."""

from __future__ import annotations

import fastspml as fs
from bench.rivals.rival import Clock, Setting, TunedRival
from fastspml.baselines import Popularity
from fastspml.ranking.measures import Scorer


class MostLinked(TunedRival):
    """Rank candidates by their number of training links."""

    name = "popularity"
    uses = "links"

    def train(self, networks: list[fs.Network], setting: Setting, clock: Clock) -> Scorer:
        """Count links."""
        return Popularity().fit(networks)
