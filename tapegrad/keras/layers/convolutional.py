"""Convolutions over sequences, images and volumes."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.layers.convolution_base import ConvolutionBase
from tapegrad.keras.layers.spatial_arguments import Shape, positive
from tapegrad.keras.layers.weight_rules import ruled_weight, set_rules


class _Conv(ConvolutionBase):
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: Any = "valid",
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
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
        self.groups = positive(self, groups, "groups")
        set_rules(self, locals(), "kernel")
        self._refuse_strides_with_dilation()
        if self.filters % self.groups:
            raise ArgumentError(
                f"{type(self).__name__} takes a number of filters that is divisible by groups. "
                f"Got {filters} filters and {groups} groups."
            )

    def build(self, input_shape: Any) -> None:
        channels = self._channels_in(input_shape)
        if channels % self.groups:
            raise ShapeError(
                f"{self._title} takes a number of channels that is divisible by its {self.groups} "
                f"groups. Got shape {tuple(input_shape)} ({self.data_format})."
            )
        self._window_counts(input_shape)
        self.kernel = ruled_weight(
            self, "kernel", (*self.kernel_size, channels // self.groups, self.filters)
        )
        self._add_bias(self.filters)

    def call(self, inputs: Any) -> Any:
        kernel = self.kernel
        self._check_channels(inputs, kernel.shape[-2] * self.groups)
        return self._finished(self.convolution_op(inputs, kernel))

    def convolution_op(self, inputs: Any, kernel: Any) -> Any:
        """Return the convolution without bias and activation. Subclasses may override this."""
        return self._convolved(inputs, kernel)

    def compute_output_shape(self, input_shape: Any) -> Shape:
        return self._output_shape(input_shape, self.filters)


class Conv1D(_Conv):
    """Convolve sequences `[batch, steps, channels]`; padding may also be 'causal'.

    >>> import tapegrad
    >>> layer = Conv1D(1, 2, padding="causal", kernel_initializer="ones")
    >>> layer(tapegrad.constant([[[1.0], [2.0], [3.0]]])).numpy().ravel().tolist()
    [1.0, 3.0, 5.0]
    """

    rank = 1


class Conv2D(_Conv):
    """Convolve images `[batch, height, width, channels]`.

    >>> import tapegrad
    >>> layer = Conv2D(4, 3, padding="same", activation="relu")
    >>> layer(tapegrad.ones([2, 8, 8, 3])).shape, layer.kernel.shape
    ((2, 8, 8, 4), (3, 3, 3, 4))
    """

    rank = 2


class Conv3D(_Conv):
    """Convolve volumes `[batch, depth, height, width, channels]`.

    >>> import tapegrad
    >>> Conv3D(4, (1, 2, 2), strides=2)(tapegrad.ones([2, 4, 4, 4, 3])).shape
    (2, 2, 2, 2, 4)
    """

    rank = 3


Convolution1D = Conv1D
Convolution2D = Conv2D
Convolution3D = Conv3D
