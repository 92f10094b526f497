"""All targets, in the order in which they are attacked."""

from __future__ import annotations

from bench.torture import clusters, concurrency, disturbed, imported, misuse, serving, stored
from bench.torture.engine import Target

FAMILIES = (stored, imported, misuse, concurrency, disturbed, clusters, serving)


def all_targets() -> list[Target]:
    """Return the targets of all families."""
    return [target for family in FAMILIES for target in family.targets()]
