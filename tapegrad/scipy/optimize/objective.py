"""The function to minimise, over flat vectors: value, gradient and curvature, each counted.

Nothing here looks at a value; `Seen` keeps what a search has looked at.
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
"""What the Hessian at a point does to a vector."""


def dot(a: Any, b: Any) -> Any:
    """Return the inner product of two vectors."""
    return sum_over(a * b)


def steepest(gradient: Any) -> Any:
    """Return the size of a gradient: its largest element."""
    return largest(abs(gradient))


@dataclass
class Objective:
    """The function along flat vectors, with counts of its evaluations."""

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
        """Return the value at a point as the caller knows it, for tapes around to see."""
        found = self.fun(x, *args)
        return _as_scalar(found[0] if self.jac is True else found)

    def shaped(self, x: Any) -> Any:
        """Return a flat vector as the caller knows it."""
        return reshape_p(x, shape=self.shape)

    def value(self, x: Any) -> Any:
        """Return the value, a tensor."""
        self.values += 1
        return cast(stop_gradient(self.scalar(self.shaped(x), *self.args)), numpy_dtype_of(x))

    def both(self, x: Any) -> tuple[Any, Any]:
        """Return the value and the gradient, both as tensors."""
        self.values += 1
        self.gradients += 1
        value, gradient = self._both(self.shaped(x), *self.args)
        value, gradient = _as_scalar(value), reshape_p(operand(gradient), shape=(-1,))
        if gradient.shape != x.shape:
            raise ShapeError(
                f"The gradient must have the shape {self.shape} of the point. "
                f"It has {gradient.shape[0]} elements."
            )
        dtype = numpy_dtype_of(x)
        return cast(stop_gradient(value), dtype), cast(stop_gradient(gradient), dtype)

    def slope(self, x: Any) -> Any:
        """Return the gradient for tapes around to see; a `jac` by hand need not be seen by them."""
        return reshape_p(grad(self.scalar)(self.shaped(x), *self.args), shape=(-1,))

    def curvature(self, x: Any) -> Product:
        """Return what the Hessian at x does to a vector.

        The gradient is recorded once; each product is a sweep back over it.
        """
        if self.hessp is not None:
            return lambda p: self._counted(self.hessp(self.shaped(x), self.shaped(p), *self.args))
        if self.hess is not None:
            size = x.shape[0]
            matrix = operand(self.hess(self.shaped(x), *self.args))
            matrix = reshape_p(matrix, shape=(size, size))
            return lambda p: self._counted(matrix @ p)
        pull = vjp(lambda x: grad(self.scalar)(self.shaped(x), *self.args), x)[1]
        return lambda p: self._counted(pull(p))

    def _counted(self, product: Any) -> Any:
        self.products += 1
        return stop_gradient(reshape_p(operand(product), shape=(-1,)))


def _as_scalar(value: Any) -> Any:
    value = operand(value)
    if math.prod(value.shape) != 1:
        raise ShapeError(
            f"The function to minimise must return one number. It returned shape {value.shape}."
        )
    return reshape_p(value, shape=())


@dataclass(frozen=True)
class Seen:
    """Where a search stands: the point and its gradient, and what the host knows of them."""

    x: Any
    gradient: Any
    value: float
    size: float = 0.0


@dataclass(frozen=True)
class Ended:
    """How a search ended."""

    seen: Seen
    rounds: int
    status: int
    extra: dict[str, Any] = field(default_factory=dict)


class Watcher:
    """Calls the user after each iteration; StopIteration from there ends the search."""

    def __init__(self, callback: Callable[..., Any] | None, shape: tuple[int, ...]) -> None:
        self._callback, self._shape = callback, shape
        self._takes_result = callback is not None and _takes_result(callback)

    def stops(self, x: Any, value: float) -> bool:
        """Tell the user of a point; return whether to stop there."""
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
    """SciPy tells the two kinds of callbacks apart by the name of their one parameter."""
    try:
        return list(inspect.signature(callback).parameters) == ["intermediate_result"]
    except (TypeError, ValueError):
        return False
