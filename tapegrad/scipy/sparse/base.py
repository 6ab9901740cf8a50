"""The base class of sparse arrays: entries, positions, arithmetic and products.

Entries with the same position are added. Only functions that are not linear in the entries sum
duplicates first, which reads the positions on the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.values.convert import NUMBERS
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.indexing.segment import segment_sum_p
from tapegrad.scipy.sparse import parts, selecting
from tapegrad.scipy.sparse.structure import flat_places, on_host, product_pairs, unique_places
from tapegrad.scipy.vocabulary import (
    cast,
    concat,
    conjugate,
    matrix_transpose,
    operand,
    operands,
    place_next_to,
    reshape_p,
    sum_over,
    take,
    take_add_p,
    where,
)


class SparseArray:
    """The base class of the three formats: entries, positions, arithmetic and products."""

    format: ClassVar[str] = ""
    formats: ClassVar[dict[str, type[SparseArray]]] = {}
    # Makes NumPy and CuPy defer `array @ sparse` to this class.
    __array_priority__ = 200
    __array_ufunc__ = None

    data: Any
    row: Any
    col: Any
    shape: tuple[int, int]
    has_canonical_format: bool

    def __init_subclass__(cls) -> None:
        cls.formats[cls.format] = cls

    def __init__(self, arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False) -> None:
        entries = parts.read(arg1, shape, self.format, SparseArray)
        data = entries.data if dtype is None else cast(entries.data, dtype)
        self._set(data, entries.row, entries.col, entries.shape, entries.is_canonical)
        if entries.order not in ("", self.format):
            self._sort()

    def _set(
        self, data: Any, row: Any, col: Any, shape: tuple[int, int], is_canonical: bool
    ) -> None:
        self.data, self.row, self.col = data, row, col
        self.shape = shape
        self.has_canonical_format = is_canonical

    @classmethod
    def from_parts(
        cls, data: Any, row: Any, col: Any, shape: tuple[int, int], is_canonical: bool
    ) -> Any:
        """Return an array from matching tensors, sorted for the format."""
        made = cls.__new__(cls)
        made._set(data, row, col, shape, is_canonical)
        return made

    def _sort(self) -> None:
        """Sort the entries for the format; COO allows any order."""

    def _picked(self, places: Any) -> tuple[Any, Any, Any]:
        data, row, col = (take(x, places) for x in (self.data, self.row, self.col))
        return data, row, col

    def _like(self, data: Any) -> Any:
        """Return an array with the same positions and other entries."""
        return self.from_parts(data, self.row, self.col, self.shape, self.has_canonical_format)

    # Attributes

    @property
    def dtype(self) -> Any:
        """The dtype of the entries."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """Always 2."""
        return 2

    @property
    def nnz(self) -> int:
        """The number of stored entries, including explicit zeros."""
        return int(self.data.shape[0])

    size = nnz

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"<{self.format}_array of {rows} x {columns}, {self.nnz} entries, {self.dtype.name}>"

    # Conversions

    def toarray(self, order: Any = None) -> Any:
        """Return the dense tensor; gradients flow to the stored entries."""
        rows, columns = self.shape
        places = flat_places(self.row, self.col, columns)
        flat = take_add_p(self.data, places, axis=0, size=rows * columns)
        return reshape_p(flat, shape=self.shape)

    todense = toarray

    def tocoo(self, copy: bool = True) -> Any:
        """Return the array in COO format."""
        return self._in_format("coo")

    def tocsr(self, copy: bool = False) -> Any:
        """Return the array in CSR format."""
        return self._in_format("csr")

    def tocsc(self, copy: bool = False) -> Any:
        """Return the array in CSC format."""
        return self._in_format("csc")

    def asformat(self, format: str | None, copy: bool = False) -> Any:
        """Return the array in the format of that name."""
        return self if format is None else self._in_format(format)

    def _in_format(self, format: str) -> Any:
        check_choice("The format", format, self.formats)
        if format == self.format:
            return self
        made = self.formats[format].from_parts(
            self.data, self.row, self.col, self.shape, self.has_canonical_format
        )
        made._sort()
        return made

    def transpose(self, axes: Any = None, copy: bool = False) -> Any:
        """Return the transpose; CSR becomes CSC and vice versa."""
        kind = self.formats[{"csr": "csc", "csc": "csr"}.get(self.format, "coo")]
        shape = (self.shape[1], self.shape[0])
        return kind.from_parts(self.data, self.col, self.row, shape, self.has_canonical_format)

    @property
    def T(self) -> Any:  # noqa: N802  # SciPy's name
        """The transpose."""
        return self.transpose()

    def conj(self, copy: bool = True) -> Any:
        """Return the array with conjugate entries."""
        return self._like(conjugate(self.data))

    def astype(self, dtype: Any, casting: str = "unsafe", copy: bool = True) -> Any:
        """Return the array with entries of another dtype."""
        return self._like(cast(self.data, dtype))

    def nonzero(self) -> tuple[Any, Any]:
        """Return rows and columns of the nonzero elements, which are read on the host."""
        single = self.sum_duplicates()
        values = on_host(single.data, "nonzero")
        rows, columns = on_host(single.row, "nonzero"), on_host(single.col, "nonzero")
        order = np.lexsort((columns, rows))
        kept = place_next_to(single.row, order[values[order] != 0])
        return take(single.row, kept), take(single.col, kept)

    def count_nonzero(self) -> int:
        """Return the number of nonzero elements, which are read on the host."""
        return int(np.count_nonzero(on_host(self.sum_duplicates().data, "count_nonzero")))

    def eliminate_zeros(self) -> Any:
        """Return an array without explicit zeros, which are found on the host.

        Unlike SciPy's method it does not modify the array.
        """
        kept = np.flatnonzero(on_host(self.data, "eliminate_zeros"))
        order = place_next_to(self.row, kept)
        return self.from_parts(*self._picked(order), self.shape, self.has_canonical_format)

    def copy(self) -> Any:
        """Return an array with the same entries."""
        return self._like(self.data)

    def sum_duplicates(self) -> Any:
        """Return an array without duplicates; the positions are read on the host."""
        if self.has_canonical_format:
            return self
        rows, columns, inverse = unique_places(self.row, self.col, self.shape[1], "sum_duplicates")
        data = segment_sum_p(self.data, place_next_to(self.row, inverse), num=len(rows))
        row, column = place_next_to(self.row, rows), place_next_to(self.row, columns)
        made = self.from_parts(data, row, column, self.shape, True)
        made._sort()
        return made

    def __getitem__(self, index: Any) -> Any:
        """Return an element, or a sparse matrix of rows and columns given by slices or lists."""
        return selecting.select(self, index)

    # Products

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, SparseArray):
            return self._times_sparse(other)
        data, x = operands(self.data, other)
        if x.ndim not in (1, 2) or x.shape[0] != self.shape[1]:
            raise ShapeError(
                f"A sparse array of shape {self.shape} cannot be multiplied by one of shape "
                f"{x.shape}."
            )
        entries = take(x, self.col)
        weights = data if x.ndim == 1 else reshape_p(data, shape=(self.nnz, 1))
        return segment_sum_p(weights * entries, self.row, num=self.shape[0])

    def __rmatmul__(self, other: Any) -> Any:
        x = operand(other)
        if x.ndim == 1:
            return self.transpose() @ x
        if x.ndim != 2:
            raise ShapeError(
                f"A sparse array can be multiplied by a vector or a matrix. Got shape {x.shape}."
            )
        return matrix_transpose(self.transpose() @ matrix_transpose(x))

    def dot(self, other: Any) -> Any:
        """Return the product with a vector, a matrix or a number."""
        return self * other if type(other) in NUMBERS else self @ other

    def _times_sparse(self, other: SparseArray) -> Any:
        """Multiply two sparse arrays; the positions of the result are found on the host."""
        if self.shape[1] != other.shape[0]:
            raise ShapeError(
                f"A sparse array of shape {self.shape} cannot be multiplied by one of shape "
                f"{other.shape}."
            )
        what = "the product of two sparse arrays"
        rows, columns = on_host(self.row, what), on_host(self.col, what)
        first, second = product_pairs(rows, columns, on_host(other.row, what))
        data, entries = operands(self.data, other.data)
        taken = take(data, place_next_to(data, first))
        taken = taken * take(entries, place_next_to(data, second))
        row, column = rows[first], on_host(other.col, what)[second]
        made = self.formats["coo"].from_parts(
            taken,
            place_next_to(data, row),
            place_next_to(data, column),
            (self.shape[0], other.shape[1]),
            False,
        )
        return made.sum_duplicates()._in_format("csr" if self.format == "coo" else self.format)

    # Arithmetic

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, SparseArray):
            if type(other) in NUMBERS and other == 0:
                return self
            dense, x = operands(self.toarray(), other)
            return dense + x
        if other.shape != self.shape:
            raise ShapeError(f"Shapes {self.shape} and {other.shape} cannot be added.")
        data, entries = operands(self.data, other.data)
        if other.row is self.row and other.col is self.col:
            return self._like(data + entries)
        made = self.formats["coo"].from_parts(
            concat([data, entries]),
            concat([self.row, other.row]),
            concat([self.col, other.col]),
            self.shape,
            False,
        )
        return made._in_format("csr" if self.format == "coo" else self.format)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return (-self) + other

    def __neg__(self) -> Any:
        return self._like(-self.data)

    def __abs__(self) -> Any:
        return self._map_entries(abs)

    def __pow__(self, power: Any) -> Any:
        return self.power(power)

    def power(self, n: Any, dtype: Any = None) -> Any:
        """Return the powers of the elements; n must be positive, so that zeros stay zero."""
        if type(n) in NUMBERS and not n > 0:
            raise ArgumentError(
                f"Elements of a sparse array need powers above 0. Got {n}. Convert it by toarray()."
            )
        made = self._map_entries(lambda x: x**n)
        return made if dtype is None else made.astype(dtype)

    def _map_entries(self, function: Callable[[Any], Any]) -> Any:
        """Apply an elementwise function that maps 0 to 0."""
        single = self.sum_duplicates()
        return single._like(function(single.data))

    def __mul__(self, other: Any) -> Any:
        return self.multiply(other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, SparseArray):
            data, entries = operands(self.toarray(), other.toarray())
            return data / entries
        return self.multiply(1.0 / operand(other))

    def multiply(self, other: Any) -> Any:
        """Multiply elementwise by a number, a dense array or a sparse array.

        For a sparse array the result stores the positions of this array, with zeros where the other
        has no entry.
        """
        if isinstance(other, SparseArray):
            return self._multiply_sparse(other)
        data, x = operands(self.data, other)
        if x.ndim == 0:
            return self._like(data * x)
        shape = tuple(x.shape)
        full = (1, *shape) if len(shape) == 1 else shape
        if len(full) != 2 or any(n not in (1, m) for n, m in zip(full, self.shape, strict=True)):
            raise ShapeError(f"Shapes {self.shape} and {shape} cannot be multiplied elementwise.")
        row = self.row if full[0] > 1 else self.row * 0
        column = self.col if full[1] > 1 else self.col * 0
        flat = reshape_p(x, shape=(math.prod(full),))
        return self._like(data * take(flat, flat_places(row, column, full[1])))

    def _multiply_sparse(self, other: SparseArray) -> Any:
        if other.shape != self.shape:
            raise ShapeError(f"Shapes {self.shape} and {other.shape} cannot be multiplied.")
        one, two = self.sum_duplicates(), other.sum_duplicates()
        data, entries = operands(one.data, two.data)
        if two.row is one.row and two.col is one.col:
            return one._like(data * entries)
        return one._like(data * parts.values_at(one, two, entries))

    # Sums

    def sum(self, axis: Any = None, dtype: Any = None) -> Any:
        """Return the sum of all elements, or of each column (axis 0) or row (axis 1)."""
        data = self.data if dtype is None else cast(self.data, dtype)
        if axis is None:
            return sum_over(data)
        if axis not in (0, 1, -1, -2):
            raise ArgumentError(f"A sparse array has axes 0 and 1. Got {axis!r}.")
        index, count = (self.col, self.shape[1]) if axis in (0, -2) else (self.row, self.shape[0])
        return segment_sum_p(data, index, num=count)

    def mean(self, axis: Any = None, dtype: Any = None) -> Any:
        """Return the mean of all elements including zeros, or of each column or row."""
        count = math.prod(self.shape) if axis is None else self.shape[axis]
        return self.sum(axis, dtype) / float(count)

    def diagonal(self, k: int = 0) -> Any:
        """Return the elements of a diagonal as a dense vector."""
        rows, columns = self.shape
        length = max(0, min(rows + min(k, 0), columns - max(k, 0)))
        inside = self.col - self.row == k
        entries = where(inside, self.data, 0.0)
        place = where(inside, self.row + min(k, 0), length)
        return segment_sum_p(entries, place, num=length + 1)[:length]

    def trace(self, offset: int = 0) -> Any:
        """Return the sum of a diagonal."""
        return sum_over(self.diagonal(offset))
