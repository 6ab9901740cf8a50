"""Circulant operators, which are diagonal after a Fourier transform over 1, 2 or 3 axes."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.values.dtypes import as_dtype
from tapegrad.debugging import assert_near
from tapegrad.errors import DTypeError
from tapegrad.linear_operators.arguments import parameter, require
from tapegrad.linear_operators.base import LinearOperator
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import constant
from tapegrad.ops.elementwise.complex_numbers import real
from tapegrad.ops.elementwise.exponential import log
from tapegrad.ops.elementwise.magnitude import abs as size_of
from tapegrad.ops.fourier.transforms import fftn, ifftn
from tapegrad.ops.linalg.common import as_column
from tapegrad.ops.products.primitives import conjugate, swap_last
from tapegrad.ops.reduction.primitives import mean, prod, sum as sum_over
from tapegrad.ops.shape.functions import broadcast_to
from tapegrad.ops.shape.primitives import reshape_p


class _Circulant(LinearOperator):
    """A matrix F^H diag(spectrum) F, where F is the unitary Fourier transform."""

    _depth = 1

    def __init__(
        self,
        spectrum: Any,
        input_output_dtype: Any = "complex64",
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str | None = None,
    ) -> None:
        require(is_square, "circulant operator", "square")
        self._spectrum = parameter(spectrum, "spectrum", self._depth)
        dtype = as_dtype(input_output_dtype)
        if not dtype.is_differentiable:
            raise DTypeError(f"input_output_dtype must be floating-point or complex. Got {dtype}.")
        if self._spectrum.dtype.kind != "c":
            require(is_self_adjoint, "circulant operator of a real spectrum", "self-adjoint")
            is_self_adjoint = True
        hints = (is_non_singular, is_self_adjoint, is_positive_definite, True)
        super().__init__(dtype, None, *hints, name=name)

    @property
    def spectrum(self) -> Any:
        return self._spectrum

    @property
    def block_depth(self) -> int:
        """The number of axes of the Fourier transform."""
        return self._depth

    @property
    def block_shape(self) -> Any:
        """The lengths of the axes of the Fourier transform."""
        return self._spectrum.shape[-self._depth :]

    def block_shape_tensor(self) -> Any:
        """Return `block_shape` as a tensor."""
        return constant([*self.block_shape], dtype="int32")

    def convolution_kernel(self, name: str = "convolution_kernel") -> Any:
        """Return the kernel with which the operator convolves: the inverse of the spectrum."""
        return self._out(ifftn(self._complex_spectrum(), axes=self._axes()))

    def assert_hermitian_spectrum(self, name: str = "assert_hermitian_spectrum") -> None:
        """Raise unless the operator maps real vectors to real ones."""
        kernel = ifftn(self._complex_spectrum(), axes=self._axes())
        message = "The spectrum is not Hermitian."
        assert_near(kernel, conjugate(kernel), message=message)

    def _axes(self) -> tuple[int, ...]:
        return tuple(range(-self._depth, 0))

    def _size(self) -> int:
        return math.prod(self.block_shape)

    def _shape(self) -> Any:
        size = self._size()
        return (*self._spectrum.shape[: -self._depth], size, size)

    def _complex_dtype(self) -> Any:
        return "complex128" if self.dtype in ("float64", "complex128") else "complex64"

    def _complex_spectrum(self, adjoint: bool = False) -> Any:
        spectrum = cast(self._spectrum, self._complex_dtype())
        return conjugate(spectrum) if adjoint else spectrum

    def _out(self, x: Any) -> Any:
        if self.dtype == x.dtype:
            return x
        return cast(x if self.dtype.kind == "c" else real(x), self.dtype)

    def _filter(self, x: Any, spectrum: Any) -> Any:
        """Multiply the transforms of the columns of x by a spectrum."""
        rows = swap_last(cast(x, self._complex_dtype()))
        lead = tuple(rows.shape[:-1])
        grid = reshape_p(rows, shape=(*lead, *self.block_shape))
        # One more axis of the spectrum stands for the columns.
        batch = tuple(spectrum.shape[: -self._depth])
        spectrum = reshape_p(spectrum, shape=(*batch, 1, *self.block_shape))
        found = ifftn(fftn(grid, axes=self._axes()) * spectrum, axes=self._axes())
        flat = reshape_p(found, shape=(*found.shape[: -self._depth], self._size()))
        return self._out(swap_last(flat))

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._filter(x, self._complex_spectrum(adjoint))

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._filter(rhs, 1.0 / self._complex_spectrum(adjoint))

    def _diag_part(self) -> Any:
        entry = self._out(mean(self._complex_spectrum(), axis=self._axes()))
        return broadcast_to(as_column(entry), (*entry.shape, self._size()))

    def _trace(self) -> Any:
        return self._out(sum_over(self._complex_spectrum(), axis=self._axes()))

    def _determinant(self) -> Any:
        return self._out(prod(self._complex_spectrum(), axis=self._axes()))

    def _log_abs_determinant(self) -> Any:
        return sum_over(log(size_of(self._spectrum)), axis=self._axes())

    def _eigvals(self) -> Any:
        flat = (*self._spectrum.shape[: -self._depth], self._size())
        return self._out(reshape_p(self._complex_spectrum(), shape=flat))

    def _adjoint(self) -> LinearOperator:
        return self._with(conjugate(+self._spectrum), self.is_non_singular)

    def _inverse(self) -> LinearOperator:
        return self._with(1.0 / self._spectrum, True)

    def _compose(self, other: LinearOperator) -> LinearOperator | None:
        same = type(other) is type(self) and other.dtype == self.dtype
        if not same or other.block_shape != self.block_shape:  # type: ignore[attr-defined]
            return None
        return type(self)(
            self._complex_spectrum() * other._complex_spectrum(),  # type: ignore[attr-defined]
            self.dtype,
        )

    def _with(self, spectrum: Any, is_non_singular: bool | None) -> LinearOperator:
        hints = (is_non_singular, self.is_self_adjoint, self.is_positive_definite)
        return type(self)(spectrum, self.dtype, *hints)


class LinearOperatorCirculant(_Circulant):
    """The circulant matrix with the given Fourier transform of its first column.

    >>> operator = LinearOperatorCirculant([3.0, 1.0], input_output_dtype="float32")
    >>> operator.to_dense().tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    """


class LinearOperatorCirculant2D(_Circulant):
    """A circulant matrix of circulant blocks, from a spectrum over two axes.

    >>> LinearOperatorCirculant2D([[3.0, 1.0]], "float32").to_dense().tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    """

    _depth = 2


class LinearOperatorCirculant3D(_Circulant):
    """Circulant blocks in three levels, from a spectrum over three axes.

    >>> LinearOperatorCirculant3D([[[3.0, 1.0]]], "float32").to_dense().tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    """

    _depth = 3
