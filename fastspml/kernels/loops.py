"""Loops over rows of a network: short, and of a length that cannot be foreseen.

Nothing here computes anything. It is about what the compiler makes of a loop inside a kernel of some thousand lines,
into which everything has been inlined.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _hidden(builder, value):
    """Return a value as one of which the compiler knows nothing; no instruction comes of it."""
    identity = ir.InlineAsm(ir.FunctionType(value.type, [value.type]), "", "=r,0")
    return builder.call(identity, [value])


@intrinsic
def step(typing_context, position):
    """Return position + 1, in a way by which the compiler cannot count a loop's rounds.

    A loop that it can count is unrolled, and what does not fill a round is left to a second loop. Where a loop over a
    random row ends is mispredicted every time, and two loops mispredict twice.
    """

    def generate(context, builder, signature, args):
        return _hidden(builder, builder.add(args[0], args[0].type(1)))

    return position(position), generate


@intrinsic
def at_hand(typing_context, array):
    """Return a C-contiguous array as it is, where it lies in registers for the loop that follows.

    Of an array that is used all over a large kernel, the compiler keeps the address on the stack and loads it in every
    round of a loop. One that begins to live right before the loop gets a register.
    """

    def generate(context, builder, signature, args):
        view = context.make_array(array)(context, builder, args[0])
        view.data = _hidden(builder, view.data)
        view.shape = cgutils.pack_array(
            builder, [_hidden(builder, length) for length in cgutils.unpack_tuple(builder, view.shape)]
        )
        return view._getvalue()

    return array(array), generate


@intrinsic
def onward(typing_context, array, start):
    """Return array[start:] of a one-dimensional array, without the tests of a slice, and at hand.

    Of a tuple of arrays it returns such parts of each.
    """

    def shifted(context, builder, array_type, array, start):
        view = context.make_array(array_type)(context, builder, array)
        view.data = _hidden(builder, builder.gep(view.data, [start]))
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
def flat(typing_context, array):
    """Return a C-contiguous array as a one-dimensional one, at hand."""
    one_dimensional = array.copy(ndim=1)

    def generate(context, builder, signature, args):
        source = context.make_array(array)(context, builder, args[0])
        view = context.make_array(one_dimensional)(context, builder)
        context.populate_array(
            view,
            data=_hidden(builder, source.data),
            shape=[source.nitems],
            strides=[source.itemsize],
            itemsize=source.itemsize,
            meminfo=source.meminfo,
            parent=source.parent,
        )
        return view._getvalue()

    return one_dimensional(array), generate


@intrinsic
def small_code(typing_context):
    """Let the compiler write the kernel that this is in for size.

    It then converts numbers as it loads them, instead of loading them first: two instructions of fourteen for a word.
    """

    def generate(context, builder, signature, args):
        builder.function.attributes.add("optsize")
        return context.get_dummy_value()

    return types.none(), generate
