"""Elementwise primitives: the expression of one element becomes ONNX operators on arrays.

Derivative rules are elementwise primitives too, so programs with gradients can be exported.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.trace.expression import Expression, UntraceableError, array_input
from tapegrad.program.graph.formulas import formulas_of, nodes_of
from tapegrad.program.graph.graph import Call
from tapegrad.program.onnx.nodes import Input, Nodes, UnsupportedError, number

SAME = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "add": "Add", "asin": "Asin",
    "asinh": "Asinh", "atan": "Atan", "atanh": "Atanh", "ceil": "Ceil", "cos": "Cos",
    "cosh": "Cosh", "divide": "Div", "equal": "Equal", "erf": "Erf", "exp": "Exp",
    "floor": "Floor", "greater": "Greater", "greater_equal": "GreaterOrEqual", "isinf": "IsInf",
    "isnan": "IsNaN", "less": "Less", "less_equal": "LessOrEqual", "log": "Log",
    "logical_and": "And", "logical_not": "Not", "logical_or": "Or", "logical_xor": "Xor",
    "maximum": "Max", "minimum": "Min", "multiply": "Mul", "negative": "Neg", "pow": "Pow",
    "reciprocal": "Reciprocal", "round": "Round", "sign": "Sign", "sin": "Sin", "sinh": "Sinh",
    "sqrt": "Sqrt", "subtract": "Sub", "tan": "Tan", "tanh": "Tanh", "where": "Where",
}  # fmt: skip
"""Operations of expressions that are ONNX operators."""

_INTEGERS = {"bitwise_and": "BitwiseAnd", "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor"}

Rule = Callable[[Nodes, np.dtype[Any], list[Input]], Input]
COMPOSED: dict[str, Rule] = {}


def emit_elementwise(nodes: Nodes, call: Call) -> list[Input]:
    """Add the nodes of an elementwise call; return its results."""
    if call.primitive.name in _WHOLE and call.results[0].dtype.kind in "iu":
        return [_WHOLE[call.primitive.name](nodes, call)]
    dtype = call.reads[0].dtype if call.reads else call.results[0].dtype
    sources: list[Input] = []
    operands: list[Any] = []
    for operand in call.operands:
        if operand in call.reads or isinstance(operand, np.ndarray):
            operands.append(array_input(len(sources), operand.dtype))
            sources.append(nodes.input_of(operand, dtype))
        else:
            operands.append(operand)
    try:
        formulas = formulas_of(call, operands)
    except UntraceableError as error:
        raise UnsupportedError(f"ONNX has no operators for it ({error})") from error
    made: dict[int, Input] = {}
    for node in nodes_of(formulas):
        made[id(node)] = _emit(nodes, node, made, sources)
    results = [made[id(formula)] for formula in formulas]
    return [_stretched(nodes, one, call) if isinstance(one, dict) else one for one in results]


def _stretched(nodes: Nodes, constant: Input, call: Call) -> Input:
    """Return a result that does not depend on the operands, in its shape."""
    shape = call.results[0].shape
    return nodes.op("Expand", constant, {"ints": list(shape)}) if shape else constant


def _emit(nodes: Nodes, node: Expression, made: dict[int, Input], sources: list[Input]) -> Input:
    if node.name == "input":
        place: int = node.value
        return sources[place]
    if node.dtype is None:
        raise UnsupportedError("it computes with numbers without a dtype")
    if node.name == "constant":
        return number(node.value, node.dtype)
    operands = [made[id(one)] for one in node.operands]
    dtype = node.operands[-1].dtype or node.dtype
    if node.name == "astype":
        return _converted(nodes, operands[0], dtype, node.dtype)
    if node.name in COMPOSED:
        return COMPOSED[node.name](nodes, dtype, operands)
    if node.name not in SAME:
        raise UnsupportedError(f"ONNX has no operator for {node.name}")
    if dtype.kind == "b" and node.name == "where":  # it has no form for booleans everywhere
        condition, x, y = operands
        inverse = nodes.op("Not", condition)
        return nodes.op("Or", nodes.op("And", condition, x), nodes.op("And", inverse, y))
    return nodes.op(SAME[node.name], *operands)


def _converted(nodes: Nodes, x: Input, old: np.dtype[Any], new: np.dtype[Any]) -> Input:
    if new.kind == "b" and old.kind == "f":
        zero = number(0, old)  # NaN is true
        return nodes.op("Not", nodes.op("Equal", x, zero))
    return nodes.cast(x, new)


def _composed(name: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        COMPOSED[name] = rule
        return rule

    return register


@_composed("square")
def _square(e: Nodes, dtype: Any, x: list[Input]) -> Input:
    return e.op("Mul", x[0], x[0])


@_composed("not_equal")
def _not_equal(e: Nodes, dtype: Any, x: list[Input]) -> Input:
    return e.op("Not", e.op("Equal", *x))


@_composed("rsqrt")
def _rsqrt(e: Nodes, dtype: Any, x: list[Input]) -> Input:
    return e.op("Reciprocal", e.op("Sqrt", *x))


@_composed("exp2")
def _exp2(e: Nodes, dtype: Any, x: list[Input]) -> Input:
    return e.op("Pow", number(2, dtype), *x)


@_composed("log2")
def _log2(e: Nodes, dtype: Any, x: list[Input]) -> Input:
    return e.op("Mul", e.op("Log", *x), number(1 / math.log(2), dtype))


@_composed("log10")
def _log10(e: Nodes, dtype: Any, x: list[Input]) -> Input:
    return e.op("Mul", e.op("Log", *x), number(1 / math.log(10), dtype))


@_composed("expm1")
def _expm1(e: Nodes, dtype: Any, x: list[Input]) -> Input:
    """Return tanh(x / 2) (exp(x) + 1), which has all digits near 0; exp(x) is infinite late."""
    power = e.op("Exp", *x)
    half = e.op("Tanh", e.op("Mul", x[0], number(0.5, dtype)))
    return e.op("Mul", half, e.op("Add", power, number(1, dtype)))


@_composed("log1p")
def _log1p(e: Nodes, dtype: Any, x: list[Input]) -> Input:
    """Return log(u) x / (u - 1) for u = 1 + x, which corrects the rounding of u (Kahan)."""
    one = number(1, dtype)
    u = e.op("Add", x[0], one)
    rest = e.op("Sub", u, one)
    is_plain = e.op("Or", e.op("Equal", rest, number(0, dtype)), e.op("IsInf", u))
    safe = e.op("Where", is_plain, one, rest)
    corrected = e.op("Mul", e.op("Log", u), e.op("Div", x[0], safe))
    return e.op("Where", is_plain, x[0], corrected)


@_composed("cbrt")
def _cbrt(e: Nodes, dtype: Any, x: list[Input]) -> Input:
    return e.op("Mul", e.op("Sign", *x), e.op("Pow", e.op("Abs", *x), number(1 / 3, dtype)))


@_composed("trunc")
def _trunc(e: Nodes, dtype: Any, x: list[Input]) -> Input:
    return e.op("Mul", e.op("Sign", *x), e.op("Floor", e.op("Abs", *x)))


@_composed("isfinite")
def _isfinite(e: Nodes, dtype: Any, x: list[Input]) -> Input:
    return e.op("Not", e.op("Or", e.op("IsNaN", *x), e.op("IsInf", *x)))


@_composed("signbit")
def _signbit(e: Nodes, dtype: Any, x: list[Input]) -> Input:
    zero = number(0, dtype)
    inverse = e.op("Reciprocal", *x)
    return e.op("Or", e.op("Less", x[0], zero), e.op("Less", inverse, zero))


@_composed("copysign")
def _copysign(e: Nodes, dtype: Any, x: list[Input]) -> Input:
    size = e.op("Abs", x[0])
    return e.op("Where", _signbit(e, dtype, [x[1]]), e.op("Neg", size), size)


@_composed("hypot")
def _hypot(e: Nodes, dtype: Any, x: list[Input]) -> Input:
    """Divide by the larger one first, so that no square overflows."""
    a, b = (e.op("Abs", one) for one in x)
    large, small = e.op("Max", a, b), e.op("Min", a, b)
    is_zero = e.op("Equal", large, number(0, dtype))
    ratio = e.op("Div", small, e.op("Where", is_zero, number(1, dtype), large))
    root = e.op("Sqrt", e.op("Add", number(1, dtype), e.op("Mul", ratio, ratio)))
    return e.op("Where", e.op("IsInf", large), large, e.op("Mul", large, root))


@_composed("fmod")
def _fmod(e: Nodes, dtype: Any, x: list[Input]) -> Input:
    return e.op("Mod", *x, fmod=1)


@_composed("remainder")
def _remainder(e: Nodes, dtype: Any, x: list[Input]) -> Input:
    rest, zero = e.op("Mod", *x, fmod=1), number(0, dtype)
    differs = e.op("Xor", e.op("Less", rest, zero), e.op("Less", x[1], zero))
    is_wrong = e.op("And", differs, e.op("Not", e.op("Equal", rest, zero)))
    return e.op("Where", is_wrong, e.op("Add", rest, x[1]), rest)


@_composed("floor_divide")
def _floor_divide(e: Nodes, dtype: Any, x: list[Input]) -> Input:
    """Return the nearest whole number of (x - remainder) / y, as NumPy does."""
    whole = e.op("Div", e.op("Sub", x[0], _remainder(e, dtype, x)), x[1])
    return e.op("Round", whole)


@_composed("logaddexp")
def _logaddexp(e: Nodes, dtype: Any, x: list[Input]) -> Input:
    gap = e.op("Neg", e.op("Abs", e.op("Sub", *x)))
    gap = e.op("Where", e.op("Equal", *x), number(0, dtype), gap)  # also of equal infinities
    return e.op("Add", e.op("Max", *x), _log1p(e, dtype, [e.op("Exp", gap)]))


@_composed("ndtr")
def _ndtr(e: Nodes, dtype: Any, x: list[Input]) -> Input:
    """Return (1 + erf(x / sqrt(2))) / 2, as other exporters write the exact GELU."""
    inner = e.op("Erf", e.op("Mul", x[0], number(0.5**0.5, dtype)))
    return e.op("Mul", number(0.5, dtype), e.op("Add", number(1, dtype), inner))


@_composed("atan2")
def _atan2(e: Nodes, dtype: Any, x: list[Input]) -> Input:
    """Return the angle from atan of the smaller over the larger side, moved to its quadrant."""
    y, x_ = x
    zero, pi = number(0, dtype), number(math.pi, dtype)
    a, b = e.op("Abs", y), e.op("Abs", x_)
    large, small = e.op("Max", a, b), e.op("Min", a, b)
    is_zero = e.op("Equal", large, zero)
    ratio = e.op("Div", small, e.op("Where", is_zero, number(1, dtype), large))
    ratio = e.op("Where", e.op("And", e.op("IsInf", a), e.op("IsInf", b)), number(1, dtype), ratio)
    angle = e.op("Atan", ratio)
    steep = e.op("Sub", number(math.pi / 2, dtype), angle)
    angle = e.op("Where", e.op("Greater", a, b), steep, angle)
    angle = e.op("Where", _signbit(e, dtype, [x_]), e.op("Sub", pi, angle), angle)
    return _copysign(e, dtype, [angle, y])


def _bits(nodes: Nodes, call: Call) -> Input:
    dtype = call.results[0].dtype
    x, y = (nodes.input_of(operand, dtype) for operand in call.operands)
    return nodes.op(_INTEGERS[call.primitive.name], x, y)


def _inverted(nodes: Nodes, call: Call) -> Input:
    return nodes.op("BitwiseNot", nodes.input_of(call.operands[0], call.results[0].dtype))


def _whole_quotient(nodes: Nodes, call: Call) -> Input:
    """Divide integers: ONNX rounds towards zero, and floor_divide towards minus infinity."""
    dtype = call.results[0].dtype
    x, y = (nodes.input_of(operand, dtype) for operand in call.operands)
    if call.primitive.name == "truncatediv":
        return nodes.op("Div", x, y)
    rest = nodes.op("Mod", x, y)
    if call.primitive.name == "remainder":
        return rest
    return nodes.op("Div", nodes.op("Sub", x, rest), y)


_WHOLE: dict[str, Callable[[Nodes, Call], Input]] = {
    **dict.fromkeys(_INTEGERS, _bits),
    "bitwise_invert": _inverted,
    **dict.fromkeys(("floor_divide", "remainder", "truncatediv"), _whole_quotient),
}
"""Primitives that have rules for integers, which expressions do not trace."""
