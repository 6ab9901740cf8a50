"""Transposed convolution layers."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.keras.configured import arguments_in
from tapegrad.keras.layers.convolution_base import ConvolutionBase
from tapegrad.keras.layers.spatial_arguments import (
    Shape,
    axes_in_letters,
    check_rank,
    per_dimension,
    positive,
    spatial_axes,
    transposed_size,
)
from tapegrad.keras.layers.weight_rules import ruled_weight, set_rules
from tapegrad.ops.convolution.functions import conv_transpose


class _ConvTranspose(ConvolutionBase):
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: Any = "valid",
        output_padding: Any = None,
        data_format: str | None = None,
        dilation_rate: Any = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(locals(), **kwargs)
        self.filters = positive(self, filters, "filters")
        set_rules(self, locals(), "kernel")
        self._refuse_strides_with_dilation()
        self.output_padding: tuple[int, ...] | None = None
        if output_padding is not None:
            self.output_padding = per_dimension(
                self, output_padding, self.rank, "output_padding", least=0
            )
            self._check_output_padding(self.output_padding)

    def _known_paddings(self) -> tuple[str, ...]:
        return ("valid", "same")

    def _check_output_padding(self, output_padding: tuple[int, ...]) -> None:
        if any(more >= stride for more, stride in zip(output_padding, self.strides)):
            raise ArgumentError(
                f"{type(self).__name__} takes an output_padding below the strides. Got "
                f"{output_padding} with strides {self.strides}."
            )
        # Otherwise a convolution of the output would not have the size of the input.
        if self.padding == "same" and any(
            reach % 2 == 0 and more == 0
            for reach, more in zip(self._window_extents(), output_padding)
        ):
            raise ArgumentError(
                f"{type(self).__name__} with padding 'same' and windows of even size takes an "
                f"output_padding of 1 or more. Got {output_padding} with kernel_size "
                f"{self.kernel_size}; omit output_padding to get an output of strides times the "
                "size of the input."
            )

    def build(self, input_shape: Any) -> None:
        self.kernel = ruled_weight(
            self, "kernel", (*self.kernel_size, self.filters, self._channels_in(input_shape))
        )
        self._add_bias(self.filters)

    def call(self, inputs: Any) -> Any:
        kernel = self.kernel
        self._check_channels(inputs, kernel.shape[-1])
        x = conv_transpose(
            inputs,
            kernel,
            self.compute_output_shape(inputs.shape),
            self.strides,
            self.padding.upper(),
            axes_in_letters(self.data_format, self.rank),
            self.dilation_rate,
        )
        return self._finished(x)

    def compute_output_shape(self, input_shape: Any) -> Shape:
        check_rank(self, input_shape, self.rank, self.data_format)
        axes = spatial_axes(self.data_format, self.rank)
        sizes = tuple(self._size_of(input_shape[axis], k) for k, axis in enumerate(axes))
        return self._shape_with(input_shape[0], sizes, self.filters)

    def _size_of(self, size: int | None, dimension: int) -> int | None:
        """Return the size of the output along a dimension where the input has `size` elements."""
        if size is None:
            return None
        more = None if self.output_padding is None else self.output_padding[dimension]
        reach, stride = self._window_extents()[dimension], self.strides[dimension]
        return transposed_size(size, reach, stride, self.padding, more)


class Conv1DTranspose(_ConvTranspose):
    """Apply a transposed convolution to sequences `[batch, steps, channels]`.

    >>> import tapegrad
    >>> layer = Conv1DTranspose(1, 2, strides=2, kernel_initializer="ones")
    >>> layer(tapegrad.constant([[[1.0], [2.0]]])).numpy().ravel().tolist()
    [1.0, 1.0, 2.0, 2.0]
    """

    rank = 1


class Conv2DTranspose(_ConvTranspose):
    """Apply a transposed convolution to images `[batch, height, width, channels]`.

    >>> import tapegrad
    >>> layer = Conv2DTranspose(4, 3, strides=2, padding="same")
    >>> layer(tapegrad.ones([2, 8, 8, 3])).shape, layer.kernel.shape
    ((2, 16, 16, 4), (3, 3, 4, 3))
    """

    rank = 2


class Conv3DTranspose(_ConvTranspose):
    """Apply a transposed convolution to volumes `[batch, depth, height, width, channels]`.

    >>> import tapegrad
    >>> Conv3DTranspose(4, 2, strides=2)(tapegrad.ones([1, 2, 3, 4, 5])).shape
    (1, 4, 6, 8, 4)
    """

    rank = 3

    # Only here does Keras put data_format before output_padding.
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: Any = "valid",
        data_format: str | None = None,
        output_padding: Any = None,
        dilation_rate: Any = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        given = arguments_in(locals())
        super().__init__(**given.pop("kwargs"), **given)


Convolution1DTranspose = Conv1DTranspose
Convolution2DTranspose = Conv2DTranspose
Convolution3DTranspose = Conv3DTranspose
