"""All targets, in the order in which they are attacked."""

from __future__ import annotations

from bench.torture import concurrency, disturbed, imported, misuse, stored, workers
from bench.torture.engine import Target

FAMILIES = (stored, imported, misuse, concurrency, disturbed, workers)


def all_targets() -> list[Target]:
    """Return the targets of all families."""
    return [target for family in FAMILIES for target in family.targets()]
