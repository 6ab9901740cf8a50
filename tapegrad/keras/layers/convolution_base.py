"""Base class of the convolution layers: windows, bias and activation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras import activations
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
from tapegrad.keras.layers.weight_rules import ruled_weight, set_rules
from tapegrad.ops.convolution.functions import convolution
from tapegrad.ops.shape.functions import reshape


class ConvolutionBase(Layer):
    """Base class of layers that slide windows over sequences, images or volumes."""

    takes_integers_as_floats = True
    rank: int
    kernel_size: tuple[int, ...]
    strides: tuple[int, ...]
    dilation_rate: tuple[int, ...]
    bias: Any

    def __init__(self, given: Mapping[str, Any], **kwargs: Any) -> None:
        """Set the arguments of a subclass, which `given` holds by name."""
        super().__init__(activity_regularizer=given["activity_regularizer"], **kwargs)
        for name in ("kernel_size", "strides", "dilation_rate"):
            setattr(self, name, per_dimension(self, given[name], self.rank, name))
        self.padding = padding_kind(self, given["padding"], self._known_paddings())
        self.data_format = channels_format(self, given["data_format"])
        self.activation = activations.get(given["activation"])
        self.use_bias = given["use_bias"]
        set_rules(self, given, "bias")

    def _known_paddings(self) -> tuple[str, ...]:
        return ("valid", "same", "causal") if self.rank == 1 else ("valid", "same")

    def _refuse_strides_with_dilation(self) -> None:
        if max(self.strides) > 1 and max(self.dilation_rate) > 1:
            raise ArgumentError(
                f"{type(self).__name__} takes strides or a dilation_rate above 1, not both. Got "
                f"strides {self.strides} and dilation_rate {self.dilation_rate}."
            )

    def _channels_in(self, input_shape: Any) -> int:
        """Return the number of channels of an input, which must be known."""
        check_rank(self, input_shape, self.rank, self.data_format)
        channels = input_shape[channels_axis(self.data_format, self.rank)]
        if channels is None:
            raise ShapeError(
                f"{self._title} needs to know the number of channels. Got shape "
                f"{tuple(input_shape)}; give the channels to Input."
            )
        return int(channels)

    def _check_channels(self, inputs: Any, built_for: int) -> None:
        # Without this check, twice as many channels would count as two groups.
        if self._channels_in(inputs.shape) != built_for:
            raise ShapeError(
                f"{self._title} was built for {built_for} channels. Got an input of shape "
                f"{inputs.shape} ({self.data_format})."
            )

    def _add_bias(self, channels: int) -> None:
        self.bias = None
        if self.use_bias:
            self.bias = ruled_weight(self, "bias", (channels,))

    def _window_extents(self) -> tuple[int, ...]:
        """Return how many elements a window spans along each dimension, dilation included."""
        return tuple((n - 1) * step + 1 for n, step in zip(self.kernel_size, self.dilation_rate))

    def _convolved(self, inputs: Any, kernel: Any) -> Any:
        padding: Any = self.padding.upper()
        if self.padding == "valid":
            self._window_counts(inputs.shape)  # raises if the windows are too large
        elif self.padding == "causal":
            padding = ((self._window_extents()[0] - 1, 0),)
        letters = axes_in_letters(self.data_format, self.rank)
        return convolution(inputs, kernel, self.strides, padding, letters, self.dilation_rate)

    def _finished(self, x: Any) -> Any:
        """Add the bias, and apply the activation."""
        if self.use_bias:
            bias = self.bias
            if self.data_format == "channels_first":
                bias = reshape(bias, (bias.shape[0], *(1,) * self.rank))
            x = x + bias
        return x if self.activation is None else self.activation(x)

    def _window_counts(self, input_shape: Any) -> Shape:
        sizes = [input_shape[axis] for axis in spatial_axes(self.data_format, self.rank)]
        return tuple(
            windows_along(self, size, reach, stride, self.padding)
            for size, reach, stride in zip(sizes, self._window_extents(), self.strides)
        )

    def _shape_with(self, batch: int | None, spatial: Shape, channels: int | None) -> Shape:
        if self.data_format == "channels_first":
            return (batch, channels, *spatial)
        return (batch, *spatial, channels)

    def _output_shape(self, input_shape: Any, channels: int | None) -> Shape:
        check_rank(self, input_shape, self.rank, self.data_format)
        return self._shape_with(input_shape[0], self._window_counts(input_shape), channels)
