"""The older coo_matrix, csr_matrix and csc_matrix, whose `*` is the matrix product."""

from __future__ import annotations

from typing import Any, ClassVar

from tapegrad.core.values.convert import NUMBERS
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.scipy.sparse.arrays import coo_array, csc_array, csr_array
from tapegrad.scipy.sparse.base import SparseArray
from tapegrad.scipy.sparse.construct import eye_array
from tapegrad.scipy.vocabulary import conjugate, expand_dims, operand


class Matrix:
    """The operators and attributes in which sparse matrices differ from sparse arrays."""

    formats: ClassVar[dict[str, type[SparseArray]]] = {}

    def __mul__(self: Any, other: Any) -> Any:
        if type(other) in NUMBERS:
            return self.multiply(other)
        if isinstance(other, SparseArray):
            return self @ other
        x = operand(other)
        return self.multiply(x) if x.ndim == 0 else self @ x

    def __rmul__(self: Any, other: Any) -> Any:
        if type(other) in NUMBERS:
            return self.multiply(other)
        x = operand(other)
        return self.multiply(x) if x.ndim == 0 else x @ self

    def __pow__(self: Any, power: Any) -> Any:
        """Return a power of the matrix; `power` has those of its elements."""
        rows, columns = self.shape
        if rows != columns:
            raise ShapeError(f"Powers need a square matrix. Got shape {self.shape}.")
        if type(power) is not int or power < 0:
            raise ArgumentError(f"The power of a sparse matrix must be a count. Got {power!r}.")
        found = eye_array(rows, dtype=self.dtype, format="csr") if power == 0 else self
        for _ in range(power - 1):
            found = found @ self
        return self.formats[self.format](found)

    def sum(self: Any, axis: Any = None, dtype: Any = None) -> Any:
        """Return the sum of all elements, or a row (axis 0) or a column (axis 1) of sums."""
        found = SparseArray.sum(self, axis, dtype)
        return found if axis is None else expand_dims(found, axis)

    def get_shape(self: Any) -> tuple[int, int]:
        """Return the shape."""
        shape: tuple[int, int] = self.shape
        return shape

    def getnnz(self: Any) -> int:
        """Return the number of stored entries."""
        return int(self.nnz)

    def getH(self: Any) -> Any:  # noqa: N802  # SciPy's name
        """Return the conjugate transpose."""
        return self._like(conjugate(self.data)).transpose()

    def __repr__(self: Any) -> str:
        return SparseArray.__repr__(self).replace("_array", "_matrix")


class coo_matrix(Matrix, coo_array):  # noqa: N801  # SciPy's name
    """A matrix in coordinate format; `*` is the matrix product.

    >>> a = coo_matrix(([1.0, 2.0], ([0, 1], [1, 0])), shape=(2, 2))
    >>> (a * [1.0, 2.0]).tolist(), (a * a).toarray().tolist()
    ([2.0, 2.0], [[2.0, 0.0], [0.0, 2.0]])
    """

    format = "coo"


class csr_matrix(Matrix, csr_array):  # noqa: N801  # SciPy's name
    """A matrix in compressed row format, with the constructors of csr_array.

    >>> a = csr_matrix([[1.0, 2.0], [0.0, 3.0]])
    >>> (a**2).toarray().tolist(), a.sum(axis=0).tolist()
    ([[1.0, 8.0], [0.0, 9.0]], [[1.0, 5.0]])
    """

    format = "csr"


class csc_matrix(Matrix, csc_array):  # noqa: N801  # SciPy's name
    """A matrix in compressed column format, with the constructors of csr_array.

    >>> csc_matrix([[1.0, 2.0], [0.0, 3.0]]).tocsr()
    <csr_matrix of 2 x 2, 3 entries, float64>
    """

    format = "csc"


def isspmatrix(x: Any) -> bool:
    """Return whether a value is a sparse matrix, and not a sparse array.

    >>> isspmatrix(csr_matrix((2, 2))), isspmatrix(csr_array((2, 2)))
    (True, False)
    """
    return isinstance(x, Matrix)


def eye(
    m: int, n: int | None = None, k: int = 0, dtype: Any = float, format: str | None = None
) -> Any:
    """Return a sparse matrix with ones on a diagonal.

    >>> eye(2).toarray().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return coo_matrix(eye_array(m, n, k=k, dtype=dtype)).asformat(format)


def find(A: Any) -> tuple[Any, Any, Any]:
    """Return rows, columns and values of the nonzero elements; the host reads the positions.

    >>> rows, columns, values = find(csr_matrix([[0.0, 2.0], [3.0, 0.0]]))
    >>> rows.tolist(), columns.tolist(), values.tolist()
    ([0, 1], [1, 0], [2.0, 3.0])
    """
    made = (A if isinstance(A, SparseArray) else coo_array(A)).tocsr().sum_duplicates()
    kept = made.eliminate_zeros()
    return kept.row, kept.col, kept.data
