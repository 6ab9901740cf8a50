"""Preprocessing layers: scaling, and encoding of categories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from tapegrad.core.commit import assign_together
from tapegrad.core.primitive.operand import as_operand, normalize_axes
from tapegrad.core.values.device import device
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.spatial_arguments import positive
from tapegrad.ops.casting.cast import cast, in_dtype
from tapegrad.ops.creation import constant, one_hot
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.elementwise.selection import maximum
from tapegrad.ops.reduction.functions import reduce_max, reduce_mean, reduce_sum, reduce_variance
from tapegrad.ops.shape.functions import expand_dims, reshape, squeeze


class _Scaling(Layer):
    """Base class of layers that scale their input by numbers or arrays."""

    takes_lists_as_batches = True
    supports_masking = True

    def get_config(self) -> dict[str, Any]:
        """Return the constructor arguments of this layer, with arrays as lists."""
        given = super().get_config().items()
        return {k: v.tolist() if isinstance(v, np.ndarray | np.generic) else v for k, v in given}

    def compute_output_shape(self, input_shape: Any) -> Any:
        return tuple(input_shape)


class Rescaling(_Scaling):
    """Return `x * scale + offset`.

    >>> import tapegrad
    >>> Rescaling(1 / 2, offset=1.0)(tapegrad.constant([2, 4])).tolist()
    [2.0, 3.0]
    """

    def __init__(self, scale: Any, offset: Any = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scale, self.offset = scale, offset

    def call(self, inputs: Any) -> Any:
        x = in_dtype(inputs, self.compute_dtype)
        return x * _next_to(x, self.scale) + _next_to(x, self.offset)


class Normalization(_Scaling):
    """Subtract a mean and divide by a standard deviation, given or computed by `adapt`.

    Each index along `axis` has a mean and a variance. With `axis=None` there is one for all
    elements, and so there is for a batch of numbers.

    >>> layer = Normalization()
    >>> layer.adapt(np.array([[1.0, 10.0], [3.0, 30.0]]))
    >>> layer(np.array([[3.0, 10.0]])).tolist()
    [[1.0, -1.0]]
    """

    def __init__(
        self,
        axis: Any = -1,
        mean: Any = None,
        variance: Any = None,
        invert: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        axes = () if axis is None else axis
        self.axis = tuple(axes) if isinstance(axes, list | tuple) else (axes,)
        self.input_mean, self.input_variance, self.invert = mean, variance, invert
        if (mean is None) != (variance is None) or np.shape(mean) != np.shape(variance):
            raise ArgumentError(
                "Normalization takes a mean and a variance of the same shape, or neither. "
                f"Got mean={mean}, variance={variance}."
            )

    def build(self, input_shape: Any) -> None:
        who = self._title
        of_numbers = self.axis == (-1,) and tuple(input_shape) in ((), (None,))
        kept = () if of_numbers else normalize_axes(self.axis, len(input_shape), who)
        self._sizes = tuple(input_shape[axis] for axis in kept)
        self._shape = [n if k in kept else 1 for k, n in enumerate(input_shape)]
        if self.input_mean is None:
            self.adapt_mean = self._state("mean", self._sizes, "zeros")
            self.adapt_variance = self._state("variance", self._sizes, "ones")
            self.count = self._state("count", (), "zeros", "int32")
        elif None in self._sizes or not _broadcasts_to(np.shape(self.input_mean), self._sizes):
            raise ShapeError(
                f"{who} has a mean of shape {np.shape(self.input_mean)}, which does not broadcast "
                f"to the sizes along axis {self.axis} of inputs of shape {tuple(input_shape)}."
            )

    def _state(self, name: str, shape: Any, start: str, dtype: Any = None) -> Any:
        return self.add_weight(shape, start, dtype, trainable=False, autocast=False, name=name)

    def adapt(self, data: Any) -> None:
        """Compute the mean and the variance of an array or of an iterable of batches.

        If a batch is a tuple, its first entry is used. An array with one axis is a batch of
        numbers, and so are the elements of a dataset if their length is not fixed.
        """
        if self.input_mean is not None:
            raise ArgumentError(
                "This Normalization was created with mean and variance, so adapt cannot set them. "
                "Create the layer without them to use adapt."
            )
        of_numbers = self.axis == (-1,) and _holds_numbers(data)
        batches: Iterable[Any] = [data] if hasattr(data, "shape") else data
        mean, variance, count = None, None, 0
        for batch in batches:
            x = as_operand(batch[0] if isinstance(batch, tuple) else batch)
            if not self.built:
                self.build((None,) if of_numbers else x.shape)
                self.built = True
            if of_numbers and self._sizes == (1,):
                x = expand_dims(x, -1)
            kept = self._kept_axes(x.shape)
            x = in_dtype(x, self.dtype)
            others = [k for k in range(len(x.shape)) if k not in kept]
            here, spread = reduce_mean(x, others), reduce_variance(x, others)
            size = prod(x.shape[k] for k in others)
            count += size
            if mean is None:
                mean, variance = here, spread
                continue
            share, step = size / count, here - mean
            mean = mean + step * share
            variance = variance + (spread - variance + step * step * (1.0 - share)) * share
        if mean is None:
            raise ArgumentError("adapt needs at least one batch of data. Got none.")
        places = (self.adapt_mean, self.adapt_variance, self.count)
        assign_together(places, (mean, variance, count))

    def _kept_axes(self, shape: Any) -> Sequence[int]:
        """Return the axes with separate means, in inputs of any number of dimensions."""
        kept: Sequence[int] = ()
        if len(shape) >= len(self._sizes) > 0:
            kept = normalize_axes(self.axis, len(shape), self._title)
        if tuple(shape[k] for k in kept) != self._sizes:
            raise ShapeError(
                f"{self._title} was built for inputs with sizes "
                f"{self._sizes} along axis {self.axis}. Got shape {tuple(shape)}."
            )
        return kept

    def call(self, inputs: Any) -> Any:
        kept = self._kept_axes(inputs.shape)
        # In the weight dtype: with large means, half precision would lose the difference.
        x = in_dtype(inputs, self.dtype)
        with device(x.device):
            mean, variance = self.mean, self.variance
        if len(x.shape) != len(self._shape):
            shape = [n if k in kept else 1 for k, n in enumerate(x.shape)]
            mean, variance = reshape(mean, shape), reshape(variance, shape)
        scale = maximum(sqrt(variance), 1e-7)
        y = x * scale + mean if self.invert else (x - mean) / scale
        return in_dtype(y, self.compute_dtype)

    @property
    def mean(self) -> Any:
        """The mean, in a shape that broadcasts to the inputs; defined once the layer is built."""
        return self._broadcastable("adapt_mean", self.input_mean)

    @property
    def variance(self) -> Any:
        """The variance, like the mean."""
        return self._broadcastable("adapt_variance", self.input_variance)

    def _broadcastable(self, learned: str, given: Any) -> Any:
        if given is None:
            return reshape(getattr(self, learned), self._shape)
        return constant(np.broadcast_to(given, self._sizes).reshape(self._shape), self.dtype)


def _holds_numbers(data: Any) -> bool:
    """Whether an array, or the elements of a dataset, are batches of numbers."""
    spec = getattr(data, "element_spec", data)
    shape = getattr(spec, "shape", None)
    if shape is None or len(shape) > 1:
        return False
    return spec is data or len(shape) == 0 or shape[0] is None


class CategoryEncoding(Layer):
    """Encode integers below `num_tokens` as one-hot rows, multi-hot rows or counts.

    "one_hot" encodes each integer as one row. "multi_hot" and "count" combine the integers along
    the last axis into one row. Integers out of range are ignored.

    >>> import tapegrad
    >>> CategoryEncoding(4)(tapegrad.constant([[0, 2], [3, 3]])).tolist()
    [[1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    """

    def __init__(
        self,
        num_tokens: int | None = None,
        output_mode: str = "multi_hot",
        sparse: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_tokens = positive(self, num_tokens, "num_tokens")
        if output_mode not in ("one_hot", "multi_hot", "count"):
            raise ArgumentError(
                f"output_mode must be 'one_hot', 'multi_hot' or 'count'. Got {output_mode!r}."
            )
        if sparse:
            raise ArgumentError("CategoryEncoding returns dense tensors. Use sparse=False.")
        self.output_mode, self.sparse = output_mode, sparse

    def call(self, inputs: Any, count_weights: Any = None) -> Any:
        if count_weights is not None and self.output_mode != "count":
            raise ArgumentError(
                "count_weights needs output_mode='count'. "
                f"This layer has output_mode={self.output_mode!r}."
            )
        return encoded_categories(
            inputs, self.num_tokens, self.output_mode, self.compute_dtype, count_weights
        )

    def compute_output_shape(self, input_shape: Any) -> Any:
        return shape_of_categories(input_shape, self.num_tokens, self.output_mode)


def encoded_categories(
    numbers: Any, count: int, output_mode: str, dtype: Any, count_weights: Any = None
) -> Any:
    """Return integers below `count` as one-hot rows, multi-hot rows or counts.

    >>> import tapegrad
    >>> encoded_categories(tapegrad.constant([2, 0, 2]), 3, "count", "float32").tolist()
    [1.0, 0.0, 2.0]
    """
    x = cast(numbers, "int64") if numbers.dtype.is_floating else numbers
    rank = len(x.shape)
    if output_mode == "one_hot" and rank > 1 and x.shape[-1] == 1:
        x = squeeze(x, -1)
    rows = one_hot(x, count, dtype=dtype)
    if output_mode == "one_hot" or rank == 0:
        return rows
    if output_mode == "multi_hot":
        return reduce_max(rows, -2)
    if count_weights is not None:
        rows = rows * expand_dims(in_dtype(count_weights, dtype), -1)
    return reduce_sum(rows, -2)


def shape_of_categories(input_shape: Any, count: int, output_mode: str) -> Any:
    """Return the shape of what `encoded_categories` returns.

    >>> shape_of_categories((None, 4), 3, "multi_hot")
    (None, 3)
    """
    shape = tuple(input_shape)
    if output_mode == "one_hot" and (len(shape) < 2 or shape[-1] != 1):
        return (*shape, count)
    return (*shape[:-1], count)


def _next_to(x: Any, value: Any) -> Any:
    """Return an array as a tensor on the device of `x`; a Python number is returned as it is."""
    if isinstance(value, int | float):
        return value
    with device(x.device):
        return constant(value, x.dtype)


def _broadcasts_to(shape: tuple[int, ...], wanted: tuple[Any, ...]) -> bool:
    pairs = zip(shape[::-1], wanted[::-1])
    return len(shape) <= len(wanted) and all(n in (1, m) for n, m in pairs)
