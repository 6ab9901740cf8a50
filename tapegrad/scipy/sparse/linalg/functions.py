"""Linear systems given by a function, with gradients for everything that the function reads.

A solution of A(x) = b changes by A^-1 (db - dA x). The residual b - A(x) is evaluated again with
recording on, and x + A^-1 (b - A(x)) is returned: the residual is zero, so the value stays the same
and the derivative is right. A second application gives second derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.autodiff.gradient_tape import TransformTape
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.elementwise.arithmetic import add
from tapegrad.scipy.sparse.arrays import as_sparse
from tapegrad.scipy.vocabulary import operand, stack, stop_gradient, zeros_like

Apply = Callable[[Any], Any]
Iterate = Callable[[Apply, Apply, Any, Any], tuple[Any, Any]]
"""A forward solve: takes function, preconditioner, right side and initial guess."""

ORDERS = 2
"""The number of derivative orders that a solution supports."""


class LinearOperator:
    """A linear operator given by its matrix-vector product, for cg, bicgstab and gmres.

    If `rmatvec` is not given, a tape computes the adjoint.

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
            raise ShapeError(
                f"The shape of a LinearOperator must have two sizes. Got {self.shape}."
            )
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
    """Convert a sparse or dense matrix to a LinearOperator.

    >>> aslinearoperator([[1.0, 2.0], [3.0, 4.0]]).H.matvec([1.0, 0.0]).tolist()
    [1.0, 2.0]
    """
    if isinstance(A, LinearOperator):
        return A
    matrix = as_sparse(A)
    adjoint = matrix.transpose().conj()
    return LinearOperator(matrix.shape, matrix.__matmul__, adjoint.__matmul__, dtype=matrix.dtype)


def as_function(A: Any) -> tuple[Apply, Apply] | None:
    """Return a function or operator and its adjoint as functions; None for matrices."""
    if isinstance(A, LinearOperator):
        if A.shape[0] != A.shape[1]:
            raise ShapeError(f"A linear system needs a square operator. Got shape {A.shape}.")
        return A.matvec, A.rmatvec or adjoint_of(A.matvec)
    return (A, adjoint_of(A)) if callable(A) else None


def adjoint_of(function: Apply) -> Apply:
    """Return the adjoint of a linear function, computed by a tape.

    >>> import tapegrad
    >>> turn = adjoint_of(lambda v: tapegrad.stack([v[1], 0.0 * v[0]]))
    >>> turn(tapegrad.constant([5.0, 7.0])).tolist()
    [0.0, 5.0]
    """

    def adjoint(v: Any) -> Any:
        with TransformTape(watch_accessed_variables=False) as tape:
            x = zeros_like(v)
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x, output_gradients=v, unconnected_gradients="zero")

    return adjoint


def solve_with_gradients(
    iterate: Iterate, functions: tuple[Apply, Apply], precondition: Any, b: Any, start: Any
) -> tuple[Any, Any]:
    """Return the solution with gradients, and whether it converged."""
    apply, adjoint = functions
    near, near_adjoint = precondition
    right = stop_gradient(b)
    x, is_solved = iterate(lambda v: stop_gradient(apply(v)), near, right, stop_gradient(start))
    x = stop_gradient(x)

    def gradient(upstream: Any) -> Any:
        adjoints, behind = (adjoint, apply), (near_adjoint, near)
        return solve_with_gradients(iterate, adjoints, behind, upstream, zeros_like(upstream))[0]

    back = custom_gradient(lambda rest: (zeros_like(rest), gradient))
    for _ in range(ORDERS):
        x = add(x, back(b - apply(x)))
    return x, is_solved


def check_result(apply: Apply, b: Any, name: str) -> None:
    """Raise if a function does not return a vector of the shape of its argument."""
    found = apply(zeros_like(stop_gradient(b)))
    if tuple(getattr(found, "shape", ())) != b.shape:
        raise ArgumentError(
            f"{name} needs a function that returns vectors of the shape {b.shape} of its "
            f"argument. Got {tuple(getattr(found, 'shape', ()))}."
        )
