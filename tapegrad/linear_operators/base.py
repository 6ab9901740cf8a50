"""LinearOperator: matrices that compute products and solutions by their structure.

A class gives at least `_shape` and `_matmul`, as in TensorFlow. Everything else has a default that
uses the dense matrix, and a class with structure overrides what it knows better.
"""

from __future__ import annotations

import inspect
from typing import Any, Self

from tapegrad.core.values.dtypes import DType, as_dtype
from tapegrad.core.values.tensor_shape import TensorShape
from tapegrad.errors import ArgumentError, ShapeError, UnimplementedError
from tapegrad.linear_operators.arguments import right_side
from tapegrad.linear_operators.assertions import Assertions
from tapegrad.linear_operators.hints import Hints
from tapegrad.linear_operators.registry import make
from tapegrad.module import Module
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import constant, eye
from tapegrad.ops.elementwise.exponential import exp, log
from tapegrad.ops.elementwise.magnitude import abs as size_of
from tapegrad.ops.linalg.common import adjoint_of
from tapegrad.ops.linalg.decompositions import cholesky
from tapegrad.ops.linalg.determinants import det, slogdet
from tapegrad.ops.linalg.eigen import eigvals, eigvalsh, svdvals
from tapegrad.ops.linalg.solve import cholesky_solve, solve
from tapegrad.ops.reduction.primitives import max as largest, min as smallest, sum as sum_over
from tapegrad.ops.shape.diagonal import matrix_diag_part
from tapegrad.ops.shape.primitives import reshape_p


class LinearOperator(Hints, Assertions, Module):
    """Base class of operators: matrices `[..., m, n]` that need not be stored.

    The hints `is_non_singular`, `is_self_adjoint`, `is_positive_definite` and `is_square` choose
    algorithms. They are believed, not checked; `assert_...` methods check them.

    >>> from tapegrad.linalg import LinearOperatorDiag
    >>> operator = LinearOperatorDiag([1.0, 2.0])
    >>> operator.matvec([3.0, 4.0]).tolist(), operator.to_dense().shape
    ([3.0, 8.0], (2, 2))
    """

    _arguments: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Keep the arguments as `parameters`."""
        self = super().__new__(cls)
        try:
            given = inspect.signature(cls.__init__).bind(None, *args, **kwargs)
        except TypeError:
            return self  # the call of __init__ says what is wrong
        given.apply_defaults()
        self._arguments = {k: v for k, v in given.arguments.items() if k != "self"}
        return self

    def __init__(
        self,
        dtype: Any,
        graph_parents: Any = None,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
        parameters: Any = None,
    ) -> None:
        super().__init__()
        self._name = name or type(self).__name__
        self._dtype = None if dtype is None else as_dtype(dtype)
        self._parameters = parameters
        self._set_hints(is_non_singular, is_self_adjoint, is_positive_definite, is_square)

    @property
    def dtype(self) -> DType:
        return self._dtype  # type: ignore[return-value]

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments that the operator was made with."""
        return dict(self._arguments if self._parameters is None else self._parameters)

    @property
    def graph_parents(self) -> list[Any]:
        """An empty list: there are no graphs."""
        return []

    # Shapes

    def _shape(self) -> Any:
        raise UnimplementedError(f"{type(self).__name__} must define _shape.")

    @property
    def shape(self) -> TensorShape:
        return TensorShape(self._shape())

    @property
    def batch_shape(self) -> TensorShape:
        return self.shape[:-2]

    @property
    def tensor_rank(self) -> int:
        return len(self.shape)

    @property
    def range_dimension(self) -> int:
        """The number of rows."""
        return self.shape[-2]

    @property
    def domain_dimension(self) -> int:
        """The number of columns."""
        return self.shape[-1]

    def shape_tensor(self, name: str = "shape_tensor") -> Any:
        """Return the shape as a tensor."""
        return constant([*self.shape], dtype="int32")

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Any:
        """Return the shape of the batch as a tensor."""
        return constant([*self.batch_shape], dtype="int32")

    def tensor_rank_tensor(self, name: str = "tensor_rank_tensor") -> Any:
        """Return the number of axes as a tensor."""
        return constant(self.tensor_rank, dtype="int32")

    def range_dimension_tensor(self, name: str = "range_dimension_tensor") -> Any:
        """Return the number of rows as a tensor."""
        return constant(self.range_dimension, dtype="int32")

    def domain_dimension_tensor(self, name: str = "domain_dimension_tensor") -> Any:
        """Return the number of columns as a tensor."""
        return constant(self.domain_dimension, dtype="int32")

    # Products

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        raise UnimplementedError(f"{type(self).__name__} must define _matmul.")

    def _matvec(self, x: Any, adjoint: bool = False) -> Any:
        column = reshape_p(x, shape=(*x.shape, 1))
        return _first_column(self._matmul(column, adjoint=adjoint))

    def matmul(
        self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul"
    ) -> Any:
        """Return A @ x, or A^H @ x with `adjoint`, or A @ x^H with `adjoint_arg`.

        The product with another operator is an operator.
        """
        if isinstance(x, LinearOperator):
            left = self.adjoint() if adjoint else self
            return left.compose(x.adjoint() if adjoint_arg else x)
        x = self._argument(x, "matmul", adjoint, adjoint_arg)
        return self._matmul(x, adjoint=bool(adjoint))

    def __matmul__(self, other: Any) -> Any:
        return self.matmul(other)

    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Any:
        """Return A @ x, or A^H @ x with `adjoint`, for vectors in the last axis."""
        x = right_side(x, self._dtype_or_of(x), "matvec", 1)
        self._check_rows(x.shape[-1], "matvec", adjoint)
        return self._matvec(x, adjoint=bool(adjoint))

    def compose(self, other: LinearOperator) -> LinearOperator:
        """Return the product of two operators as an operator."""
        if self.domain_dimension != other.range_dimension:
            raise ShapeError(
                f"Operators of shapes {self.shape} and {other.shape} cannot be multiplied."
            )
        return self._compose(other) or other._compose_from_left(self) or _composed(self, other)

    def _compose(self, other: LinearOperator) -> LinearOperator | None:
        """Return self @ other if that has a simpler form than a composition."""
        return None

    def _compose_from_left(self, other: LinearOperator) -> LinearOperator | None:
        """Return other @ self if that has a simpler form than a composition."""
        return None

    # Solutions

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        if self.is_self_adjoint and self.is_positive_definite:
            return cholesky_solve(cholesky(self._to_dense()), rhs)
        return solve(self._to_dense(), rhs, adjoint=adjoint)

    def _solvevec(self, rhs: Any, adjoint: bool = False) -> Any:
        column = reshape_p(rhs, shape=(*rhs.shape, 1))
        return _first_column(self._solve(column, adjoint=adjoint))

    def solve(
        self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve"
    ) -> Any:
        """Return X with A @ X = rhs, or with A^H @ X = rhs, or with A @ X = rhs^H.

        The solution for another operator is an operator.
        """
        self._check_solvable("solve")
        if isinstance(rhs, LinearOperator):
            left = self.adjoint() if adjoint else self
            return left.inverse().compose(rhs.adjoint() if adjoint_arg else rhs)
        rhs = self._argument(rhs, "solve", not adjoint, adjoint_arg)
        return self._solve(rhs, adjoint=bool(adjoint))

    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solve") -> Any:
        """Return x with A @ x = rhs, or with A^H @ x = rhs, for vectors in the last axis."""
        self._check_solvable("solvevec")
        rhs = right_side(rhs, self._dtype_or_of(rhs), "solvevec", 1)
        self._check_rows(rhs.shape[-1], "solvevec", not adjoint)
        return self._solvevec(rhs, adjoint=bool(adjoint))

    def inverse(self, name: str = "inverse") -> LinearOperator:
        """Return the inverse as an operator."""
        self._check_solvable("inverse")
        return self._inverse()

    def _inverse(self) -> LinearOperator:
        return make("inversion", self)  # type: ignore[no-any-return]

    def adjoint(self, name: str = "adjoint") -> LinearOperator:
        """Return the conjugate transpose as an operator."""
        return self if self.is_self_adjoint else self._adjoint()

    H = property(adjoint)

    def _adjoint(self) -> LinearOperator:
        return make("adjoint", self)  # type: ignore[no-any-return]

    def cholesky(self, name: str = "cholesky") -> LinearOperator:
        """Return the Cholesky factor as an operator; needs the hints that there is one."""
        if not (self.is_positive_definite and self.is_self_adjoint):
            raise ArgumentError(
                "cholesky needs an operator with the hints is_self_adjoint=True and "
                "is_positive_definite=True."
            )
        return self._cholesky()

    def _cholesky(self) -> LinearOperator:
        factor = cholesky(self._to_dense())
        return make("triangle", factor, is_non_singular=True)  # type: ignore[no-any-return]

    # Numbers of the matrix

    def _to_dense(self) -> Any:
        batch = [*self.batch_shape]
        unit = eye(self.domain_dimension, batch_shape=batch, dtype=self.dtype)
        return self._matmul(unit)

    def to_dense(self, name: str = "to_dense") -> Any:
        """Return the matrix."""
        return self._to_dense()

    def _diag_part(self) -> Any:
        return matrix_diag_part(self._to_dense())

    def diag_part(self, name: str = "diag_part") -> Any:
        """Return the diagonal."""
        return self._diag_part()

    def _trace(self) -> Any:
        return sum_over(self._diag_part(), axis=-1)

    def trace(self, name: str = "trace") -> Any:
        """Return the sum of the diagonal."""
        return self._trace()

    def _add_to_tensor(self, x: Any) -> Any:
        return self._to_dense() + x

    def add_to_tensor(self, x: Any, name: str = "add_to_tensor") -> Any:
        """Return A + x."""
        x = right_side(x, self._dtype_or_of(x), "add_to_tensor", 2)
        return self._add_to_tensor(x)

    def _determinant(self) -> Any:
        if self.is_self_adjoint and self.is_positive_definite:
            return exp(self._log_abs_determinant())
        return det(self._to_dense())

    def determinant(self, name: str = "det") -> Any:
        """Return the determinant."""
        self._check_square("determinant")
        return self._determinant()

    def _log_abs_determinant(self) -> Any:
        if self.is_self_adjoint and self.is_positive_definite:
            factor = matrix_diag_part(cholesky(self._to_dense()))
            return 2.0 * sum_over(log(factor), axis=-1)
        return slogdet(self._to_dense())[1]

    def log_abs_determinant(self, name: str = "log_abs_det") -> Any:
        """Return the logarithm of the absolute value of the determinant."""
        self._check_square("log_abs_determinant")
        return cast(self._log_abs_determinant(), self.dtype)

    def _eigvals(self) -> Any:
        dense = self._to_dense()
        return eigvalsh(dense) if self.is_self_adjoint else eigvals(dense)

    def eigvals(self, name: str = "eigvals") -> Any:
        """Return the eigenvalues, of a self-adjoint operator only."""
        if not self.is_self_adjoint:
            raise ArgumentError(
                "eigvals needs an operator with the hint is_self_adjoint=True. Otherwise use "
                "tapegrad.linalg.eigvals of to_dense()."
            )
        return self._eigvals()

    def _cond(self) -> Any:
        values = size_of(self._eigvals()) if self.is_self_adjoint else svdvals(self._to_dense())
        return largest(values, axis=-1) / smallest(values, axis=-1)

    def cond(self, name: str = "cond") -> Any:
        """Return the condition number in the norm 2."""
        self._check_square("cond")
        return self._cond()

    # Checks

    def _dtype_or_of(self, x: Any) -> DType:
        """Return the dtype that arguments must have; an operator without a dtype takes any."""
        return self._dtype or as_dtype(getattr(x, "dtype", "float32"))

    def _argument(self, x: Any, name: str, adjoint: bool, adjoint_arg: bool) -> Any:
        x = right_side(x, self._dtype_or_of(x), name, 2)
        x = adjoint_of(x) if adjoint_arg else x
        self._check_rows(x.shape[-2], name, adjoint)
        return x

    def _check_rows(self, rows: int, name: str, adjoint: bool) -> None:
        wanted = self.range_dimension if adjoint else self.domain_dimension
        if rows != wanted:
            raise ShapeError(
                f"{name} of an operator of shape {tuple(self.shape)} needs {wanted} rows. "
                f"Got {rows}."
            )

    def _check_square(self, name: str) -> None:
        if self.is_square is False:
            raise ArgumentError(f"{name} needs a square operator. Got {tuple(self.shape)}.")

    def _check_solvable(self, name: str) -> None:
        self._check_square(name)
        if self.is_non_singular is False:
            raise ArgumentError(f"{name} needs an operator that is not singular.")

    def __repr__(self) -> str:
        shape, dtype = tuple(self.shape), self._dtype
        return f"<{type(self).__name__} {self.name!r}: shape={shape}, dtype={dtype}>"


def _first_column(x: Any) -> Any:
    return reshape_p(x, shape=tuple(x.shape[:-1]))


def _composed(left: LinearOperator, right: LinearOperator) -> LinearOperator:
    return make("composition", [left, right])  # type: ignore[no-any-return]
