"""Compiler hints: what keeps the machine code of short loops short inside one kernel of some thousand lines.

Nothing here computes anything. Everything that a kernel calls is inlined into it, so the compiler has many values to
hold in few registers, and it optimises each loop as if it were long, while a row has about 50 features.
`python -m bench.speed.tricks` measures what each hint saves.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _opaque(builder, value):
    """Return a value about which the compiler can derive nothing; no instruction results from it."""
    identity = ir.InlineAsm(ir.FunctionType(value.type, [value.type]), "", "=r,0")
    return builder.call(identity, [value])


def _in_register(builder, value):
    """Return a value that is defined anew here, so that it gets a register for the loop that follows.

    It has a name of its own so that `bench.speed.tricks` can measure it without `opaque_increment`.
    """
    return _opaque(builder, value)


@intrinsic
def opaque_increment(typing_context, position):
    """Return position + 1, hidden so that the compiler cannot compute a loop's trip count.

    A loop with a known trip count is unrolled, and the remainder goes to a second loop. The end of a loop over a random
    row is mispredicted every time, and two loops mispredict twice.
    """

    def generate(context, builder, signature, args):
        return _opaque(builder, builder.add(args[0], args[0].type(1)))

    return position(position), generate


@intrinsic
def in_registers(typing_context, array):
    """Return a C-contiguous array whose address is in a register for the loop that follows.

    The compiler keeps the address of an array that is used throughout a large kernel on the stack, and loads it again
    in every iteration of a loop. A value that is defined right before the loop gets a register.
    """

    def generate(context, builder, signature, args):
        view = context.make_array(array)(context, builder, args[0])
        view.data = _in_register(builder, view.data)
        view.shape = cgutils.pack_array(
            builder, [_in_register(builder, length) for length in cgutils.unpack_tuple(builder, view.shape)]
        )
        return view._getvalue()

    return array(array), generate


@intrinsic
def tail(typing_context, array, start):
    """Return array[start:] of a one-dimensional array, in registers and without the bounds tests of a slice.

    Of a tuple of arrays it returns the tail of each.
    """

    def shifted(context, builder, array_type, array, start):
        view = context.make_array(array_type)(context, builder, array)
        view.data = _in_register(builder, builder.gep(view.data, [start]))
        view.shape = cgutils.pack_array(builder, [builder.sub(builder.extract_value(view.shape, 0), start)])
        return view._getvalue()

    def generate(context, builder, signature, args):
        if isinstance(array, types.Array):
            return shifted(context, builder, array, *args)
        parts = [
            shifted(context, builder, part_type, part, args[1])
            for part_type, part in zip(array, cgutils.unpack_tuple(builder, args[0]), strict=True)
        ]
        return context.make_tuple(builder, array, parts)

    return array(array, types.uint64), generate


@intrinsic
def flat_view(typing_context, array):
    """Return a C-contiguous array as a one-dimensional one, in registers."""
    one_dimensional = array.copy(ndim=1)

    def generate(context, builder, signature, args):
        source = context.make_array(array)(context, builder, args[0])
        view = context.make_array(one_dimensional)(context, builder)
        context.populate_array(
            view,
            data=_in_register(builder, source.data),
            shape=[source.nitems],
            strides=[source.itemsize],
            itemsize=source.itemsize,
            meminfo=source.meminfo,
            parent=source.parent,
        )
        return view._getvalue()

    return one_dimensional(array), generate


@intrinsic
def optimize_for_size(typing_context):
    """Compile the kernel that this is called in with LLVM's `optsize`.

    It then converts numbers as it loads them, instead of loading them first: two of fourteen instructions per feature.
    """

    def generate(context, builder, signature, args):
        builder.function.attributes.add("optsize")
        return context.get_dummy_value()

    return types.none(), generate
