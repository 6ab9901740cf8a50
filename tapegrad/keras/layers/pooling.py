"""Pooling layers: the maximum or the mean over windows or over all spatial dimensions."""

from __future__ import annotations

from typing import Any

from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.spatial_arguments import (
    Shape,
    axes_in_letters,
    channels_axis,
    channels_format,
    check_rank,
    padding_kind,
    per_dimension,
    spatial_axes,
    windows_along,
)
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.convolution.pooling import avg_pool, max_pool
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.reduction.functions import reduce_max, reduce_mean, reduce_sum
from tapegrad.ops.shape.functions import expand_dims


class _Pooling(Layer):
    """Base class of layers that reduce each window to one element."""

    rank: int

    def __init__(
        self,
        pool_size: Any,
        strides: Any = None,
        padding: Any = "valid",
        data_format: str | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.pool_size = per_dimension(self, pool_size, self.rank, "pool_size")
        steps = pool_size if strides is None else strides
        self.strides = per_dimension(self, steps, self.rank, "strides")
        self.padding = padding_kind(self, padding)
        self.data_format = channels_format(self, data_format)

    def call(self, inputs: Any) -> Any:
        self.compute_output_shape(inputs.shape)  # raises errors that name this layer
        return self.pool(inputs, axes_in_letters(self.data_format, self.rank))

    def pool(self, inputs: Any, letters: str) -> Any:
        raise NotImplementedError

    def compute_output_shape(self, input_shape: Any) -> Shape:
        check_rank(self, input_shape, self.rank, self.data_format)
        sizes = list(input_shape)
        axes = spatial_axes(self.data_format, self.rank)
        for axis, extent, stride in zip(axes, self.pool_size, self.strides):
            sizes[axis] = windows_along(self, sizes[axis], extent, stride, self.padding)
        return tuple(sizes)


class _MaxPooling(_Pooling):
    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = "valid",
        data_format: str | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, data_format, name, **kwargs)

    def pool(self, inputs: Any, letters: str) -> Any:
        padding = self.padding.upper()
        return max_pool(inputs, self.pool_size, self.strides, padding, letters, rank=self.rank)


class _AveragePooling(_Pooling):
    takes_integers_as_floats = True

    def pool(self, inputs: Any, letters: str) -> Any:
        padding = self.padding.upper()
        return avg_pool(inputs, self.pool_size, self.strides, padding, letters, rank=self.rank)


class MaxPooling1D(_MaxPooling):
    """Take the maximum of each window of sequences `[batch, steps, channels]`.

    >>> import tapegrad
    >>> x = tapegrad.constant([[[1.0], [5.0], [3.0], [2.0]]])
    >>> MaxPooling1D(2)(x).numpy().ravel().tolist()
    [5.0, 3.0]
    """

    rank = 1


class MaxPooling2D(_MaxPooling):
    """Take the maximum of each window of images `[batch, height, width, channels]`.

    >>> import tapegrad
    >>> MaxPooling2D()(tapegrad.ones([2, 8, 9, 3])).shape
    (2, 4, 4, 3)
    """

    rank = 2


class MaxPooling3D(_MaxPooling):
    """Take the maximum of each window of volumes `[batch, depth, height, width, channels]`.

    >>> import tapegrad
    >>> MaxPooling3D((1, 2, 2))(tapegrad.ones([2, 3, 8, 8, 3])).shape
    (2, 3, 4, 4, 3)
    """

    rank = 3


class AveragePooling1D(_AveragePooling):
    """Take the mean of each window of sequences; padding is left out of the mean.

    >>> import tapegrad
    >>> x = tapegrad.constant([[[1.0], [5.0], [3.0]]])
    >>> AveragePooling1D(2, padding="same")(x).numpy().ravel().tolist()
    [3.0, 3.0]
    """

    rank = 1


class AveragePooling2D(_AveragePooling):
    """Take the mean of each window of images; padding is left out of the mean.

    >>> import tapegrad
    >>> AveragePooling2D(3, strides=2)(tapegrad.ones([2, 8, 9, 3])).shape
    (2, 3, 4, 3)
    """

    rank = 2


class AveragePooling3D(_AveragePooling):
    """Take the mean of each window of volumes; padding is left out of the mean.

    >>> import tapegrad
    >>> AveragePooling3D(2)(tapegrad.ones([2, 4, 8, 8, 3])).shape
    (2, 2, 4, 4, 3)
    """

    rank = 3


class _GlobalPooling(Layer):
    """Base class of layers that reduce each channel to one element."""

    rank: int

    def __init__(
        self, data_format: str | None = None, keepdims: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.data_format = channels_format(self, data_format)
        self.keepdims = keepdims

    def _axes_of(self, inputs: Any) -> tuple[int, ...]:
        check_rank(self, inputs.shape, self.rank, self.data_format)
        return spatial_axes(self.data_format, self.rank)

    def compute_output_shape(self, input_shape: Any) -> Shape:
        check_rank(self, input_shape, self.rank, self.data_format)
        if not self.keepdims:
            return (input_shape[0], input_shape[channels_axis(self.data_format, self.rank)])
        axes = spatial_axes(self.data_format, self.rank)
        return tuple(1 if axis in axes else n for axis, n in enumerate(input_shape))


class _GlobalMaxPooling(_GlobalPooling):
    def call(self, inputs: Any) -> Any:
        return reduce_max(inputs, self._axes_of(inputs), self.keepdims)


class _GlobalAveragePooling(_GlobalPooling):
    takes_integers_as_floats = True

    def call(self, inputs: Any) -> Any:
        return reduce_mean(inputs, self._axes_of(inputs), self.keepdims)


class GlobalMaxPooling1D(_GlobalMaxPooling):
    """Take the maximum over the steps of sequences `[batch, steps, channels]`.

    >>> import tapegrad
    >>> GlobalMaxPooling1D()(tapegrad.constant([[[1.0, 4.0], [3.0, 2.0]]])).tolist()
    [[3.0, 4.0]]
    """

    rank = 1


class GlobalMaxPooling2D(_GlobalMaxPooling):
    """Take the maximum of each channel of images `[batch, height, width, channels]`.

    >>> import tapegrad
    >>> GlobalMaxPooling2D()(tapegrad.ones([2, 8, 8, 3])).shape
    (2, 3)
    """

    rank = 2


class GlobalMaxPooling3D(_GlobalMaxPooling):
    """Take the maximum of each channel of volumes `[batch, depth, height, width, channels]`.

    >>> import tapegrad
    >>> GlobalMaxPooling3D(keepdims=True)(tapegrad.ones([2, 4, 8, 8, 3])).shape
    (2, 1, 1, 1, 3)
    """

    rank = 3


class GlobalAveragePooling1D(_GlobalAveragePooling):
    """Take the mean over the steps of sequences, without masked steps.

    >>> import tapegrad
    >>> x = tapegrad.constant([[[1.0], [3.0], [9.0]]])
    >>> mask = tapegrad.constant([[True, True, False]])
    >>> GlobalAveragePooling1D()(x, mask=mask).tolist()
    [[2.0]]
    """

    rank = 1
    supports_masking = True

    def call(self, inputs: Any, mask: Any = None) -> Any:
        if mask is None:
            return super().call(inputs)
        axes = self._axes_of(inputs)
        kept = expand_dims(cast(mask, "bool"), channels_axis(self.data_format, 1))
        # `where` instead of a product: masked values may be infinite or NaN.
        total = reduce_sum(where(kept, inputs, 0.0), axes, self.keepdims)
        return total / reduce_sum(cast(kept, inputs.dtype), axes, self.keepdims)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return None  # the output has no step axis


class GlobalAveragePooling2D(_GlobalAveragePooling):
    """Take the mean of each channel of images `[batch, height, width, channels]`.

    >>> import tapegrad
    >>> GlobalAveragePooling2D()(tapegrad.ones([2, 8, 8, 3])).shape
    (2, 3)
    """

    rank = 2


class GlobalAveragePooling3D(_GlobalAveragePooling):
    """Take the mean of each channel of volumes `[batch, depth, height, width, channels]`.

    >>> import tapegrad
    >>> GlobalAveragePooling3D(keepdims=True)(tapegrad.ones([2, 4, 8, 8, 3])).shape
    (2, 1, 1, 1, 3)
    """

    rank = 3


MaxPool1D = MaxPooling1D
MaxPool2D = MaxPooling2D
MaxPool3D = MaxPooling3D
AvgPool1D = AveragePooling1D
AvgPool2D = AveragePooling2D
AvgPool3D = AveragePooling3D
GlobalMaxPool1D = GlobalMaxPooling1D
GlobalMaxPool2D = GlobalMaxPooling2D
GlobalMaxPool3D = GlobalMaxPooling3D
GlobalAvgPool1D = GlobalAveragePooling1D
GlobalAvgPool2D = GlobalAveragePooling2D
GlobalAvgPool3D = GlobalAveragePooling3D
