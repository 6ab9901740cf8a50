"""Expressions of elementwise calls and reductions, and their cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

# Registers the array namespace of expressions.
import tapegrad.core.trace.expression_namespace  # noqa: F401
from tapegrad.core.exact_key import exact_key
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.core.trace.expression import (
    Expression,
    UntraceableError,
    array_input,
    constant,
    kind_of_dtype,
    rounded_number,
    traced,
)
from tapegrad.program.graph.graph import Call, Value

COMBINING = {
    "sum": "add", "mean": "add", "max": "maximum", "min": "minimum", "prod": "multiply"
}  # fmt: skip
"""Reduction primitives and their combining operation."""

_CHEAP = frozenset({
    "abs", "add", "astype", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "constant", "equal", "greater", "greater_equal", "input",
    "less", "less_equal", "logical_and", "logical_not", "logical_or", "maximum", "minimum",
    "multiply", "negative", "not_equal", "square", "subtract", "where",
})  # fmt: skip
HEAVY = 8
"""The weight of an operation that costs more than a memory read."""


def formulas_of(call: Call, operands: Sequence[Any]) -> tuple[Expression, ...]:
    """Return the expressions of an elementwise call, one per result.

    Raises UntraceableError if the call is not elementwise or the dtypes differ from the recorded
    ones.
    """
    if call.primitive.name == "full_like":
        dtype = call.results[0].dtype
        return (constant(call.params["value"], dtype),)
    if not call.primitive.by_element:
        raise UntraceableError(f"{call.primitive.name} is not elementwise.")
    operands = _with_rounded_numbers(call, operands)
    outputs = traced(call.primitive.kernel(Expression), *operands, **call.params)
    for output, value in zip(outputs, call.results, strict=True):
        if output.dtype != value.dtype:
            raise UntraceableError(f"{call.primitive.name} has results of another dtype.")
    return outputs


def _with_rounded_numbers(call: Call, operands: Sequence[Any]) -> Sequence[Any]:
    """Round Python numbers to half precision if the arrays have it, as in eager mode."""
    dtypes = {value.dtype for value in call.reads}
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    if dtype is None or dtype.itemsize != 2 or dtype.kind in "iu":
        return operands
    return [rounded_number(x, dtype) if type(x) in (float, int) else x for x in operands]


def weight_of(call: Call) -> int | None:
    """Return the approximate cost per element of an elementwise call, None for others."""
    primitive = call.primitive
    if primitive.effects or not (primitive.by_element or primitive.name == "full_like"):
        return None
    shape = call.results[0].shape if call.results else ()
    if 0 in shape or any([value.shape != shape for value in call.results]):
        return None
    key = _weight_key(call)
    try:
        return _weights[key]
    except KeyError:
        if len(_weights) >= MOST_WEIGHTS:
            _weights.clear()
        weight = _weights[key] = _traced_weight(call)
        return weight
    except TypeError:  # params that are not hashable
        return _traced_weight(call)


_weights: dict[Any, int | None] = {}
"""Weights by what they depend on: most calls of a long program are like others."""

MOST_WEIGHTS = 10_000


def _weight_key(call: Call) -> Any:
    """What the weight of a call depends on."""
    operands = tuple([x.dtype if type(x) is Value else exact_key(x) for x in call.operands])
    params = tuple([(name, exact_key(value)) for name, value in call.params.items()])
    return (call.primitive, operands, params, tuple([value.dtype for value in call.results]))


def _traced_weight(call: Call) -> int | None:
    inputs = iter(range(len(call.operands)))
    operands = [
        array_input(next(inputs), operand.dtype) if isinstance(operand, Value) else operand
        for operand in call.operands
    ]
    try:
        outputs = formulas_of(call, operands)
    except UntraceableError:
        return None
    return sum(_weight(node) for node in nodes_of(outputs))


def is_combining(call: Call) -> bool:
    """Whether a call reduces a floating point array along axes."""
    if call.primitive.name not in COMBINING or not call.reads or 0 in call.reads[0].shape:
        return False
    shape, dtype = call.reads[0].shape, call.reads[0].dtype
    long_axes = [axis for axis in call.params["axis"] if shape[axis] != 1]
    return kind_of_dtype(dtype) == "f" and call.results[0].dtype == dtype and bool(long_axes)


def nodes_of(outputs: Sequence[Expression]) -> list[Expression]:
    """Return all distinct nodes of expressions, operands first."""
    found: dict[int, Expression] = {}
    waiting = [(output, False) for output in reversed(outputs)]
    while waiting:
        node, ready = waiting.pop()
        if id(node) in found:
            continue
        if ready:
            found[id(node)] = node
        else:
            waiting.append((node, True))
            waiting.extend((operand, False) for operand in node.operands)
    return list(found.values())


def number_of(formula: Expression) -> Any:
    """Evaluate an expression without inputs, with the roundings of its dtypes."""
    found: dict[int, Any] = {}
    for node in nodes_of([formula]):
        operands = [found[id(operand)] for operand in node.operands]
        if node.name == "constant":
            found[id(node)] = _rounded(node.value, node)
        elif node.name == "astype":
            found[id(node)] = _rounded(operands[0], node)
        else:
            known = PRIMITIVES.get(node.name)
            function = getattr(np, node.name) if known is None else known.kernel(np.ndarray)
            found[id(node)] = function(*[np.asarray(operand) for operand in operands])
    return np.asarray(found[id(formula)]).item()


def _rounded(number: Any, node: Expression) -> Any:
    return number if node.dtype is None else np.asarray(number).astype(node.dtype)


def is_heavy(node: Expression) -> bool:
    """Whether an operation costs more than a memory read."""
    return node.name not in _CHEAP


def _weight(node: Expression) -> int:
    if node.name in ("input", "constant"):
        return 0
    return HEAVY if is_heavy(node) else 1
