"""Merging the shards of a round: V = V0 + D_0 + D_1 + ..., where shard k found D_k and has W_k = V0 + R D_k."""

from __future__ import annotations

import numpy as np

from fastspml.kernels.arguments import EVALUATED, ITERATION, N_COUNTERS
from fastspml.kernels.compiler_hints import flat_view
from fastspml.kernels.jit import kernel

ONE = np.uint64(1)


@kernel
def add_difference(base, rate, local, total):
    """Add D = (W - V0) / R to a total, in place; base is V0, local is W; C-contiguous arrays of one shape."""
    base, local, total = flat_view(base), flat_view(local), flat_view(total)
    for position in range(total.size):
        total[position] += (local[position] - base[position]) / rate


@kernel
def merge_shard(base, rate, shard, sums):
    """Add the sums of a shard to those of the shards before it, in place; base has those of the start of the round."""
    add_difference(base.totals, rate, shard.totals, sums.totals)
    add_difference(base.moments, rate, shard.moments, sums.moments)
    add_difference(base.factor_totals, rate, shard.factor_totals, sums.factor_totals)
    add_difference(base.squares, rate, shard.squares, sums.squares)
    for counter in range(EVALUATED, N_COUNTERS):
        sums.counters[counter] += shard.counters[counter]
    sums.counters[ITERATION], sums.harmonic[0] = shard.counters[ITERATION], shard.harmonic[0]


@kernel
def harmonic_after(harmonic, t_first, t_last):
    """Return the harmonic number of t_last from that of t_first - 1, summed in the order of `run_chunk`."""
    for t in range(t_first, t_last + ONE):
        harmonic += 1.0 / t
    return harmonic
