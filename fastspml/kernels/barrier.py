"""Where threads meet that are inside a kernel, without the GIL: a barrier, and work that is taken in turns.

Numba has no atomics for CPU arrays, so the operations needed are written as LLVM instructions.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from fastspml.kernels.jit import kernel, rare_kernel

# What a meeting holds, each on a cache line of its own: threads arrived, how often all have met, whether some thread
# has failed; and how many blocks were taken to be judged, taken to be drawn, and judged, in even and in odd iterations.
ARRIVED, GENERATION, BROKEN, TO_JUDGE, TO_DRAW, JUDGED = 0, 8, 16, 24, 40, 56
LINE = 8
SPINS_BEFORE_YIELD = 2_000  # some microseconds; a batch worth splitting takes longer, a lost time slice much longer


def new_barrier() -> np.ndarray:
    """Return the state of a meeting that nobody has come to."""
    return np.zeros(JUDGED + 2 * LINE, dtype=np.int64)


def _element(context, builder, signature, args):
    """Return the address of array[position], the first two arguments of an intrinsic."""
    array_type, array = signature.args[0], args[0]
    array = context.make_array(array_type)(context, builder, array)
    position = context.cast(builder, args[1], signature.args[1], types.intp)
    return cgutils.get_item_pointer(context, builder, array_type, array, [position], wraparound=False)


@intrinsic
def atomic_add(typing_context, array, position, value):
    """Add to an int64 element as one step; return what it was before."""

    def generate(context, builder, signature, args):
        return builder.atomic_rmw("add", _element(context, builder, signature, args), args[2], "seq_cst")

    return types.int64(array, position, types.int64), generate


@intrinsic
def atomic_load(typing_context, array, position):
    """Read an int64 element that other threads write."""

    def generate(context, builder, signature, args):
        return builder.load_atomic(_element(context, builder, signature, args), "seq_cst", 8)

    return types.int64(array, position), generate


@intrinsic
def atomic_store(typing_context, array, position, value):
    """Write an int64 element that other threads wait for; they then see all that was written before."""

    def generate(context, builder, signature, args):
        builder.store_atomic(args[2], _element(context, builder, signature, args), "seq_cst", 8)
        return context.get_dummy_value()

    return types.none(array, position, types.int64), generate


@intrinsic
def yield_processor(typing_context):
    """Let another thread run (POSIX sched_yield)."""

    def generate(context, builder, signature, args):
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.IntType(32), []), "sched_yield")
        builder.call(function, [])
        return context.get_dummy_value()

    return types.none(), generate


@rare_kernel
def wait_until(barrier, array, position, value):
    """Return once an element has a value that another thread gives it; False if some thread has failed."""
    spins = 0
    while atomic_load(array, position) != value:
        spins += 1
        if spins > SPINS_BEFORE_YIELD:
            if atomic_load(barrier, BROKEN) != 0:
                return False
            yield_processor()
    return True


@rare_kernel
def wait(barrier, n_threads):
    """Return once all n_threads are here; False if one of them has failed and will never come."""
    generation = atomic_load(barrier, GENERATION)
    if atomic_add(barrier, ARRIVED, 1) < n_threads - 1:
        return wait_until(barrier, barrier, GENERATION, generation + 1)
    atomic_add(barrier, ARRIVED, -n_threads)
    atomic_add(barrier, GENERATION, 1)
    return True


@kernel
def place_of(kind, t):
    """Return where the blocks of a kind are counted in iteration t."""
    return kind + LINE * (np.int64(t) & 1)


@kernel
def take(barrier, kind, t):
    """Return the number of a block of a kind of work (TO_JUDGE, TO_DRAW) in iteration t, from 0 on, each but once."""
    return np.uint64(atomic_add(barrier, place_of(kind, t), 1))


@kernel
def forget_blocks(barrier, t):
    """Let blocks be counted from the first on in iteration t: by one thread, in the iteration before."""
    for kind in (TO_JUDGE, TO_DRAW, JUDGED):
        barrier[place_of(kind, t)] = 0
