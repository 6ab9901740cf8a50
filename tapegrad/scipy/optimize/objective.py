"""The objective as a function of flat vectors: value, gradient and curvature with call counts.

Nothing here reads a value on the host. `State` holds the numbers that a search has read.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tapegrad.autodiff.transforms import grad, value_and_grad, vjp
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.scipy.optimize.result import OptimizeResult
from tapegrad.scipy.vocabulary import (
    cast,
    largest,
    numpy_dtype_of,
    operand,
    reshape_p,
    stop_gradient,
    sum_over,
)

Product = Callable[[Any], Any]
"""A Hessian-vector product at a fixed point."""


def dot(a: Any, b: Any) -> Any:
    """Return the inner product of two vectors."""
    return sum_over(a * b)


def max_norm(gradient: Any) -> Any:
    """Return the maximum norm of a vector."""
    return largest(abs(gradient))


@dataclass
class Objective:
    """The objective as a function of flat vectors, with evaluation counts."""

    fun: Callable[..., Any]
    shape: tuple[int, ...]
    args: tuple[Any, ...] = ()
    jac: Any = None
    hess: Any = None
    hessp: Any = None
    values: int = 0
    gradients: int = 0
    products: int = 0
    _both: Callable[..., Any] = field(init=False)

    def __post_init__(self) -> None:
        for name, given in (("hess", self.hess), ("hessp", self.hessp)):
            if given is not None and not callable(given):
                raise ArgumentError(f"{name} must be None or a function. Got {given!r}.")
        if self.jac is True:
            self._both = self.fun
        elif callable(self.jac):
            self._both = lambda x, *args: (self.fun(x, *args), self.jac(x, *args))
        elif self.jac in (None, False):
            self._both = value_and_grad(self.scalar)
        else:
            raise ArgumentError(f"jac must be None, True or a function. Got {self.jac!r}.")

    def scalar(self, x: Any, *args: Any) -> Any:
        """Return the value at a point in the user's shape; enclosing tapes record it."""
        found = self.fun(x, *args)
        return _as_scalar(found[0] if self.jac is True else found)

    def reshaped(self, x: Any) -> Any:
        """Return a flat vector in the user's shape."""
        return reshape_p(x, shape=self.shape)

    def value(self, x: Any) -> Any:
        """Return the value as a constant tensor."""
        self.values += 1
        return cast(stop_gradient(self.scalar(self.reshaped(x), *self.args)), numpy_dtype_of(x))

    def both(self, x: Any) -> tuple[Any, Any]:
        """Return the value and the gradient as constant tensors."""
        self.values += 1
        self.gradients += 1
        value, gradient = self._both(self.reshaped(x), *self.args)
        value, gradient = _as_scalar(value), reshape_p(operand(gradient), shape=(-1,))
        if gradient.shape != x.shape:
            raise ShapeError(
                f"The gradient must have the shape {self.shape} of the point. "
                f"Got {gradient.shape[0]} elements."
            )
        dtype = numpy_dtype_of(x)
        return cast(stop_gradient(value), dtype), cast(stop_gradient(gradient), dtype)

    def slope(self, x: Any) -> Any:
        """Return the gradient that enclosing tapes record; a user's `jac` may not be recordable."""
        return reshape_p(grad(self.scalar)(self.reshaped(x), *self.args), shape=(-1,))

    def curvature(self, x: Any) -> Product:
        """Return the Hessian-vector product at x.

        The gradient is recorded once; each product is a reverse sweep over it.
        """
        if self.hessp is not None:
            return lambda p: self._counted(
                self.hessp(self.reshaped(x), self.reshaped(p), *self.args)
            )
        if self.hess is not None:
            size = x.shape[0]
            matrix = operand(self.hess(self.reshaped(x), *self.args))
            matrix = reshape_p(matrix, shape=(size, size))
            return lambda p: self._counted(matrix @ p)
        pull = vjp(lambda x: grad(self.scalar)(self.reshaped(x), *self.args), x)[1]
        return lambda p: self._counted(pull(p))

    def _counted(self, product: Any) -> Any:
        self.products += 1
        return stop_gradient(reshape_p(operand(product), shape=(-1,)))


def _as_scalar(value: Any) -> Any:
    value = operand(value)
    if math.prod(value.shape) != 1:
        raise ShapeError(
            f"The function to minimize must return one number. Got shape {value.shape}."
        )
    return reshape_p(value, shape=())


@dataclass(frozen=True)
class State:
    """The current point and gradient, with the value and the gradient norm read on the host."""

    x: Any
    gradient: Any
    value: float
    size: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """The final state, iteration count and status of a search."""

    state: State
    iterations: int
    status: int
    extra: dict[str, Any] = field(default_factory=dict)


class Watcher:
    """Calls the user's callback after each iteration; StopIteration ends the search."""

    def __init__(self, callback: Callable[..., Any] | None, shape: tuple[int, ...]) -> None:
        self._callback, self._shape = callback, shape
        self._takes_result = callback is not None and _takes_result(callback)
        self.is_needed = callback is not None

    def stops(self, x: Any, value: float) -> bool:
        """Call the callback with a point and return whether to stop."""
        if self._callback is None:
            return False
        point = reshape_p(x, shape=self._shape)
        try:
            if self._takes_result:
                self._callback(intermediate_result=OptimizeResult(x=point, fun=value))
            else:
                self._callback(point)
        except StopIteration:
            return True
        return False


def _takes_result(callback: Callable[..., Any]) -> bool:
    """Whether the callback takes an OptimizeResult; SciPy decides by the parameter name."""
    try:
        return list(inspect.signature(callback).parameters) == ["intermediate_result"]
    except (TypeError, ValueError):
        return False
