"""Derivatives of solutions by the implicit function theorem.

A root of F(x, θ) = 0 changes by -J^-1 F_θ dθ, where J is the Jacobian of F with respect to x. The
search for the root is not recorded. Afterwards F is evaluated again at the root with recording on,
and x - J^-1 F(x, θ) is returned: F is zero, so the value stays the same and the derivative is
right. A second application gives second derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.autodiff.transforms import jacobian, vjp
from tapegrad.core.recorder import EMPTY, active_stack, using_stack
from tapegrad.core.values.convert import read_on_host
from tapegrad.ops.linalg.solve import solve
from tapegrad.scipy.sparse.linalg import krylov
from tapegrad.scipy.vocabulary import (
    cast,
    numpy_dtype_of,
    operands,
    stack,
    stop_gradient,
    zeros_like,
)

Vectors = Callable[[Any], Any]
"""A vector-valued function of a vector."""

ORDERS = 2
"""The number of derivative orders that a solution supports."""

_LARGEST_MATRIX = 1024
"""Up to this many unknowns the Jacobian is formed; beyond, only products with it are used."""

_PRECISION = 1e-10


def without_recording() -> using_stack:
    """Return a context manager in which no tape records, for iterations of a solver.

    >>> import tapegrad
    >>> x = tapegrad.constant(2.0)
    >>> with tapegrad.GradientTape() as tape:
    ...     tape.watch(x)
    ...     with without_recording():
    ...         y = x * x
    >>> tape.gradient(y, x) is None
    True
    """
    return using_stack(EMPTY)


def is_recording() -> bool:
    """Whether a tape or an accumulator is recording."""
    return bool(active_stack().recorders)


def read_scalars(how: str, *numbers: Any) -> list[float]:
    """Read several scalars from the device in one transfer.

    >>> import tapegrad
    >>> read_scalars("this example", tapegrad.constant(1.5), 2.0)
    [1.5, 2.0]
    """
    alike = operands(*numbers)
    return [float(number) for number in read_on_host(stack(alike), how)]


def with_implicit_derivatives(residual: Vectors, found: Any, is_symmetric: bool = False) -> Any:
    """Return a root of the vector function `residual` with its implicit derivatives.

    They propagate to everything that the residual reads: arguments, variables, tensors.

    >>> import tapegrad
    >>> square = tapegrad.constant([4.0, 16.0])
    >>> with tapegrad.GradientTape() as tape:
    ...     tape.watch(square)
    ...     found = tapegrad.constant([2.0, 4.0])
    ...     root = with_implicit_derivatives(lambda x: x * x - square, found)
    >>> tape.gradient(root, square).tolist()
    [0.25, 0.125]
    """
    x = stop_gradient(found)
    if not is_recording():
        return x
    for _ in range(ORDERS):
        back = custom_gradient(_zero_that_steps_back(residual, x, is_symmetric))
        x = x - back(cast(residual(x), numpy_dtype_of(x)))
    return x


def stationary_point(slope: Vectors, found: Any, held: Any = None) -> Any:
    """Return a root of a gradient with its derivatives; `held` is 1 for variables without any.

    >>> import tapegrad
    >>> found = tapegrad.constant([2.0, 4.0])
    >>> stationary_point(lambda x: x - 1.0, found).tolist()
    [2.0, 4.0]
    """
    if held is None:
        return with_implicit_derivatives(slope, found, is_symmetric=True)

    def stationary(point: Any) -> Any:
        return (1.0 - held) * slope(point) + held * (point - found)

    return with_implicit_derivatives(stationary, found)


def _zero_that_steps_back(residual: Vectors, x: Any, is_symmetric: bool) -> Callable[..., Any]:
    def solution_step(rest: Any) -> tuple[Any, Vectors]:
        return zeros_like(rest), lambda upstream: _solved_back(residual, x, upstream, is_symmetric)

    return solution_step


def _solved_back(residual: Vectors, x: Any, upstream: Any, is_symmetric: bool) -> Any:
    """Solve J^T u = upstream."""
    if x.shape[0] <= _LARGEST_MATRIX:
        matrix = jacobian(residual, mode="reverse")(x)
        return solve(matrix, upstream, adjoint=True)
    pull = vjp(residual, x)[1]
    start = zeros_like(upstream)
    goal = krylov.length(upstream) * _PRECISION
    if is_symmetric:
        return krylov.cg(pull, upstream, start, goal, None, krylov.no_preconditioner)[0]
    return krylov.gmres(pull, upstream, start, goal, None, krylov.no_preconditioner, restart=50)[0]
