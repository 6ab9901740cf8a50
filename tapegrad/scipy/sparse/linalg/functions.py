"""Systems whose matrix is a function of a vector, with gradients to all that the function reads.

A solution x of A(x) = b moves by A^-1 (db - dA x). So b - A(x), which is zero, is computed once
more where tapes see it, and a step back through A^-1 is put on top: it adds nothing to the value
and everything to the derivative. Done twice, it gives second derivatives, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.arithmetic import add
from tapegrad.scipy.sparse.arrays import as_sparse
from tapegrad.scipy.vocabulary import operand, stack, stop_gradient, zeros_like

Apply = Callable[[Any], Any]
Iterate = Callable[[Apply, Apply, Any, Any], tuple[Any, Any]]
"""A forward solve: the function, the preconditioner, the right side, the start."""

ORDERS = 2
"""Derivatives that a solution has."""


class LinearOperator:
    """A matrix given by what it does to a vector, for cg, bicgstab and gmres.

    Its adjoint is found by a tape where `rmatvec` is not given.

    >>> import tapegrad
    >>> double = LinearOperator((2, 2), lambda v: 2.0 * v)
    >>> (double @ tapegrad.constant([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """

    def __init__(
        self,
        shape: Any,
        matvec: Apply,
        rmatvec: Apply | None = None,
        matmat: Any = None,
        dtype: Any = None,
        rmatmat: Any = None,
    ) -> None:
        self.shape = tuple(int(n) for n in shape)
        if len(self.shape) != 2:
            raise ShapeError(f"A LinearOperator has two sizes. Got shape {self.shape}.")
        self.matvec = matvec
        self.rmatvec = rmatvec
        self.dtype = dtype

    def __matmul__(self, x: Any) -> Any:
        x = operand(x)
        return self.matvec(x) if x.ndim == 1 else self.matmat(x)

    dot = __matmul__

    def matmat(self, X: Any) -> Any:
        """Return the operator times the columns of a matrix."""
        return stack([self.matvec(X[:, i]) for i in range(X.shape[1])], axis=1)

    @property
    def H(self) -> LinearOperator:  # noqa: N802  # SciPy's name
        """The adjoint."""
        back = self.rmatvec or adjoint_of(self.matvec)
        return LinearOperator(self.shape[::-1], back, self.matvec, dtype=self.dtype)

    def adjoint(self) -> LinearOperator:
        """Return the adjoint."""
        return self.H


def aslinearoperator(A: Any) -> LinearOperator:
    """Return a matrix, sparse or not, as a LinearOperator.

    >>> aslinearoperator([[1.0, 2.0], [3.0, 4.0]]).H.matvec([1.0, 0.0]).tolist()
    [1.0, 2.0]
    """
    if isinstance(A, LinearOperator):
        return A
    matrix = as_sparse(A)
    turned = matrix.transpose().conj()
    return LinearOperator(matrix.shape, matrix.__matmul__, turned.__matmul__, dtype=matrix.dtype)


def as_function(A: Any) -> tuple[Apply, Apply] | None:
    """Return what a function or operator does to a vector, and its adjoint; None for matrices."""
    if isinstance(A, LinearOperator):
        if A.shape[0] != A.shape[1]:
            raise ShapeError(f"A system of equations needs a square operator. Got {A.shape}.")
        return A.matvec, A.rmatvec or adjoint_of(A.matvec)
    return (A, adjoint_of(A)) if callable(A) else None


def adjoint_of(function: Apply) -> Apply:
    """Return the adjoint of a linear function, by a tape.

    >>> import tapegrad
    >>> turn = adjoint_of(lambda v: tapegrad.stack([v[1], 0.0 * v[0]]))
    >>> turn(tapegrad.constant([5.0, 7.0])).tolist()
    [0.0, 5.0]
    """

    def adjoint(v: Any) -> Any:
        with GradientTape(watch_accessed_variables=False) as tape:
            x = zeros_like(v)
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x, output_gradients=v, unconnected_gradients="zero")

    return adjoint


def solved(
    iterate: Iterate, functions: tuple[Apply, Apply], precondition: Any, b: Any, start: Any
) -> tuple[Any, Any]:
    """Return the solution, and whether it was found."""
    apply, adjoint = functions
    near, near_adjoint = precondition
    right = stop_gradient(b)
    x, is_solved = iterate(lambda v: stop_gradient(apply(v)), near, right, stop_gradient(start))
    x = stop_gradient(x)

    def gradient(upstream: Any) -> Any:
        turned, behind = (adjoint, apply), (near_adjoint, near)
        return solved(iterate, turned, behind, upstream, zeros_like(upstream))[0]

    back = custom_gradient(lambda rest: (zeros_like(rest), gradient))
    for _ in range(ORDERS):
        x = add(x, back(b - apply(x)))
    return x, is_solved


def check_result(apply: Apply, b: Any, name: str) -> None:
    """Refuse a function that does not return a vector like the one it gets."""
    found = apply(zeros_like(stop_gradient(b)))
    if tuple(getattr(found, "shape", ())) != b.shape:
        raise ArgumentError(
            f"{name} needs a function that returns vectors of shape {b.shape}, as it gets "
            f"them. It returned {tuple(getattr(found, 'shape', ()))}."
        )
