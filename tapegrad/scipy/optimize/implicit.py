"""Derivatives of solutions by the implicit function theorem.

A root of F(x, θ) = 0 moves by -J^-1 F_θ dθ, J being the Jacobian of F in x. So F, which is zero, is
computed once more where tapes see it, and a step back through J^-1 is put on top: it adds nothing
to the value and everything to the derivative. Done twice, it gives second derivatives, too. How the
root was found is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.autodiff.transforms import jacobian, vjp
from tapegrad.core.convert import read_on_host
from tapegrad.core.recorder import EMPTY, active_stack, using_stack
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
"""A function from vectors to vectors."""

ORDERS = 2
"""Derivatives that a solution has."""

_LARGEST_MATRIX = 1024
"""Unknowns up to which the Jacobian is made; beyond it only its products are."""

_PRECISION = 1e-10


def quietly() -> using_stack:
    """Return a block in which no tape records: for iterations, whose path has no derivative.

    >>> import tapegrad
    >>> x = tapegrad.constant(2.0)
    >>> with tapegrad.GradientTape() as tape:
    ...     tape.watch(x)
    ...     with quietly():
    ...         y = x * x
    >>> tape.gradient(y, x) is None
    True
    """
    return using_stack(EMPTY)


def is_recorded() -> bool:
    """Whether somebody would see the derivatives of what is computed now."""
    return bool(active_stack().recorders)


def look(how: str, *numbers: Any) -> list[float]:
    """Return several numbers with one look at the device.

    >>> import tapegrad
    >>> look("this example", tapegrad.constant(1.5), 2.0)
    [1.5, 2.0]
    """
    alike = operands(*numbers)
    return [float(number) for number in read_on_host(stack(alike), how)]


def attached(residual: Vectors, found: Any, is_symmetric: bool = False) -> Any:
    """Return a root of `residual`, a vector, with the derivatives that the root has.

    They go to whatever the residual reads: arguments of a caller, variables, tensors.

    >>> import tapegrad
    >>> square = tapegrad.constant([4.0, 16.0])
    >>> with tapegrad.GradientTape() as tape:
    ...     tape.watch(square)
    ...     root = attached(lambda x: x * x - square, tapegrad.constant([2.0, 4.0]))
    >>> tape.gradient(root, square).tolist()
    [0.25, 0.125]
    """
    x = stop_gradient(found)
    if not is_recorded():
        return x
    for _ in range(ORDERS):
        back = custom_gradient(_zero_that_steps_back(residual, x, is_symmetric))
        x = x - back(cast(residual(x), numpy_dtype_of(x)))
    return x


def _zero_that_steps_back(residual: Vectors, x: Any, is_symmetric: bool) -> Callable[..., Any]:
    def solution_step(rest: Any) -> tuple[Any, Vectors]:
        return zeros_like(rest), lambda upstream: _solved_back(residual, x, upstream, is_symmetric)

    return solution_step


def _solved_back(residual: Vectors, x: Any, upstream: Any, is_symmetric: bool) -> Any:
    """The solution u of J^T u = upstream."""
    if x.shape[0] <= _LARGEST_MATRIX:
        matrix = jacobian(residual, mode="reverse")(x)
        return solve(matrix, upstream, adjoint=True)
    pull = vjp(residual, x)[1]
    start = zeros_like(upstream)
    goal = krylov.length(upstream) * _PRECISION
    if is_symmetric:
        return krylov.cg(pull, upstream, start, goal, None, krylov.nothing)[0]
    return krylov.gmres(pull, upstream, start, goal, None, krylov.nothing, restart=50)[0]
