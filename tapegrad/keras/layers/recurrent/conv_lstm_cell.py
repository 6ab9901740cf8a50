"""ConvLSTMCell: one step of an LSTM whose products are convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.core.values.device import device
from tapegrad.errors import ShapeError
from tapegrad.keras.layers.recurrent.cells import taken_by
from tapegrad.keras.layers.recurrent.lstm import LSTMCell
from tapegrad.keras.layers.spatial_arguments import (
    axes_in_letters,
    channels_axis,
    channels_format,
    check_rank,
    padding_kind,
    per_dimension,
    positive,
    spatial_axes,
    windows_along,
)
from tapegrad.keras.layers.weight_rules import ruled_weight
from tapegrad.ops.convolution.functions import convolution
from tapegrad.ops.creation import ones, zeros
from tapegrad.ops.nn.dropout import dropout
from tapegrad.ops.shape.functions import reshape


class ConvLSTMCell(LSTMCell):
    """Compute one step of a convolutional LSTM over `rank` spatial dimensions.

    The input is convolved with the given strides, padding and dilation. The state has the size of
    the result, and is convolved with padding "same".

    >>> import tapegrad
    >>> cell = ConvLSTMCell(2, 4, 3, padding="same")
    >>> states = [tapegrad.zeros([1, 5, 5, 4])] * 2
    >>> cell(tapegrad.ones([1, 5, 5, 3]), states)[0].shape
    (1, 5, 5, 4)
    """

    def __init__(
        self,
        rank: int,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = 1,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        units = positive(self, filters, "filters")
        super().__init__(**taken_by(LSTMCell, locals()), **kwargs)
        self.rank, self.filters = rank, units
        self.kernel_size = per_dimension(self, kernel_size, rank, "kernel_size")
        self.strides = per_dimension(self, strides, rank, "strides")
        self.dilation_rate = per_dimension(self, dilation_rate, rank, "dilation_rate")
        self.padding = padding_kind(self, padding)
        self.data_format = channels_format(self, data_format)
        self.gates_axis = channels_axis(self.data_format, rank)

    def build(self, input_shape: Any) -> None:
        check_rank(self, input_shape, self.rank, self.data_format)
        channels = input_shape[self.gates_axis]
        width = self.gates * self.filters
        self.kernel = ruled_weight(self, "kernel", (*self.kernel_size, channels, width))
        self.recurrent_kernel = ruled_weight(
            self, "recurrent", (*self.kernel_size, self.filters, width), "recurrent_kernel"
        )
        if self.use_bias:
            self.bias = self.add_weight(
                (width,),
                self.first_bias,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
                name="bias",
            )

    def project(self, inputs: Any, training: bool | None) -> Any:
        """Convolve the inputs of one step, or of all steps, `[steps, batch, ...]`, at once."""
        kernel = self.read(self.kernel)
        before = inputs.shape[: -self.rank - 2]
        one = inputs.shape[len(before) :]
        if one[self.gates_axis] != kernel.shape[-2]:
            raise ShapeError(
                f"{self._title} was built for {kernel.shape[-2]} channels. Got inputs of shape "
                f"{tuple(one)} ({self.data_format})."
            )
        if training and self.dropout:
            # One mask for all steps.
            inputs = dropout(inputs, self.dropout, (*(1 for _ in before), *one), rng=self._rng)
        folded = reshape(inputs, (-1, *one[1:])) if before else inputs
        letters = axes_in_letters(self.data_format, self.rank)
        padding = self.padding.upper()
        x = convolution(folded, kernel, self.strides, padding, letters, self.dilation_rate)
        if self.use_bias:
            x = x + self._along_channels(self.read(self.bias))
        return reshape(x, (*before, one[0], *x.shape[1:])) if before else x

    def _along_channels(self, bias: Any) -> Any:
        if self.data_format == "channels_last":
            return bias
        return reshape(bias, (bias.shape[0], *(1,) * self.rank))

    def recurrence(
        self, training: bool | None, state: Any, first: int = 0, last: int | None = None
    ) -> Callable[[Any], Any]:
        """Return a function that convolves a state with the recurrent kernel."""
        kernel = self.read(self.recurrent_kernel)
        letters = axes_in_letters(self.data_format, self.rank)

        def convolved(h: Any) -> Any:
            return convolution(h, kernel, 1, "SAME", letters, 1)

        if not (training and self.recurrent_dropout):
            return convolved
        with device(state.device):
            like = ones(state.shape, self.compute_dtype)
        mask = dropout(like, self.recurrent_dropout, rng=self._rng)
        return lambda h: convolved(h * mask)

    # Shapes

    def shape_after(self, input_shape: Any) -> tuple[int | None, ...]:
        """Return the shape of the output, and of each state, for the input of one step."""
        check_rank(self, input_shape, self.rank, self.data_format)
        sizes = [input_shape[axis] for axis in spatial_axes(self.data_format, self.rank)]
        reaches = [(n - 1) * step + 1 for n, step in zip(self.kernel_size, self.dilation_rate)]
        counts = [
            windows_along(self, size, reach, stride, self.padding)
            for size, reach, stride in zip(sizes, reaches, self.strides)
        ]
        batch = input_shape[0]
        if self.data_format == "channels_first":
            return (batch, self.filters, *counts)
        return (batch, *counts, self.filters)

    def zero_state(self, input_shape: Any) -> list[Any]:
        """Return the state before the first step for inputs of this shape."""
        shape: Any = self.shape_after(input_shape)
        if None in shape:
            raise ShapeError(
                f"{self._title} needs known sizes for its state. Got inputs of shape "
                f"{tuple(input_shape)}."
            )
        return [zeros(shape, self.compute_dtype) for _ in range(2)]

    def compute_output_shape(self, input_shape: Any) -> Any:
        shape = self.shape_after(input_shape)
        return shape, [shape, shape]
