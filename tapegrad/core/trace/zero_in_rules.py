"""Find rules in which a zero cotangent stays zero, whatever the values are that they read.

Such a rule selects the cotangent, changes its sign, or multiplies it by a constant. Other rules
multiply by a slope, and zero times an infinite slope is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# Registers the array namespace of expressions.
import tapegrad.core.trace.expression_namespace  # noqa: F401
from tapegrad.core.recorder import RAW, using_stack
from tapegrad.core.trace.expression import Expression, array_input, number_input

_SAME = frozenset({"negative", "astype", "conj", "real"})
_SUMS = frozenset({"add", "subtract"})


def keeps_zero(rule: Callable[..., Any], count: int, params: Sequence[str]) -> bool:
    """Whether `rule(t, ...)` is 0 where t is 0, for any `count` values and these params."""
    return any(_keeps_zero(rule, count, params, kind) for kind in (np.float32, np.bool_))


def _keeps_zero(rule: Callable[..., Any], count: int, params: Sequence[str], kind: Any) -> bool:
    t = array_input(0, np.dtype(np.float32))
    reads = [array_input(k, np.dtype(kind)) for k in range(1, 1 + count)]
    numbers = {name: number_input(1 + count + k, float) for k, name in enumerate(params)}
    with using_stack(RAW):
        try:
            found = rule(t, *reads, **numbers)
        except Exception:  # it cannot be traced with such operands
            return False
    return isinstance(found, Expression) and _is_zero_with(found, t)


def _is_zero_with(x: Expression, t: Expression) -> bool:
    """Whether an expression is 0 where t is 0."""
    if x.name in ("input", "constant"):
        return x is t or (x.name == "constant" and x.value == 0)
    first, *others = x.operands
    if x.name == "where":
        if _is_true_with(first, t):
            return _is_zero_with(others[0], t)
        return all(_is_zero_with(branch, t) for branch in others)
    if x.name in _SAME:
        return _is_zero_with(first, t)
    if x.name in _SUMS:
        return all(_is_zero_with(operand, t) for operand in x.operands)
    if x.name == "multiply":
        return (_is_zero_with(first, t) and _is_number(others[0])) or (
            _is_zero_with(others[0], t) and _is_number(first)
        )
    return x.name == "divide" and _is_zero_with(first, t) and _is_number(others[0])


def _is_true_with(condition: Expression, t: Expression) -> bool:
    """Whether a condition is true where t is 0: a comparison of something like t with 0."""
    if condition.name != "equal":
        return False
    x, zero = condition.operands
    return zero.name == "constant" and zero.value == 0 and _is_zero_with(x, t)


def _is_number(x: Expression) -> bool:
    """Whether an expression is a finite number, known or a param, that one can divide by."""
    if x.name == "astype":
        return _is_number(x.operands[0])
    if x.name == "constant":
        return x.value != 0 and math.isfinite(x.value)
    return x.name == "input" and x.dtype is None
