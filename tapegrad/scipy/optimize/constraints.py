"""Convert SciPy's constraints to equality (c = 0) and inequality (c >= 0) vectors.

{"type": "eq" or "ineq", "fun": c, "args": ()}    c(x) = 0, or c(x) >= 0
LinearConstraint(A, lb, ub)                      lb <= A x <= ub
NonlinearConstraint(fun, lb, ub)                 lb <= fun(x) <= ub
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError
from tapegrad.scipy.vocabulary import concat, operand, operands, place_next_to, reshape_p, take


@dataclass(frozen=True)
class LinearConstraint:
    """The constraint lb <= A x <= ub; equal bounds mean equality.

    >>> LinearConstraint([[1.0, 1.0]], 1.0, 1.0).lb
    1.0
    """

    A: Any
    lb: Any = -np.inf
    ub: Any = np.inf
    keep_feasible: Any = False


@dataclass(frozen=True)
class NonlinearConstraint:
    """The constraint lb <= fun(x) <= ub; equal bounds mean equality.

    >>> NonlinearConstraint(lambda x: x[0] * x[1], 0.0, 1.0).ub
    1.0
    """

    fun: Callable[[Any], Any]
    lb: Any
    ub: Any
    jac: Any = None
    hess: Any = None
    keep_feasible: Any = False


Part = Callable[[Any], Any]


def equal_and_positive(constraints: Any) -> tuple[list[Part], list[Part]]:
    """Return the functions of x that must be zero and those that must be non-negative.

    >>> equal, positive = equal_and_positive({"type": "ineq", "fun": lambda x: x - 1.0})
    >>> len(equal), len(positive)
    (0, 1)
    """
    given = list(constraints) if isinstance(constraints, Sequence) else [constraints]
    equal: list[Part] = []
    positive: list[Part] = []
    for constraint in given:
        if isinstance(constraint, dict):
            _read_dict(constraint, equal, positive)
        elif hasattr(constraint, "A"):
            _read_bounded(_linear(constraint.A), constraint, equal, positive)
        elif hasattr(constraint, "fun"):
            _read_bounded(constraint.fun, constraint, equal, positive)
        else:
            raise ArgumentError(
                "A constraint must be a dict with 'type' and 'fun', a LinearConstraint or a "
                f"NonlinearConstraint. Got {type(constraint).__name__}."
            )
    return equal, positive


def concat_constraints(parts: list[Part], x: Any, like: Any) -> Any:
    """Concatenate the values of several constraints to one vector."""
    if not parts:
        return like[:0]
    values = [reshape_p(operands(part(x), like)[0], shape=(-1,)) for part in parts]
    return values[0] if len(values) == 1 else concat(values, 0)


def _read_dict(constraint: dict[str, Any], equal: list[Part], positive: list[Part]) -> None:
    kind = str(constraint.get("type", "")).lower()
    if kind not in ("eq", "ineq") or not callable(constraint.get("fun")):
        raise ArgumentError(
            "A constraint needs a 'type' of 'eq' or 'ineq' and a function 'fun'. "
            f"Got the type {constraint.get('type')!r}."
        )
    args = tuple(constraint.get("args", ()))
    function = constraint["fun"]
    (equal if kind == "eq" else positive).append(lambda x: function(x, *args))


def _linear(matrix: Any) -> Part:
    def product(x: Any) -> Any:
        rows, x = operands(matrix, reshape_p(x, shape=(-1,)))
        return reshape_p(rows, shape=(-1, x.shape[0])) @ x

    return product


def _read_bounded(function: Part, ends: Any, equal: list[Part], positive: list[Part]) -> None:
    low, high = np.atleast_1d(ends.lb).astype(float), np.atleast_1d(ends.ub).astype(float)
    low, high = (end.copy() for end in np.broadcast_arrays(low, high))
    if (low > high).any():
        raise ArgumentError(
            "The lower bound lb of a constraint must not exceed the upper bound ub."
        )
    same = low == high
    for places, side, sign, into in (
        (same, low, 1.0, equal),
        (~same & np.isfinite(low), low, 1.0, positive),
        (~same & np.isfinite(high), high, -1.0, positive),
    ):
        if places.any():
            into.append(_side(function, np.flatnonzero(places), side, sign))


def _side(function: Part, places: np.ndarray, ends: Any, sign: float) -> Part:
    """Return a function for sign * (function - end) at the places that have this bound."""

    def part(x: Any) -> Any:
        value = reshape_p(operand(function(x)), shape=(-1,))
        if len(ends) == 1:  # one bound for all elements
            return sign * (value - float(ends[0]))
        end = operands(ends[places].tolist(), value)[0]
        return sign * (take(value, place_next_to(value, places)) - end)

    return part
