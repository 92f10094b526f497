"""fastspml with all settings chosen by fs.select, which may also count the known links of candidates."""

from __future__ import annotations

from bench.rivals.fastspml_select import FastspmlSelect


class FastspmlPopularity(FastspmlSelect):
    """Use the degree of a candidate beside its neighbours, as LightGBM does."""

    name = "fastspml, popularity"
    known_links = "popularity"
