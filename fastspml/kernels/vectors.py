"""Vectors of 32 numbers that the compiler keeps in registers: sums over the features of a row, 32 factors at a time.

The compiler cannot keep a part of an array in registers while a loop reads other arrays, which might overlap with it:
it loads and stores every sum once per feature. It also turns every sign bit into a 64-bit number first. These functions
do the same operations on the same numbers in the same order, so the results have the same bits. They take no tail:
arrays must have 32 elements from the given position on. `python -m bench.speed.tricks` measures what they save.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic, models, register_model

LANES = 32  # numbers of a vector, one per bit of a uint32


class Vector(types.Type):
    """The numba type of 32 numbers of a floating-point type."""

    def __init__(self, dtype):
        self.dtype = dtype
        super().__init__(name=f"Vector({dtype})")


def _vector_type(dtype):
    return ir.VectorType({types.float32: ir.FloatType(), types.float64: ir.DoubleType()}[dtype], LANES)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, vector):
        super().__init__(manager, vector, _vector_type(vector.dtype))


def _address(context, builder, array_type, array, position):
    """Return the address of 32 elements of a C-contiguous array, from a flat position."""
    pointer = builder.gep(context.make_array(array_type)(context, builder, array).data, [position])
    return builder.bitcast(pointer, _vector_type(array_type.dtype).as_pointer())


def _load(context, builder, array_type, array, position):
    address = _address(context, builder, array_type, array, position)
    return builder.load(address, align=array_type.dtype.bitwidth // 8)


def _repeated(builder, number, vector_type):
    """Return a vector of one number."""
    first = builder.insert_element(ir.Constant(vector_type, ir.Undefined), number, ir.IntType(32)(0))
    places = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, ir.Constant(vector_type, ir.Undefined), places)


def _check(dtype, *numbers):
    """Check that all numbers have a type: a conversion would round."""
    if any(number != dtype for number in numbers):
        raise TypingError(f"A vector of {dtype} needs numbers of that type, got {', '.join(map(str, numbers))}.")


@intrinsic
def zeros(typing_context, array):
    """Return a vector of zeros of the type of an array's elements."""

    def generate(context, builder, signature, args):
        return ir.Constant(_vector_type(array.dtype), [0.0] * LANES)

    return Vector(array.dtype)(array), generate


@intrinsic
def store(typing_context, vector, array, position):
    """Write a vector to a C-contiguous array, from a flat position on."""
    _check(vector.dtype, array.dtype)

    def generate(context, builder, signature, args):
        address = _address(context, builder, array, args[1], args[2])
        builder.store(args[0], address, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.none(vector, array, types.uint64), generate


@intrinsic
def add_signed(typing_context, vector, array, position, scale, size, bits):
    """Return vector + (scale * array[position:] + s), where element k of s is size if bit k is set, otherwise -size.

    The scale and the size may be float64 for a vector of float32: the sum is then rounded once, at the end.
    """
    _check(vector.dtype, array.dtype)
    _check(scale, size)
    is_wider = (vector.dtype, scale) == (types.float32, types.float64)
    if not is_wider:
        _check(vector.dtype, scale)

    def generate(context, builder, signature, args):
        kind = _vector_type(scale)
        row, sums = _load(context, builder, array, args[1], args[2]), args[0]
        if is_wider:
            row, sums = builder.fpext(row, kind), builder.fpext(sums, kind)
        is_positive = builder.bitcast(args[5], ir.VectorType(ir.IntType(1), LANES))
        size, minus_size = (_repeated(builder, number, kind) for number in (args[4], builder.fneg(args[4])))
        signed = builder.select(is_positive, size, minus_size)
        sums = builder.fadd(sums, builder.fadd(builder.fmul(_repeated(builder, args[3], kind), row), signed))
        return builder.fptrunc(sums, _vector_type(vector.dtype)) if is_wider else sums

    return vector(vector, array, types.uint64, scale, size, types.uint32), generate


@intrinsic
def add_scaled(typing_context, array, position, other, start, scale):
    """Add scale * other[start:] to array[position:], 32 elements in place; both are C-contiguous, positions flat."""
    _check(array.dtype, other.dtype, scale)

    def generate(context, builder, signature, args):
        scaled = builder.fmul(
            _repeated(builder, args[4], _vector_type(array.dtype)), _load(context, builder, other, args[2], args[3])
        )
        address = _address(context, builder, array, args[0], args[1])
        aligned = {"align": array.dtype.bitwidth // 8}
        builder.store(builder.fadd(builder.load(address, **aligned), scaled), address, **aligned)
        return context.get_dummy_value()

    return types.none(array, types.uint64, other, types.uint64, scale), generate
