"""The table of cases, network shape x metric x batch: measured by `python -m bench.speed`, and by pytest-benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import fastspml as fs
from bench.speed import networks
from fastspml.training.problem import Prepared

REG = 1e-5

SHAPES: dict[str, Callable[[], fs.Network]] = {
    "Wikipedia": networks.wikipedia_as_one,
    "Debian packages": networks.debian_packages,
    "Coauthor physics": networks.coauthor_physics,
    "10,000 x 10,000 x 50": lambda: networks.planted(10_000, 10_000, 50),
    "200,000 x 100,000 x 60": lambda: networks.planted(200_000, 100_000, 60),
    "1,000,000 x 1,000,000 x 50": lambda: networks.planted(1_000_000, 1_000_000, 50),
}


@dataclass(frozen=True)
class Case:
    """A fit that is timed: its network by name, nodes x words x words a node where planted, its metric and batch."""

    shape: str
    metric: str = "diagonal"
    batch_size: int = 10
    is_quick: bool = False  # whether `--quick` runs it

    def network(self) -> fs.Network:
        """Return the network."""
        return SHAPES[self.shape]()

    def tiny(self) -> fs.Network:
        """Return a tiny network, to test that the case runs."""
        return networks.planted(60, 40, 6)

    def n_iters(self, n_triplets: int) -> int:
        """Return the iterations for about n_triplets triplets, fewer for a full metric, whose triplets take longer."""
        return max(2, n_triplets // (250 if self.metric == "full" else 1) // self.batch_size)

    def run(self, network: fs.Network | Prepared, n_iters: int, **params: Any) -> Callable[[], fs.SPML]:
        """Return a fit of a network that is laid out beforehand: it allocates memory and iterates.

        Nothing is projected, as in the loop in C.
        """
        model = fs.SPML.paper(reg=REG, metric=self.metric, batch_size=self.batch_size, projection="never", **params)
        prepared = network if isinstance(network, Prepared) else model.prepare(network)

        def fit() -> fs.SPML:
            for _ in model.fit_until(prepared, [n_iters]):
                pass
            return model

        return fit


CASES = {
    "Wikipedia, diagonal": Case("Wikipedia", is_quick=True),
    "Wikipedia, full": Case("Wikipedia", "full", is_quick=True),
    "Debian packages": Case("Debian packages", is_quick=True),
    "Debian packages, factored": Case("Debian packages", "factored", is_quick=True),
    "200,000 x 100,000 x 60, factored": Case("200,000 x 100,000 x 60", "factored"),
    "Debian packages, batch 100": Case("Debian packages", batch_size=100),
    "Debian packages, batch 1000": Case("Debian packages", batch_size=1000, is_quick=True),
    "Coauthor physics": Case("Coauthor physics"),
    "10,000 x 10,000 x 50": Case("10,000 x 10,000 x 50", is_quick=True),
    "200,000 x 100,000 x 60": Case("200,000 x 100,000 x 60"),
    "200,000 x 100,000 x 60, batch 1000": Case("200,000 x 100,000 x 60", batch_size=1000),
    "1,000,000 x 1,000,000 x 50": Case("1,000,000 x 1,000,000 x 50"),
}
