"""Finding minima by quasi-Newton methods, with gradients by the tape.

The vectors stay on their device; the host reads a value and a slope per evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tapegrad.autodiff.transforms import value_and_grad
from tapegrad.errors import ArgumentError
from tapegrad.ops.basic import reshape_p
from tapegrad.ops.creation import eye, numpy_dtype_of
from tapegrad.ops.magnitude import abs as absolute
from tapegrad.ops.products import matvec, outer
from tapegrad.ops.reduction import max as largest
from tapegrad.ops.reduction import sum as sum_over
from tapegrad.ops.shape import to_device
from tapegrad.ops.stop_gradient import stop_gradient
from tapegrad.scipy.operands import operand
from tapegrad.scipy.optimize.line_search import Trial, search


@dataclass(frozen=True)
class OptimizeResult:
    """Where `minimize` ended: the point, the value and gradient there, and how it went.

    >>> found = minimize(lambda x: (x - 3.0) ** 2, 0.0)
    >>> found.success, round(float(found.x), 4)
    (True, 3.0)
    """

    x: Any
    fun: Any
    jac: Any
    nit: int
    nfev: int
    njev: int
    status: int
    success: bool
    message: str
    hess_inv: Any = None


def _dot(a: Any, b: Any) -> float:
    return float(sum_over(a * b))


class Memory(Protocol):
    """What a method knows of the curvature."""

    def direction(self, gradient: Any) -> Any:
        """Return the direction of descent."""

    def learn(self, step: Any, change: Any) -> None:
        """Take note of a step and of how the gradient changed."""


class Dense:
    """BFGS: an approximation of the inverse Hessian as a matrix."""

    def __init__(self, x: Any) -> None:
        size = int(x.shape[0])
        self.inverse = to_device(eye(size, dtype=numpy_dtype_of(x)), x.device)

    def direction(self, gradient: Any) -> Any:
        return -matvec(self.inverse, gradient)

    def learn(self, step: Any, change: Any) -> None:
        inner = _dot(step, change)
        if inner <= 0:
            return
        pulled = matvec(self.inverse, change)
        weight = (1 + _dot(change, pulled) / inner) / inner
        mixed = outer(step, pulled) / inner
        both = mixed + outer(pulled, step) / inner
        self.inverse = self.inverse + weight * outer(step, step) - both


class Limited:
    """L-BFGS: the last few steps and changes of the gradient."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.pairs: list[tuple[Any, Any, float]] = []

    def direction(self, gradient: Any) -> Any:
        weights = []
        for step, change, inner in reversed(self.pairs):
            weights.append(_dot(step, gradient) / inner)
            gradient = gradient - weights[-1] * change
        if self.pairs:
            _, change, inner = self.pairs[-1]
            gradient = gradient * (inner / _dot(change, change))
        for (step, change, inner), weight in zip(self.pairs, reversed(weights)):
            gradient = gradient + (weight - _dot(change, gradient) / inner) * step
        return -gradient

    def learn(self, step: Any, change: Any) -> None:
        inner = _dot(step, change)
        if inner > np.finfo(float).eps * _dot(change, change):
            self.pairs = [*self.pairs, (step, change, inner)][-self.count :]


@dataclass
class Objective:
    """The function along flat vectors, with a count of its evaluations."""

    both: Callable[..., tuple[Any, Any]]
    shape: tuple[int, ...]
    args: tuple[Any, ...]
    calls: int = 0

    def __call__(self, x: Any) -> tuple[float, Any]:
        self.calls += 1
        value, gradient = self.both(reshape_p(x, shape=self.shape), *self.args)
        return float(value), stop_gradient(reshape_p(operand(gradient), shape=(-1,)))

    def along(self, x: Any, direction: Any) -> Callable[[float], Trial]:
        """Return the function of a step from x in a direction."""

        def at(step: float) -> Trial:
            point = x + step * direction
            value, gradient = self(point)
            return Trial(step, value, _dot(gradient, direction), (point, gradient))

        return at


@dataclass(frozen=True)
class Limits:
    """When to stop."""

    gtol: float
    ftol: float
    maxiter: int


_MESSAGES = {
    0: "Optimization terminated successfully.",
    1: "Maximum number of iterations has been exceeded.",
    2: "Desired error not necessarily achieved due to precision loss.",
}


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str | None = None,
    jac: Any = None,
    *,
    tol: float | None = None,
    callback: Callable[[Any], Any] | None = None,
    options: dict[str, Any] | None = None,
) -> OptimizeResult:
    """Find a local minimum of fun(x, *args), a scalar; x may have any shape.

    The method is 'BFGS' (the default) or 'L-BFGS-B' (without bounds). Gradients come from the
    tape; `jac` may be a function for them instead, or True if `fun` returns both. Options are
    gtol and maxiter, for 'L-BFGS-B' also ftol and maxcor. `callback` gets the point after each
    iteration.

    >>> import tapegrad
    >>> found = minimize(lambda x: tapegrad.reduce_sum((x - 2.0) ** 2), [0.0, 5.0])
    >>> found.x.numpy().round(4).tolist()
    [2.0, 2.0]
    """
    start = stop_gradient(operand(x0))
    shape = tuple(int(n) for n in start.shape)
    x = reshape_p(start, shape=(-1,))
    memory, limits = _method(method or "BFGS", x, tol, dict(options or {}))
    args = tuple(args) if isinstance(args, tuple | list) else (args,)
    objective = Objective(_value_and_slope(fun, jac), shape, args)
    x, value, gradient, rounds, status = _descend(objective, x, memory, limits, callback)
    return OptimizeResult(
        x=reshape_p(x, shape=shape),
        fun=value,
        jac=reshape_p(gradient, shape=shape),
        nit=rounds,
        nfev=objective.calls,
        njev=objective.calls,
        status=status,
        success=status == 0,
        message=_MESSAGES[status],
        hess_inv=memory.inverse if isinstance(memory, Dense) else None,
    )


def _method(
    method: str, x: Any, tol: float | None, options: dict[str, Any]
) -> tuple[Memory, Limits]:
    size = int(x.shape[0])
    known: dict[str, Any] = {
        "BFGS": {"gtol": 1e-5, "maxiter": 200 * size},
        "L-BFGS-B": {"gtol": 1e-5, "ftol": 2.220446049250313e-9, "maxiter": 15000, "maxcor": 10},
    }
    if method not in known:
        raise ArgumentError(f"method must be one of {', '.join(known)}. Got {method!r}.")
    unknown = sorted(options.keys() - known[method].keys())
    if unknown:
        raise ArgumentError(
            f"{method} takes the options {', '.join(known[method])}. Got {', '.join(unknown)}."
        )
    default = {} if tol is None else {"gtol": tol, "ftol": tol}
    chosen = {"ftol": -math.inf, **known[method], **default, **options}
    limits = Limits(chosen["gtol"], chosen["ftol"], int(chosen["maxiter"]))
    return (Dense(x) if method == "BFGS" else Limited(int(chosen["maxcor"]))), limits


def _value_and_slope(fun: Callable[..., Any], jac: Any) -> Callable[..., tuple[Any, Any]]:
    if jac is True:
        return fun
    if callable(jac):
        return lambda x, *args: (fun(x, *args), jac(x, *args))
    if jac not in (None, False):
        raise ArgumentError(f"jac must be None, True or a function. Got {jac!r}.")
    return value_and_grad(fun)


def _descend(
    objective: Objective,
    x: Any,
    memory: Memory,
    limits: Limits,
    callback: Callable[[Any], Any] | None,
) -> tuple[Any, float, Any, int, int]:
    """Search along one direction after the other; the last number says why it ended."""
    value, gradient = objective(x)
    # As if the step before had gained half the length of the gradient.
    gain = 0.5 * math.sqrt(_dot(gradient, gradient))
    for rounds in range(limits.maxiter):
        if float(largest(absolute(gradient))) <= limits.gtol:
            return x, value, gradient, rounds, 0
        direction = memory.direction(gradient)
        slope = _dot(gradient, direction)
        first = min(1.0, 2.02 * gain / -slope) if slope < 0 and gain > 0 else 1.0
        found = search(objective.along(x, direction), Trial(0.0, value, slope), first)
        if found is None:
            return x, value, gradient, rounds, 2
        point, slopes = found.point
        memory.learn(point - x, slopes - gradient)
        gain, x, value, gradient = value - found.value, point, found.value, slopes
        if callback is not None:
            callback(reshape_p(x, shape=objective.shape))
        if gain <= limits.ftol * max(abs(value), abs(value + gain), 1.0):
            return x, value, gradient, rounds + 1, 0
    is_flat = float(largest(absolute(gradient))) <= limits.gtol
    return x, value, gradient, limits.maxiter, 0 if is_flat else 1
