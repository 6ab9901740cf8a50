"""The sparse formats coo_array, csr_array and csc_array.

All store a tensor of entries with the row and the column of each. They differ in the order of the
entries and in their constructors.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.values.convert import register_tensor_conversion_function
from tapegrad.scipy.sparse.base import SparseArray
from tapegrad.scipy.sparse.structure import lexsort, pointers_from_rows


class coo_array(SparseArray):  # noqa: N801  # SciPy's name
    """A sparse matrix in coordinate format: entries, rows and columns in any order.

    It is made from (data, (row, col)), a dense matrix, a shape, or a sparse array of SciPy or CuPy.

    >>> a = coo_array(([1.0, 2.0, 3.0], ([0, 1, 1], [0, 0, 2])), shape=(2, 3))
    >>> a.toarray().tolist(), (a @ [1.0, 1.0, 2.0]).tolist()
    ([[1.0, 0.0, 0.0], [2.0, 0.0, 3.0]], [1.0, 8.0])
    """

    format = "coo"

    @property
    def coords(self) -> tuple[Any, Any]:
        """The rows and columns of the entries."""
        return self.row, self.col


class csr_array(SparseArray):  # noqa: N801  # SciPy's name
    """A sparse matrix in compressed row format.

    It is made from (data, indices, indptr), (data, (row, col)), a dense matrix, a shape, or a
    sparse array of SciPy or CuPy. Duplicate entries are not summed.

    >>> a = csr_array(([1.0, 2.0, 3.0], [0, 0, 2], [0, 1, 3]), shape=(2, 3))
    >>> a.toarray().tolist(), a.indptr.tolist()
    ([[1.0, 0.0, 0.0], [2.0, 0.0, 3.0]], [0, 1, 3])
    """

    format = "csr"

    @property
    def indices(self) -> Any:
        """The column of each entry."""
        return self.col

    @property
    def indptr(self) -> Any:
        """The start of each row among the entries, followed by the end."""
        return pointers_from_rows(self.row, self.shape[0])

    def _sort(self) -> None:
        order = lexsort(self.row, self.col, self.shape[1])
        self.data, self.row, self.col = self._picked(order)


class csc_array(SparseArray):  # noqa: N801  # SciPy's name
    """A sparse matrix in compressed column format, with the constructors of csr_array.

    >>> a = csc_array([[1.0, 0.0], [2.0, 3.0]])
    >>> a.indices.tolist(), a.indptr.tolist()
    ([0, 1, 1], [0, 2, 3])
    """

    format = "csc"

    @property
    def indices(self) -> Any:
        """The row of each entry."""
        return self.row

    @property
    def indptr(self) -> Any:
        """The start of each column among the entries, followed by the end."""
        return pointers_from_rows(self.col, self.shape[1])

    def _sort(self) -> None:
        order = lexsort(self.col, self.row, self.shape[0])
        self.data, self.row, self.col = self._picked(order)


# Operators of tensors convert the other operand to a tensor; this supports `tensor @ sparse`.
register_tensor_conversion_function(SparseArray, SparseArray.toarray)


def issparse(x: Any) -> bool:
    """Return whether a value is a sparse array of this package.

    >>> issparse(coo_array((2, 2))), issparse([[1.0]])
    (True, False)
    """
    return isinstance(x, SparseArray)


def as_sparse(value: Any) -> SparseArray:
    """Return sparse arrays as they are and convert anything else to a coo_array.

    >>> as_sparse([[0.0, 2.0]])
    <coo_array of 1 x 2, 1 entries, float64>
    """
    return value if isinstance(value, SparseArray) else coo_array(value)
