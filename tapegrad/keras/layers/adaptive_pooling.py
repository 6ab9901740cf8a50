"""Pooling layers whose windows divide each dimension into a given number of nearly equal parts."""

from __future__ import annotations

from typing import Any

from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.spatial_arguments import (
    Shape,
    channels_format,
    check_rank,
    per_dimension,
    spatial_axes,
)
from tapegrad.keras.ops.windows import adaptive_average_pool, adaptive_max_pool


class _AdaptivePooling(Layer):
    rank: int

    def __init__(self, output_size: Any, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.output_size = per_dimension(self, output_size, self.rank, "output_size")
        self.data_format = channels_format(self, data_format)

    def compute_output_shape(self, input_shape: Any) -> Shape:
        check_rank(self, input_shape, self.rank, self.data_format)
        sizes = list(input_shape)
        axes = spatial_axes(self.data_format, self.rank)
        for axis, size in zip(axes, self.output_size, strict=True):
            sizes[axis] = size
        return tuple(sizes)


class _AdaptiveMaxPooling(_AdaptivePooling):
    def call(self, inputs: Any) -> Any:
        check_rank(self, inputs.shape, self.rank, self.data_format)
        return adaptive_max_pool(inputs, self.output_size, self.data_format)


class _AdaptiveAveragePooling(_AdaptivePooling):
    takes_integers_as_floats = True

    def call(self, inputs: Any) -> Any:
        check_rank(self, inputs.shape, self.rank, self.data_format)
        return adaptive_average_pool(inputs, self.output_size, self.data_format)


class AdaptiveMaxPooling1D(_AdaptiveMaxPooling):
    """Take maxima of sequences over windows so that each dimension has the length `output_size`.

    >>> import tapegrad
    >>> AdaptiveMaxPooling1D(4)(tapegrad.ones([2, 7, 3])).shape
    (2, 4, 3)
    """

    rank = 1


class AdaptiveMaxPooling2D(_AdaptiveMaxPooling):
    """Take maxima of images over windows so that each dimension has the length `output_size`.

    >>> import tapegrad
    >>> AdaptiveMaxPooling2D((4, 3))(tapegrad.ones([2, 7, 9, 3])).shape
    (2, 4, 3, 3)
    """

    rank = 2


class AdaptiveMaxPooling3D(_AdaptiveMaxPooling):
    """Take maxima of volumes over windows so that each dimension has the length `output_size`.

    >>> import tapegrad
    >>> AdaptiveMaxPooling3D((2, 4, 3))(tapegrad.ones([2, 5, 7, 9, 3])).shape
    (2, 2, 4, 3, 3)
    """

    rank = 3


class AdaptiveAveragePooling1D(_AdaptiveAveragePooling):
    """Take means of sequences over windows so that each dimension has the length `output_size`.

    >>> import tapegrad
    >>> AdaptiveAveragePooling1D(4)(tapegrad.ones([2, 7, 3])).shape
    (2, 4, 3)
    """

    rank = 1


class AdaptiveAveragePooling2D(_AdaptiveAveragePooling):
    """Take means of images over windows so that each dimension has the length `output_size`.

    >>> import tapegrad
    >>> AdaptiveAveragePooling2D((4, 3))(tapegrad.ones([2, 7, 9, 3])).shape
    (2, 4, 3, 3)
    """

    rank = 2


class AdaptiveAveragePooling3D(_AdaptiveAveragePooling):
    """Take means of volumes over windows so that each dimension has the length `output_size`.

    >>> import tapegrad
    >>> AdaptiveAveragePooling3D((2, 4, 3))(tapegrad.ones([2, 5, 7, 9, 3])).shape
    (2, 2, 4, 3, 3)
    """

    rank = 3
