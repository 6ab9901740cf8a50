"""LSTM: a recurrent layer with input, forget and output gates."""

from __future__ import annotations

from typing import Any

from tapegrad.keras.layers.recurrent.cells import (
    RecurrentCell,
    Step,
    activation_or_none,
    taken_by,
)
from tapegrad.keras.layers.recurrent.rnn import OneCellRNN, of_cell
from tapegrad.ops.creation import ones
from tapegrad.ops.shape.joining import concat, split


class LSTMCell(RecurrentCell):
    """Compute one step of LSTM; the kernels hold the input, forget, cell and output gates.

    >>> import tapegrad
    >>> cell = LSTMCell(4)
    >>> output, states = cell(tapegrad.ones([2, 3]), [tapegrad.zeros([2, 4])] * 2)
    >>> output.shape, len(states)
    ((2, 4), 2)
    """

    gates = 4
    gates_axis = -1

    def __init__(
        self,
        units: int,
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
        super().__init__(**taken_by(RecurrentCell, locals()), **kwargs)
        self.recurrent_activation = activation_or_none(recurrent_activation)
        self.unit_forget_bias = unit_forget_bias

    @property
    def state_size(self) -> list[int]:
        return [self.units, self.units]

    def first_bias(self, shape: Any, dtype: Any = None) -> Any:
        if not self.unit_forget_bias:
            return self.bias_initializer(shape, dtype=dtype)
        # A forget bias of 1 lets gradients flow through many steps early in training.
        before = self.bias_initializer((self.units,), dtype=dtype)
        after = self.bias_initializer((2 * self.units,), dtype=dtype)
        return concat([before, ones((self.units,), dtype), after], 0)

    def step(self, training: bool | None, state: Any) -> Step:
        recur = self.recurrence(training, state)

        def step(x: Any, states: list[Any]) -> tuple[Any, list[Any]]:
            h, c = states
            i, f, new, o = split(x + recur(h), 4, self.gates_axis)
            kept = self.recurrent_activation(f) * c
            c = kept + self.recurrent_activation(i) * self.activation(new)
            h = self.recurrent_activation(o) * self.activation(c)
            return h, [h, c]

        return step


class LSTM(OneCellRNN):
    """Apply an LSTM along the steps of sequences.

    `use_cudnn` is accepted and ignored.

    >>> import tapegrad
    >>> output, h, c = LSTM(4, return_state=True)(tapegrad.ones([2, 5, 3]))
    >>> output.shape, h.shape, c.shape
    ((2, 4), (2, 4), (2, 4))
    """

    recurrent_activation = of_cell("recurrent_activation")
    unit_forget_bias = of_cell("unit_forget_bias")

    def __init__(
        self,
        units: int,
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
        unroll: bool = False,
        use_cudnn: Any = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(LSTMCell, "lstm_cell", locals(), kwargs)
        self.use_cudnn = use_cudnn
