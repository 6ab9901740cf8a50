"""ConvLSTM1D, ConvLSTM2D and ConvLSTM3D: LSTMs over sequences of signals, images and volumes."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ShapeError
from tapegrad.keras.layers.recurrent.conv_lstm_cell import ConvLSTMCell
from tapegrad.keras.layers.recurrent.rnn import OneCellRNN, of_cell


class _ConvLSTM(OneCellRNN):
    rank: int
    filters = of_cell("filters")
    kernel_size = of_cell("kernel_size")
    strides = of_cell("strides")
    padding = of_cell("padding")
    data_format = of_cell("data_format")
    dilation_rate = of_cell("dilation_rate")
    recurrent_activation = of_cell("recurrent_activation")
    unit_forget_bias = of_cell("unit_forget_bias")

    def __init__(
        self,
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
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        **kwargs: Any,
    ) -> None:
        given = {**locals(), "rank": self.rank, "unroll": False}
        super().__init__(ConvLSTMCell, "conv_lstm_cell", given, kwargs)

    def _check_sequences(self, shape: Any) -> None:
        if len(shape) != self.rank + 3 or shape[1] == 0:
            raise ShapeError(
                f"{self._title} takes inputs of {self.rank + 3} dimensions: batch, steps (at least "
                f"one), {self.rank} spatial dimensions and channels. Got shape {tuple(shape)}."
            )

    def _zero_state(self, sequences_shape: Any) -> list[Any]:
        return self.cell.zero_state((sequences_shape[0], *sequences_shape[2:]))  # type: ignore[no-any-return]

    def compute_output_shape(self, sequences_shape: Any, initial_state_shape: Any = None) -> Any:
        self._check_sequences(sequences_shape)
        batch, length, *rest = sequences_shape
        state = self.cell.shape_after((batch, *rest))
        output = (batch, length, *state[1:]) if self.return_sequences else state
        return (output, state, state) if self.return_state else output


class ConvLSTM1D(_ConvLSTM):
    """Apply a convolutional LSTM to sequences of signals `[batch, steps, length, channels]`.

    >>> import tapegrad
    >>> ConvLSTM1D(4, 3, return_sequences=True)(tapegrad.ones([2, 5, 8, 1])).shape
    (2, 5, 6, 4)
    """

    rank = 1


class ConvLSTM2D(_ConvLSTM):
    """Apply a convolutional LSTM to sequences of images `[batch, steps, height, width, channels]`.

    >>> import tapegrad
    >>> ConvLSTM2D(4, 3, padding="same")(tapegrad.ones([2, 5, 8, 8, 1])).shape
    (2, 8, 8, 4)
    """

    rank = 2


class ConvLSTM3D(_ConvLSTM):
    """Apply a convolutional LSTM to sequences of volumes.

    The input is `[batch, steps, depth, height, width, channels]`.

    >>> import tapegrad
    >>> ConvLSTM3D(2, 2, strides=2)(tapegrad.ones([1, 3, 4, 4, 4, 1])).shape
    (1, 2, 2, 2, 2)
    """

    rank = 3
