"""GRU: a recurrent layer with an update gate and a reset gate."""

from __future__ import annotations

from typing import Any

from tapegrad.keras.layers.recurrent.cells import (
    RecurrentCell,
    Step,
    activation_or_none,
    taken_by,
)
from tapegrad.keras.layers.recurrent.rnn import OneCellRNN, of_cell
from tapegrad.ops.shape.joining import split


class GRUCell(RecurrentCell):
    """Compute one step of GRU; the kernels hold the gates in the order update, reset, new state.

    With `reset_after` the reset gate multiplies the recurrent product, which has a separate bias
    (the bias has two rows). Otherwise it multiplies the state before the product.

    >>> import tapegrad
    >>> cell = GRUCell(4)
    >>> output, states = cell(tapegrad.ones([2, 3]), [tapegrad.zeros([2, 4])])
    >>> output.shape, len(states)
    ((2, 4), 1)
    """

    gates = 3

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        reset_after: bool = True,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**taken_by(RecurrentCell, locals()), **kwargs)
        self.recurrent_activation = activation_or_none(recurrent_activation)
        self.reset_after = reset_after

    def bias_shape(self) -> tuple[int, ...]:
        return (2, 3 * self.units) if self.reset_after else (3 * self.units,)

    def input_bias(self) -> Any:
        if not self.use_bias:
            return None
        bias = self.read(self.bias)
        return bias[0] if self.reset_after else bias

    def step(self, training: bool | None, state: Any) -> Step:
        make = self._reset_after if self.reset_after else self._reset_before
        return make(training, state)

    def _reset_after(self, training: bool | None, state: Any) -> Step:
        recur = self.recurrence(training, state)
        bias = self.read(self.bias)[1] if self.use_bias else None

        def step(x: Any, states: list[Any]) -> tuple[Any, list[Any]]:
            product = recur(states[0]) if bias is None else recur(states[0]) + bias
            gates, x_new = split(x, [2 * self.units, self.units], -1)
            h_gates, h_new = split(product, [2 * self.units, self.units], -1)
            update, reset = split(self.recurrent_activation(gates + h_gates), 2, -1)
            new = self.activation(x_new + reset * h_new)
            h = new + update * (states[0] - new)
            return h, [h]

        return step

    def _reset_before(self, training: bool | None, state: Any) -> Step:
        recur_gates = self.recurrence(training, state, 0, 2)
        recur_new = self.recurrence(training, state, 2, 3)

        def step(x: Any, states: list[Any]) -> tuple[Any, list[Any]]:
            gates, x_new = split(x, [2 * self.units, self.units], -1)
            gates = self.recurrent_activation(gates + recur_gates(states[0]))
            update, reset = split(gates, 2, -1)
            new = self.activation(x_new + recur_new(reset * states[0]))
            h = new + update * (states[0] - new)
            return h, [h]

        return step


class GRU(OneCellRNN):
    """Apply a GRU along the steps of sequences.

    `use_cudnn` is accepted and ignored.

    >>> import tapegrad
    >>> GRU(4, return_sequences=True)(tapegrad.ones([2, 5, 3])).shape
    (2, 5, 4)
    """

    recurrent_activation = of_cell("recurrent_activation")
    reset_after = of_cell("reset_after")

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
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
        reset_after: bool = True,
        use_cudnn: Any = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(GRUCell, "gru_cell", locals(), kwargs)
        self.use_cudnn = use_cudnn
