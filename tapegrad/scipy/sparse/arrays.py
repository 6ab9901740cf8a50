"""The three formats of sparse matrices: coo_array, csr_array and csc_array.

All keep a tensor of entries and for each its row and column; they differ in the order of the
entries and in how they are given.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.convert import register_tensor_conversion_function
from tapegrad.scipy.sparse.base import SparseArray
from tapegrad.scipy.sparse.structure import pointers_from_rows, sorting


class coo_array(SparseArray):  # noqa: N801  # SciPy's name
    """A sparse matrix by coordinates: entries, their rows and their columns, in any order.

    Made from (data, (row, col)), from a dense matrix, a shape, or a sparse array of SciPy or CuPy.

    >>> a = coo_array(([1.0, 2.0, 3.0], ([0, 1, 1], [0, 0, 2])), shape=(2, 3))
    >>> a.toarray().tolist(), (a @ [1.0, 1.0, 2.0]).tolist()
    ([[1.0, 0.0, 0.0], [2.0, 0.0, 3.0]], [1.0, 8.0])
    """

    format = "coo"

    @property
    def coords(self) -> tuple[Any, Any]:
        """Rows and columns."""
        return self.row, self.col


class csr_array(SparseArray):  # noqa: N801  # SciPy's name
    """A sparse matrix sorted by rows.

    Made from (data, indices, indptr), from (data, (row, col)), from a dense matrix, a shape, or a
    sparse array of SciPy or CuPy; entries at the same place are not summed up.

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
        """Where each row begins among the entries, and the end."""
        return pointers_from_rows(self.row, self.shape[0])

    def _sort(self) -> None:
        order = sorting(self.row, self.col, self.shape[1])
        self.data, self.row, self.col = self._picked(order)


class csc_array(SparseArray):  # noqa: N801  # SciPy's name
    """A sparse matrix sorted by columns; made as csr_array is.

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
        """Where each column begins among the entries, and the end."""
        return pointers_from_rows(self.col, self.shape[1])

    def _sort(self) -> None:
        order = sorting(self.col, self.row, self.shape[0])
        self.data, self.row, self.col = self._picked(order)


# `tensor @ sparse` and the like: a tensor's operators turn what stands beside it into a tensor.
register_tensor_conversion_function(SparseArray, SparseArray.toarray)


def issparse(x: Any) -> bool:
    """Return whether a value is one of our sparse arrays.

    >>> issparse(coo_array((2, 2))), issparse([[1.0]])
    (True, False)
    """
    return isinstance(x, SparseArray)


def as_sparse(value: Any) -> SparseArray:
    """Return a sparse array as it is, and anything else as one by coordinates.

    >>> as_sparse([[0.0, 2.0]])
    <coo_array of 1 x 2, 1 entries, float64>
    """
    return value if isinstance(value, SparseArray) else coo_array(value)
