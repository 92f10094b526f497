"""Prefetch primitives: start to load a cache line before it is read.

Triplets are drawn at random, so their rows are rarely in a cache. In a large network, waiting for them takes most of
the time. No result depends on prefetching. `schedule.py` decides what is prefetched when.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LINE_BYTES = 64

READ, DATA_CACHE, KEEP = 0, 1, 3  # the arguments of llvm.prefetch: for reading, into the data cache, to be used again


@intrinsic
def prefetch(typing_context, array, position):
    """Prefetch the cache line of an element of a one-dimensional or C-contiguous array, by its flat position."""

    def generate(context, builder, signature, args):
        array_type = signature.args[0]
        pointer = context.make_array(array_type)(context, builder, args[0]).data
        address = builder.gep(pointer, [args[1]])
        kind, byte_pointer = ir.IntType(32), cgutils.voidptr_t
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte_pointer, kind, kind, kind]), "llvm.prefetch.p0i8"
        )
        arguments = [kind(value) for value in (READ, KEEP, DATA_CACHE)]
        builder.call(function, [builder.bitcast(address, byte_pointer), *arguments])
        return context.get_dummy_value()

    return types.none(array, types.uint64), generate


@intrinsic
def elements_per_line(typing_context, array):
    """Return the number of elements of an array in a cache line, as a constant of the compiled code."""

    def generate(context, builder, signature, args):
        element = context.get_value_type(array.dtype)
        return ir.IntType(64)(LINE_BYTES // context.get_abi_sizeof(element))

    return types.uint64(array), generate
