"""SimpleRNN: a fully connected recurrent layer."""

from __future__ import annotations

from typing import Any

from tapegrad.keras.layers.recurrent.cells import RecurrentCell, Step
from tapegrad.keras.layers.recurrent.rnn import OneCellRNN


class SimpleRNNCell(RecurrentCell):
    """Compute one step of SimpleRNN: activation(inputs @ kernel + state @ recurrent_kernel + bias).

    >>> import tapegrad
    >>> cell = SimpleRNNCell(4)
    >>> output, states = cell(tapegrad.ones([2, 3]), [tapegrad.zeros([2, 4])])
    >>> output.shape, len(states)
    ((2, 4), 1)
    """

    gates = 1

    def step(self, training: bool | None, state: Any) -> Step:
        recur = self.recurrence(training, state)

        def step(x: Any, states: list[Any]) -> tuple[Any, list[Any]]:
            h = self.activation(x + recur(states[0]))
            return h, [h]

        return step


class SimpleRNN(OneCellRNN):
    """Apply a fully connected recurrent layer along the steps of sequences.

    >>> import tapegrad
    >>> SimpleRNN(4)(tapegrad.ones([2, 5, 3])).shape
    (2, 4)
    """

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
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
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(SimpleRNNCell, "simple_rnn_cell", locals(), kwargs)
