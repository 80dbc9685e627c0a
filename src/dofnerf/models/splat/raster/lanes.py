"""Vectors of eight float32 in numba kernels, so that a row of a tile is one value.

numba leaves vectorisation to the compiler, which guesses lane counts, and adds a remainder loop and a sum over lanes
for each loop: for runs of a few rows that costs more than the work. A `Lanes` is LLVM's <8 x float>, which becomes one
AVX2 register, half an AVX-512 one, or two of NEON. It has + − × ÷ with another Lanes or a number, comparisons, which
give a `Mask`, and the functions below. Kernels only: Python code cannot call these functions.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import extending
from numba.core import types
from numba.extending import models, overload, register_model

intrinsic: Any = extending.intrinsic  # a kernel calls it without the context
COUNT = 8
_FAST = ("contract", "arcp", "nsz", "afn", "reassoc")
_FLOATS, _BITS = ir.VectorType(ir.FloatType(), COUNT), ir.VectorType(ir.IntType(1), COUNT)


class _Vector(types.Type):
    """The numba type of a vector with elements of one LLVM type."""


LANES, MASK = _Vector("Lanes"), _Vector("Mask")


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: _Vector) -> None:
        super().__init__(manager, kind, _FLOATS if kind == LANES else _BITS)


def _spread(context: Any, builder: ir.IRBuilder, value: ir.Value, kind: types.Type) -> ir.Value:
    """A number in all lanes, as float32; a vector as it is."""
    if kind == LANES:
        return value
    value = context.cast(builder, value, kind, types.float32)
    single = builder.insert_element(ir.Constant(_FLOATS, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), COUNT), [0] * COUNT)
    return builder.shuffle_vector(single, ir.Constant(_FLOATS, ir.Undefined), zeros)


def _is_operand(kind: types.Type) -> bool:
    return kind == LANES or isinstance(kind, types.Float | types.Integer)


def _define(operation: Any, emit: Any, result: types.Type) -> None:
    """Let `operation` of two Lanes, or of one and a number, be the instruction `emit`."""

    @intrinsic
    def apply(context, a, b):
        def generate(context, builder, signature, arguments):
            kinds = signature.args
            return emit(builder, *(_spread(context, builder, v, k) for v, k in zip(arguments, kinds, strict=True)))

        return result(a, b), generate

    @overload(operation, inline="always")
    def choose(a, b):
        if LANES in (a, b) and _is_operand(a) and _is_operand(b):
            return lambda a, b: apply(a, b)  # noqa: PLW0108 (numba wants a function)
        return None


_define(operator.add, lambda builder, a, b: builder.fadd(a, b, flags=_FAST), LANES)
_define(operator.sub, lambda builder, a, b: builder.fsub(a, b, flags=_FAST), LANES)
_define(operator.mul, lambda builder, a, b: builder.fmul(a, b, flags=_FAST), LANES)
_define(operator.truediv, lambda builder, a, b: builder.fdiv(a, b, flags=_FAST), LANES)
_define(operator.ge, lambda builder, a, b: builder.fcmp_ordered(">=", a, b), MASK)
_define(operator.le, lambda builder, a, b: builder.fcmp_ordered("<=", a, b), MASK)
_define(operator.gt, lambda builder, a, b: builder.fcmp_ordered(">", a, b), MASK)
_define(operator.lt, lambda builder, a, b: builder.fcmp_ordered("<", a, b), MASK)


@intrinsic
def _both(context, a, b):
    return MASK(MASK, MASK), lambda context, builder, signature, given: builder.and_(*given)


@overload(operator.and_, inline="always")
def _and(a, b):
    return (lambda a, b: _both(a, b)) if (a, b) == (MASK, MASK) else None  # noqa: PLW0108


def _pointer(context: Any, builder: ir.IRBuilder, array: ir.Value, kind: types.Array, index: ir.Value) -> ir.Value:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _FLOATS.as_pointer())


@intrinsic
def load(context, array, index):
    """Eight elements of a float32 array (n,) from `index` on."""

    def generate(context, builder, signature, given):
        found = builder.load(_pointer(context, builder, given[0], signature.args[0], given[1]))
        found.align = 4
        return found

    return LANES(array, types.intp), generate


@intrinsic
def store(context, array, index, value):
    """Write eight elements of a float32 array (n,) from `index` on."""

    def generate(context, builder, signature, given):
        builder.store(given[2], _pointer(context, builder, given[0], signature.args[0], given[1]), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, LANES), generate


@intrinsic
def spread(context, value):
    """A float32 in all lanes."""
    return LANES(types.float32), lambda context, builder, signature, given: _spread(
        context, builder, given[0], types.float32
    )


@intrinsic
def least(context, a, b):
    """The lesser of each lane and a number, or of two Lanes."""

    def generate(context, builder, signature, given):
        other = _spread(context, builder, given[1], signature.args[1])
        return builder.select(builder.fcmp_ordered("<", given[0], other), given[0], other)

    return LANES(LANES, b), generate


@intrinsic
def greatest(context, a, b):
    """The greater of each lane and a number, or of two Lanes."""

    def generate(context, builder, signature, given):
        other = _spread(context, builder, given[1], signature.args[1])
        return builder.select(builder.fcmp_ordered(">", given[0], other), given[0], other)

    return LANES(LANES, b), generate


@intrinsic
def keep(context, mask, value):
    """The value where the mask is true, else 0."""

    def generate(context, builder, signature, given):
        return builder.select(given[0], given[1], ir.Constant(_FLOATS, [0.0] * COUNT))

    return LANES(MASK, LANES), generate


@intrinsic
def choose(context, mask, a, b):
    """a where the mask is true, else b; Lanes or numbers."""

    def generate(context, builder, signature, given):
        both = (_spread(context, builder, v, k) for v, k in zip(given[1:], signature.args[1:], strict=True))
        return builder.select(given[0], *both)

    return LANES(MASK, a, b), generate


def _each(name: str) -> Any:
    """An intrinsic of LLVM that takes and gives one vector."""

    @intrinsic
    def apply(context, value):
        def generate(context, builder, signature, given):
            kind, full = ir.FunctionType(_FLOATS, [_FLOATS]), f"llvm.{name}.v{COUNT}f32"
            function = builder.module.globals.get(full) or ir.Function(builder.module, kind, full)
            return builder.call(function, given, fastmath=_FAST)

        return LANES(LANES), generate

    return apply


root, absolute, logarithm = _each("sqrt"), _each("fabs"), _each("log")


@intrinsic
def totals(context, a, b, c, d, e, f, g, h):  # noqa: PLR0913, PLR0917
    """The sums over the lanes of eight Lanes, in the order a, c, e, g, b, d, f, h: each step adds halves of two."""

    def generate(context, builder, signature, given):
        steps = [(0, 1, 2, 3, 8, 9, 10, 11), (0, 1, 8, 9, 4, 5, 12, 13), (0, 2, 8, 10, 4, 6, 12, 14)]
        vectors = list(given)
        for pick, apart in zip(steps, (4, 2, 1), strict=True):
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [_add_halves(builder, x, y, pick, apart) for x, y in pairs]
        return vectors[0]

    return LANES(*[LANES] * COUNT), generate


def _add_halves(builder: ir.IRBuilder, x: ir.Value, y: ir.Value, pick: tuple[int, ...], apart: int) -> ir.Value:
    """The lanes `pick` of x and y together, plus those `apart` further."""
    kind = ir.VectorType(ir.IntType(32), COUNT)
    low, high = (builder.shuffle_vector(x, y, ir.Constant(kind, [i + k for i in pick])) for k in (0, apart))
    return builder.fadd(low, high, flags=_FAST)


@intrinsic
def total(context, value):
    """The sum over the lanes."""

    def generate(context, builder, signature, given):
        kind = ir.FunctionType(ir.FloatType(), [ir.FloatType(), _FLOATS])
        name = f"llvm.vector.reduce.fadd.v{COUNT}f32"
        reduce = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        return builder.call(reduce, [ir.Constant(ir.FloatType(), 0.0), given[0]], fastmath=_FAST)

    return types.float32(LANES), generate


@intrinsic
def prefetch(context, array, row):
    """Ask for the cache line at the start of a row of a float32 array (n, m), to be read soon."""

    def generate(context, builder, signature, given):
        found = context.make_array(signature.args[0])(context, builder, given[0])
        width = builder.extract_value(found.shape, 1)
        place = builder.bitcast(builder.gep(found.data, [builder.mul(given[1], width)]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        ask = builder.module.globals.get("llvm.prefetch.p0") or ir.Function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(ask, [place, ir.Constant(number, 0), ir.Constant(number, 3), ir.Constant(number, 1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate
