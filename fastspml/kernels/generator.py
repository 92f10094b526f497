"""The counter-based generator of all draws: random words are a pure function of a key and a position.

There is no generator state. Each triplet has its own key, mixed from (seed, group, iteration, position), and its
random words are the key's successors mixed by the finaliser of SplitMix64. So any thread, chunk or machine draws the
same triplet for the same four numbers.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from fastspml.kernels.jit import kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the odd increment of SplitMix64, 2^64 / golden ratio
ZERO, ONE = np.uint64(0), np.uint64(1)


@kernel
def mix(word):
    """Return 64 well-mixed bits of a 64-bit word; a bijection."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@kernel
def iteration_key(seed, group, t):
    """Return the key that all triplets of iteration t of a group share; all arguments uint64."""
    key = mix(seed + GOLDEN)
    key = mix(key + (group + ONE) * GOLDEN)
    return mix(key + t * GOLDEN)


@kernel
def triplet_key(key, b):
    """Return the key of triplet b from the key of its iteration."""
    return mix(key + (b + ONE) * GOLDEN)


@intrinsic
def multiply_high(typing_context, a, b):
    """Return the high 64 bits of the product of two uint64."""

    def generate(context, builder, signature, args):
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@kernel
def bounded(key, n, bound):
    """Return an unbiased random number below bound (Lemire 2019), and n, the number of words used so far."""
    n += ONE
    word = mix(key + n * GOLDEN)
    if word * bound < bound:
        threshold = (ZERO - bound) % bound
        while word * bound < threshold:
            n += ONE
            word = mix(key + n * GOLDEN)
    return multiply_high(word, bound), n
