"""What differs between Algorithm 1 (SPML) and Algorithm 2 (MT-SPML): their metrics, and what these are pulled to.

Their loop is in `kernels.iterations`.
"""

from __future__ import annotations

from dataclasses import dataclass

from fastspml.checks import quoted

PRIORS = {"zero": 0.0, "identity": 1.0}  # P as a multiple of I


def check_prior(prior: str) -> None:
    """Refuse a prior that is not known."""
    if prior not in PRIORS:
        raise ValueError(f"prior must be 'zero' or 'identity', got {quoted(prior)}.")


@dataclass(frozen=True)
class Algorithm:
    """Algorithm 1 with one metric, or Algorithm 2 with a common metric, which comes first, and one per task."""

    has_tasks: bool  # whether every network has a metric of its own; otherwise networks are pooled
    regs: tuple[float, ...]  # regularisation weight of every metric; inf keeps a metric at its prior
    priors: tuple[float, ...]  # what every metric is pulled to, as a multiple of I
    start: float  # the hinge of the first iteration is evaluated at start * I
    projects_sums: bool = False  # project M_0 + M_q only, and not M_0 and every M_q

    @property
    def n_metrics(self) -> int:
        """Number of metrics, the columns of the totals."""
        return len(self.regs)

    @property
    def n_groups(self) -> int:
        """Number of groups that triplets are drawn from: one of all networks, or one per task."""
        return self.n_metrics - 1 if self.has_tasks else 1
