"""Toeplitz matrices, whose products are convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.errors import DTypeError, ShapeError
from tapegrad.linear_operators.arguments import batch_of, parameter, require
from tapegrad.linear_operators.base import LinearOperator
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise.complex_numbers import real
from tapegrad.ops.fourier.transforms import fftn, ifftn
from tapegrad.ops.indexing.gather import place_next_to, take_p
from tapegrad.ops.linalg.common import as_column
from tapegrad.ops.products.primitives import conjugate
from tapegrad.ops.shape.functions import broadcast_to
from tapegrad.ops.shape.joining import concat
from tapegrad.ops.shape.rearranging import flip


class LinearOperatorToeplitz(LinearOperator):
    """The matrix with constant diagonals that has this first column and this first row.

    The first entry is that of the column. Products are Fourier transforms of twice the length.

    >>> LinearOperatorToeplitz([1.0, 2.0], [1.0, 3.0]).to_dense().tolist()
    [[1.0, 3.0], [2.0, 1.0]]
    """

    def __init__(
        self,
        col: Any,
        row: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorToeplitz",
    ) -> None:
        require(is_square, "Toeplitz operator", "square")
        self._col, self._row = parameter(col, "col", 1), parameter(row, "row", 1)
        if self._col.shape[-1] != self._row.shape[-1]:
            raise ShapeError(
                "LinearOperatorToeplitz needs a column and a row of the same length. Got shapes "
                f"{tuple(self._col.shape)} and {tuple(self._row.shape)}."
            )
        if self._col.dtype != self._row.dtype:
            raise DTypeError(
                "LinearOperatorToeplitz needs a column and a row of one dtype. Got "
                f"{self._col.dtype} and {self._row.dtype}."
            )
        hints = (is_non_singular, is_self_adjoint, is_positive_definite, True)
        super().__init__(self._col.dtype, None, *hints, name=name)

    @property
    def col(self) -> Any:
        return self._col

    @property
    def row(self) -> Any:
        return self._row

    def _batch(self) -> tuple[int, ...]:
        return batch_of(tuple(self._col.shape[:-1]), tuple(self._row.shape[:-1]))

    def _shape(self) -> Any:
        size = self._col.shape[-1]
        return (*self._batch(), size, size)

    def _ring(self, adjoint: bool) -> Any:
        """Return the first column of a circulant matrix that contains this one."""
        shape = (*self._batch(), self._col.shape[-1])
        col, row = broadcast_to(self._col, shape), broadcast_to(self._row, shape)
        if adjoint:
            first = conjugate(col[..., :1])
            col, row = concat([first, conjugate(row[..., 1:])], -1), conjugate(col)
        return concat([col, flip(row[..., 1:], axis=-1)], -1)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        ring = self._ring(adjoint)
        size, length = x.shape[-2], ring.shape[-1]
        spectrum = as_column(fftn(_complex(ring), axes=(-1,)))
        product = fftn(_complex(x), s=(length,), axes=(-2,)) * spectrum
        found = ifftn(product, axes=(-2,))[..., :size, :]
        return cast(found if self.dtype.kind == "c" else real(found), self.dtype)

    def _to_dense(self) -> Any:
        size = self._col.shape[-1]
        places = (np.arange(size)[:, None] - np.arange(size)) % max(2 * size - 1, 1)
        ring = self._ring(adjoint=False)
        return take_p(ring, place_next_to(ring, places), axis=len(ring.shape) - 1)

    def _diag_part(self) -> Any:
        return broadcast_to(self._col[..., :1], (*self._batch(), self._col.shape[-1]))

    def _adjoint(self) -> LinearOperator:
        ring = self._ring(adjoint=True)
        size = self._col.shape[-1]
        first = ring[..., :1]
        row = concat([first, flip(ring[..., size:], axis=-1)], -1)
        hints = (self.is_non_singular, self.is_self_adjoint, self.is_positive_definite)
        return LinearOperatorToeplitz(ring[..., :size], row, *hints)


def _complex(x: Any) -> Any:
    return cast(x, "complex128" if x.dtype in ("float64", "complex128") else "complex64")
