"""Iterative sparse solvers with implicit gradients.

With A x = b, x changes by A^-1 (db - dA x). The gradient of b is the solution of the adjoint
system, and the gradient of each entry of A follows from it and x. The iterations are not recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.core.values.convert import NUMBERS
from tapegrad.errors import ArgumentError
from tapegrad.scipy.sparse.arrays import coo_array
from tapegrad.scipy.sparse.base import SparseArray
from tapegrad.scipy.sparse.linalg import krylov
from tapegrad.scipy.sparse.linalg.direct import as_square, check_side
from tapegrad.scipy.sparse.linalg.functions import (
    Apply,
    Iterate,
    as_function,
    check_result,
    solve_with_gradients,
)
from tapegrad.scipy.vocabulary import (
    cast,
    conjugate,
    largest,
    maximum,
    numpy_dtype_of,
    operand,
    operands,
    stop_gradient,
    take,
    where,
    zeros_like,
)


def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Any = None,
) -> tuple[Any, Any]:
    """Solve A x = b by conjugate gradients; return x and 0, or the iterations without convergence.

    A must be Hermitian and positive definite, and M approximates its inverse. Each is a sparse or
    dense matrix, a LinearOperator, or a function of a vector. Gradients flow to b and to the
    entries of A, or to everything that the function A reads. They are solved for with the same
    `rtol`.

    >>> x, info = cg(coo_array([[2.0, 0.0], [0.0, 4.0]]), [2.0, 2.0])
    >>> x.tolist(), int(info)
    ([1.0, 0.5], 0)
    """
    return _solved("cg", krylov.cg, A, b, x0, rtol, atol, maxiter, M, callback)


def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Any = None,
) -> tuple[Any, Any]:
    """Solve A x = b by stabilized biconjugate gradients; the result is that of `cg`.

    >>> x, info = bicgstab(coo_array([[2.0, 1.0], [0.0, 4.0]]), [2.0, 4.0])
    >>> x.round(6).tolist(), int(info)
    ([0.5, 1.0], 0)
    """
    return _solved("bicgstab", krylov.bicgstab, A, b, x0, rtol, atol, maxiter, M, callback)


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: Any = None,
    callback: Any = None,
    callback_type: str | None = None,
) -> tuple[Any, Any]:
    """Solve A x = b by generalized minimal residuals; the result is that of `cg`.

    `maxiter` counts restarts, each after `restart` products (20 by default).

    >>> x, info = gmres(coo_array([[2.0, 1.0], [0.0, 4.0]]), [2.0, 4.0])
    >>> x.round(6).tolist(), int(info)
    ([0.5, 1.0], 0)
    """
    count = 20 if restart is None else int(restart)
    method = partial(krylov.gmres, restart=count)
    return _solved("gmres", method, A, b, x0, rtol, atol, maxiter, M, callback)


def minres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    maxiter: int | None = None,
    M: Any = None,
    callback: Any = None,
) -> tuple[Any, Any]:
    """Solve A x = b by minimal residuals; the result is that of `cg`.

    A must be Hermitian and may be indefinite. Preconditioners are not supported.

    >>> x, info = minres(coo_array([[2.0, 0.0], [0.0, -4.0]]), [2.0, 2.0])
    >>> x.round(6).tolist(), int(info)
    ([1.0, -0.5], 0)
    """
    if M is not None:
        raise ArgumentError("minres does not support a preconditioner M. Use gmres or cg.")

    def method(apply: Apply, b: Any, x: Any, goal: Any, limit: int | None, near: Apply) -> Any:
        return krylov.minres(apply, b, x, goal, limit)

    return _solved("minres", method, A, b, x0, rtol, 0.0, maxiter, None, callback)


def _solved(
    name: str,
    method: Callable[..., tuple[Any, Any]],
    A: Any,
    b: Any,
    x0: Any,
    rtol: float,
    atol: float,
    maxiter: int | None,
    M: Any,
    callback: Any,
) -> tuple[Any, Any]:
    def iterate(apply: Apply, near: Apply, b: Any, x: Any) -> tuple[Any, Any]:
        return method(apply, b, x, _goal(b, rtol, atol), maxiter, near)

    if callback is not None:
        raise ArgumentError(
            f"{name} does not support callback, because its iterations may run on a device."
        )
    functions = as_function(A)
    if functions is None:
        matrix = as_square(A, name)
        data, right = operands(matrix.data, operand(b))
        check_side(matrix, right, name, most=1)
    else:
        right = operand(b)
        check_result(functions[0], right, name)
    near = _preconditioner(M, name)
    start = zeros_like(right) if x0 is None else cast(operand(x0), numpy_dtype_of(right))
    if functions is None:
        system = _System(iterate, matrix, near)
        x, is_solved = system.solve_with_gradients(data, right, start)
    else:
        x, is_solved = solve_with_gradients(iterate, functions, near, right, start)
    rounds = 10 * right.shape[0] if maxiter is None else int(maxiter)
    return x, where(is_solved, 0, rounds)


def _preconditioner(M: Any, name: str) -> tuple[Apply, Apply]:
    """Return a preconditioner and its adjoint as functions; it gets no gradient."""
    if M is None:
        return krylov.no_preconditioner, krylov.no_preconditioner
    functions = as_function(M)
    if functions is not None:
        ahead, back = functions
        return (lambda v: stop_gradient(ahead(v))), (lambda v: stop_gradient(back(v)))
    matrix = _constant(as_square(M, name))
    adjoint = matrix.transpose().conj()
    return (lambda v: matrix @ v), (lambda v: adjoint @ v)


class _System:
    """A sparse system whose solutions have gradients for the entries and the right side."""

    def __init__(self, iterate: Iterate, matrix: SparseArray, near: tuple[Apply, Apply]) -> None:
        self.iterate, self.matrix, self.near = iterate, matrix, near

    def solve_with_gradients(self, data: Any, right: Any, start: Any) -> tuple[Any, Any]:
        """Return the solution for these entries, and whether it converged."""
        fixed = _constant(self.matrix._like(data))
        sides = stop_gradient(right), stop_gradient(start)
        x, is_solved = self.iterate(lambda v: fixed @ v, self.near[0], *sides)
        return self._with_gradients(stop_gradient(x), data, right), is_solved

    def _with_gradients(self, found: Any, data: Any, right: Any) -> Any:
        """Return `found` with the gradients of the solution."""

        def solution(data: Any, right: Any, found: Any) -> Any:
            def gradient(upstream: Any) -> Any:
                # Attach the gradients to x again, for higher derivatives.
                x = self._with_gradients(found, data, right)
                start = zeros_like(upstream)
                adjoint, _ = self._adjoint().solve_with_gradients(conjugate(data), upstream, start)
                row = take(adjoint, self.matrix.row)
                column = take(x, self.matrix.col)
                return -row * conjugate(column), adjoint, None

            return found * 1.0, gradient

        return custom_gradient(solution)(data, right, found)

    def _adjoint(self) -> _System:
        """Return the system with transposed positions; the caller conjugates the entries."""
        return _System(self.iterate, self.matrix.transpose(), self.near[::-1])


def _constant(matrix: SparseArray) -> Any:
    return matrix._like(stop_gradient(matrix.data))


def _goal(b: Any, rtol: float, atol: float) -> Any:
    own = krylov.length(b) * rtol
    return maximum(own, float(atol)) if type(atol) in NUMBERS else maximum(own, atol)


def norm(x: Any, ord: Any = None, axis: Any = None) -> Any:
    """Return the Frobenius norm of a sparse matrix, or its 1- or infinity-norm.

    >>> norm(coo_array([[3.0, 0.0], [0.0, 4.0]])).tolist()
    5.0
    """
    matrix = x if isinstance(x, SparseArray) else coo_array(x)
    single = matrix.sum_duplicates()
    if ord in (None, "fro", "f") and axis is None:
        return krylov.length(single.data)
    if ord in (1, float("inf")) and axis is None:
        return largest(abs(single).sum(axis=0 if ord == 1 else 1))
    if ord in (None, 2) and axis in (0, 1, -1, -2):
        squares = single.data * conjugate(single.data)
        return single._like(squares).sum(axis=axis) ** 0.5
    raise ArgumentError(
        "ord of a sparse matrix must be 'fro', 1 or inf, or 2 along an axis. "
        f"Got ord={ord!r} and axis={axis!r}."
    )
