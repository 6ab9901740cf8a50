"""TensorFlow functions composed of other functions in a few lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand, common_operands, normalize_axis
from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.core.values.dtypes import as_dtype, int32
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.convolution.arguments import is_channels_first
from tapegrad.ops.creation import ones_like, zeros_like
from tapegrad.ops.elementwise import arithmetic
from tapegrad.ops.elementwise.complex_numbers import complex, imag, real
from tapegrad.ops.elementwise.no_nan import divide_no_nan
from tapegrad.ops.elementwise.selection import clip, where
from tapegrad.ops.indexing.along_axis import take_along_axis
from tapegrad.ops.indexing.functions import getitem
from tapegrad.ops.indexing.gather import place_next_to
from tapegrad.ops.indexing.scatter import scatter_nd
from tapegrad.ops.indexing.sorting import argsort
from tapegrad.ops.reduction.primitives import all as all_of, max as maximum_of
from tapegrad.ops.shape.joining import stack
from tapegrad.ops.shape.primitives import reshape_p


def is_tensor(x: Any) -> bool:
    """Return whether `x` is a tensor, a variable or a sparse gradient.

    >>> import tapegrad
    >>> is_tensor(tapegrad.constant(1.0)), is_tensor(1.0)
    (True, False)
    """
    return isinstance(x, Tensor | Variable | IndexedSlices) or type(x) in INTERPRETERS


def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Any:
    """Return a number times a tensor; an IndexedSlices stays sparse.

    >>> scalar_mul(2.0, [1.0, 2.0]).tolist()
    [2.0, 4.0]
    """
    shape = tuple(getattr(scalar, "shape", ()))
    if shape:
        raise ShapeError(f"scalar_mul needs a scalar. Got shape {shape}; use multiply.")
    if isinstance(x, IndexedSlices):
        return IndexedSlices(scalar_mul(scalar, x.values), x.indices, x.dense_shape)
    return arithmetic.multiply(as_operand(x), scalar)


def reciprocal_no_nan(x: Any, name: str | None = None) -> Any:
    """Return 1 / x, and 0 where x is 0.

    >>> reciprocal_no_nan([2.0, 0.0]).tolist()
    [0.5, 0.0]
    """
    return divide_no_nan(1.0, as_operand(x))


def polyval(coeffs: Sequence[Any], x: Any, name: str | None = None) -> Any:
    """Evaluate a polynomial at x; the coefficients start with the highest power.

    >>> float(polyval([1.0, 0.0, -2.0], 3.0))
    7.0
    """
    if not isinstance(coeffs, list | tuple):
        raise ArgumentError(f"polyval needs a list of coefficients. Got {type(coeffs).__name__}.")
    x = as_operand(x)
    total = zeros_like(x)
    for coefficient in coeffs:
        total = total * x + coefficient
    return total


def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Any:
    """Cast to another dtype; values out of its range are clipped to it.

    Of a complex number, both parts are clipped, or the real part is taken.

    >>> saturate_cast([-5.0, 7.0, 300.0], "uint8").tolist()
    [0, 7, 255]
    """
    value = as_operand(value)
    old, new = as_dtype(value.dtype), as_dtype(dtype)
    if "bool" in (old.name, new.name) or (new.is_complex and not old.is_complex):
        return cast(value, dtype)
    if old.is_complex and new.is_complex:
        part = real(zeros_like(value, dtype=new)).dtype
        return complex(saturate_cast(real(value), part), saturate_cast(imag(value), part))
    if old.is_complex:
        return saturate_cast(real(value), dtype)
    low, high = max(old.min, new.min), min(old.max, new.max)
    if not old.is_integer and new.is_integer:
        # The largest integer may have no exact float; use the next float towards 0.
        high = _float_at_most(high, old.dtype)
    return cast(clip(value, low, high), dtype)


def _float_at_most(value: int, dtype: np.dtype[Any]) -> float:
    nearest = dtype.type(value)
    return float(nearest if int(nearest) <= value else np.nextafter(nearest, dtype.type(0)))


def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Any:
    """Add one number per channel.

    >>> bias_add([[1.0, 2.0]], [10.0, 20.0]).tolist()
    [[11.0, 22.0]]
    """
    value, bias = common_operands(value, bias)
    spatial = len(value.shape) - 2
    axis = len(value.shape) - 1
    if is_channels_first(data_format, spatial, "bias_add"):
        axis = 1
    if len(bias.shape) != 1 or spatial < 0 or bias.shape[0] != value.shape[axis]:
        raise ShapeError(
            "bias_add needs a bias with one number per channel. Got shapes "
            f"{value.shape} and {bias.shape}."
        )
    return value + reshape_p(bias, shape=(bias.shape[0], *[1] * (len(value.shape) - axis - 1)))


def invert_permutation(x: Any, name: str | None = None) -> Any:
    """Return the inverse of a permutation: the position of each number.

    >>> invert_permutation([2, 0, 1]).tolist()
    [1, 2, 0]
    """
    return cast(argsort(as_operand(x)), as_operand(x).dtype)


def is_non_decreasing(x: Any, name: str | None = None) -> Any:
    """Return whether no element is smaller than the one before it, in C order.

    >>> bool(is_non_decreasing([1.0, 1.0, 2.0]))
    True
    """
    flat = _flat(x)
    return all_of(getitem(flat, slice(1, None)) >= getitem(flat, slice(None, -1)))


def is_strictly_increasing(x: Any, name: str | None = None) -> Any:
    """Return whether every element is larger than the one before it, in C order.

    >>> bool(is_strictly_increasing([1.0, 1.0, 2.0]))
    False
    """
    flat = _flat(x)
    return all_of(getitem(flat, slice(1, None)) > getitem(flat, slice(None, -1)))


def _flat(x: Any) -> Any:
    return reshape_p(as_operand(x), shape=(-1,))


def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: int | None = None,
    weights: Any = None,
    dtype: Any = int32,
    name: str | None = None,
) -> Any:
    """Count the pairs of each label (row) and each prediction (column).

    >>> confusion_matrix([0, 1, 1], [0, 1, 0]).tolist()
    [[1, 0], [1, 1]]
    """
    labels, predictions = _flat(labels), _flat(predictions)
    if labels.shape != predictions.shape:
        raise ShapeError(
            "confusion_matrix needs as many labels as predictions. Got "
            f"{labels.shape} and {predictions.shape}."
        )
    if num_classes is None:
        num_classes = 1 + max(int(maximum_of(labels)), int(maximum_of(predictions)))
    counts = ones_like(labels, dtype) if weights is None else cast(_flat(weights), dtype)
    pairs = stack([cast(labels, "int64"), cast(predictions, "int64")], -1)
    return scatter_nd(pairs, counts, (int(num_classes), int(num_classes)))


def reverse_sequence(
    input: Any,
    seq_lengths: Any,
    seq_axis: int | None = None,
    batch_axis: int | None = None,
    name: str | None = None,
) -> Any:
    """Reverse the first `seq_lengths[i]` entries of each example i; the others do not change.

    >>> reverse_sequence([[1.0, 2.0, 3.0]], [2], seq_axis=1, batch_axis=0).tolist()
    [[2.0, 1.0, 3.0]]
    """
    x, lengths = as_operand(input), as_operand(seq_lengths)
    rank = len(x.shape)
    along = normalize_axis(1 if seq_axis is None else seq_axis, rank, "reverse_sequence")
    batch = normalize_axis(0 if batch_axis is None else batch_axis, rank, "reverse_sequence")
    if along == batch or lengths.shape != (x.shape[batch],):
        raise ShapeError(
            "reverse_sequence needs one length per example and different axes. Got lengths of "
            f"shape {lengths.shape}, seq_axis {along} and batch_axis {batch} for "
            f"shape {x.shape}."
        )
    lengths = reshape_p(cast(lengths, "int64"), shape=_shape_along(rank, batch, x.shape[batch]))
    position = np.arange(x.shape[along]).reshape(_shape_along(rank, along, x.shape[along]))
    position = place_next_to(lengths, position)
    return take_along_axis(x, where(position < lengths, lengths - 1 - position, position), along)


def _shape_along(rank: int, axis: int, length: int) -> tuple[int, ...]:
    """Return a shape with `length` along one axis and 1 along the others."""
    return tuple(length if i == axis else 1 for i in range(rank))
