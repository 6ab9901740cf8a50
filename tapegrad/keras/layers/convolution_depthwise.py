"""Depthwise and separable convolution layers."""

from __future__ import annotations

from typing import Any

from tapegrad.keras.layers.convolution_base import ConvolutionBase
from tapegrad.keras.layers.spatial_arguments import (
    Shape,
    axes_in_letters,
    channels_axis,
    check_rank,
    positive,
)
from tapegrad.keras.layers.weight_rules import ruled_weight, set_rules
from tapegrad.ops.convolution.functions import convolution
from tapegrad.ops.shape.functions import reshape


class _ByChannel(ConvolutionBase):
    """Base class of layers with filters `[*window, channels, depth_multiplier]`."""

    depth_multiplier: int

    def _convolved_by_channel(self, inputs: Any, kernel: Any) -> Any:
        *window, channels, multiplier = kernel.shape
        self._check_channels(inputs, channels)
        # A grouped convolution with one group per channel.
        return self._convolved(inputs, reshape(kernel, (*window, 1, channels * multiplier)))


class _DepthwiseConv(_ByChannel):
    def __init__(
        self,
        kernel_size: Any,
        strides: Any = 1,
        padding: Any = "valid",
        depth_multiplier: int = 1,
        data_format: str | None = None,
        dilation_rate: Any = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        depthwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(locals(), **kwargs)
        self.depth_multiplier = positive(self, depth_multiplier, "depth_multiplier")
        set_rules(self, locals(), "depthwise")

    def build(self, input_shape: Any) -> None:
        channels = self._channels_in(input_shape)
        self._window_counts(input_shape)
        self.kernel = ruled_weight(
            self, "depthwise", (*self.kernel_size, channels, self.depth_multiplier), "kernel"
        )
        self._add_bias(channels * self.depth_multiplier)

    def call(self, inputs: Any) -> Any:
        return self._finished(self._convolved_by_channel(inputs, self.kernel))

    def compute_output_shape(self, input_shape: Any) -> Shape:
        check_rank(self, input_shape, self.rank, self.data_format)
        channels = input_shape[channels_axis(self.data_format, self.rank)]
        made = None if channels is None else channels * self.depth_multiplier
        return self._output_shape(input_shape, made)


class DepthwiseConv1D(_DepthwiseConv):
    """Convolve each channel of sequences `[batch, steps, channels]` separately.

    >>> import tapegrad
    >>> DepthwiseConv1D(3, depth_multiplier=2)(tapegrad.ones([2, 8, 3])).shape
    (2, 6, 6)
    """

    rank = 1


class DepthwiseConv2D(_DepthwiseConv):
    """Convolve each channel of images `[batch, height, width, channels]` separately.

    >>> import tapegrad
    >>> layer = DepthwiseConv2D(3, padding="same", depth_multiplier=2)
    >>> layer(tapegrad.ones([2, 8, 8, 3])).shape, layer.kernel.shape
    ((2, 8, 8, 6), (3, 3, 3, 2))
    """

    rank = 2


class _SeparableConv(_ByChannel):
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: Any = "valid",
        data_format: str | None = None,
        dilation_rate: Any = 1,
        depth_multiplier: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform",
        pointwise_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        pointwise_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(locals(), **kwargs)
        self.filters = positive(self, filters, "filters")
        self.depth_multiplier = positive(self, depth_multiplier, "depth_multiplier")
        set_rules(self, locals(), "depthwise", "pointwise")

    def build(self, input_shape: Any) -> None:
        channels = self._channels_in(input_shape)
        self._window_counts(input_shape)
        self.depthwise_kernel = ruled_weight(
            self,
            "depthwise",
            (*self.kernel_size, channels, self.depth_multiplier),
            "depthwise_kernel",
        )
        self.pointwise_kernel = ruled_weight(
            self,
            "pointwise",
            (*(1,) * self.rank, channels * self.depth_multiplier, self.filters),
            "pointwise_kernel",
        )
        self._add_bias(self.filters)

    def call(self, inputs: Any) -> Any:
        x = self._convolved_by_channel(inputs, self.depthwise_kernel)
        letters = axes_in_letters(self.data_format, self.rank)
        return self._finished(convolution(x, self.pointwise_kernel, data_format=letters))

    def compute_output_shape(self, input_shape: Any) -> Shape:
        return self._output_shape(input_shape, self.filters)


class SeparableConv1D(_SeparableConv):
    """Convolve each channel of sequences separately, then mix the channels.

    >>> import tapegrad
    >>> layer = SeparableConv1D(5, 3, padding="causal")
    >>> layer(tapegrad.ones([2, 8, 3])).shape, layer.count_params()
    ((2, 8, 5), 29)
    """

    rank = 1


class SeparableConv2D(_SeparableConv):
    """Convolve each channel of images separately, then mix the channels.

    >>> import tapegrad
    >>> layer = SeparableConv2D(5, 3, depth_multiplier=2)
    >>> layer(tapegrad.ones([2, 8, 8, 3])).shape, layer.count_params()
    ((2, 6, 6, 5), 89)
    """

    rank = 2


SeparableConvolution1D = SeparableConv1D
SeparableConvolution2D = SeparableConv2D
