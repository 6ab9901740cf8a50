"""RNN: apply a cell to each step of a sequence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tapegrad.core.commit import assign_together
from tapegrad.core.values import nest
from tapegrad.core.values.device import device
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ShapeError
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.recurrent.cells import as_list, sizes_of, taken_by
from tapegrad.keras.layers.recurrent.copying import revived
from tapegrad.keras.layers.recurrent.stacked import (
    StackedRNNCells,
    check_cell,
    initial_state_of,
    output_size_of,
)
from tapegrad.keras.layers.recurrent.walking import walk
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.shape.functions import swapaxes
from tapegrad.ops.shape.rearranging import flip


class _Memory:
    """The states that a stateful layer keeps between calls. They are not in `Layer.weights`."""

    def __init__(self, states: list[Any], dtype: str) -> None:
        self.states = nest.map_structure(
            lambda x: Variable(cast(x, dtype), trainable=False, name="rnn_state"), states
        )

    def keep(self, states: list[Any]) -> None:
        variables, values = nest.flatten(self.states), nest.flatten(states)
        assign_together(variables, [cast(x, v.dtype) for x, v in zip(values, variables)])
        for variable in variables:
            variable.read_value()  # tapes record the new states as reads


class RNN(Layer):
    """Apply a cell to each step along the second axis of a tensor, and carry its state along.

    The cell is a layer with a `state_size` and with `call(inputs, states)`, which returns an output
    and the next states. Where the mask is False, the state does not change.

    >>> import tapegrad
    >>> from tapegrad.keras.layers.recurrent.simple_rnn import SimpleRNNCell
    >>> RNN(SimpleRNNCell(4), return_sequences=True)(tapegrad.ones([2, 5, 3])).shape
    (2, 5, 4)
    """

    takes_integers_as_floats = True
    takes_steps = True
    supports_masking = True

    def __init__(
        self,
        cell: Any,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        zero_output_for_mask: bool = False,
        **kwargs: Any,
    ) -> None:
        cell = StackedRNNCells(cell) if isinstance(cell, list | tuple) else revived(cell)
        check_cell(cell)
        if kwargs.get("dtype") is None and isinstance(cell, Layer):
            kwargs["dtype"] = cell.dtype_policy
        super().__init__(**kwargs)
        self.cell = cell
        self.return_sequences, self.return_state = return_sequences, return_state
        self.go_backwards, self.stateful = go_backwards, stateful
        # Stored but ignored: inside a recorded function the steps are one loop if they are many.
        self.unroll = unroll
        self.zero_output_for_mask = zero_output_for_mask
        self._memory: _Memory | None = None
        if not self.trainable:
            self.trainable = False  # also sets it on the cell

    @property
    def state_size(self) -> list[Any]:
        return sizes_of(self.cell.state_size)

    # States

    @property
    def states(self) -> Any:
        """The states that a stateful layer keeps from the last call; None before the first."""
        return None if self._memory is None else self._memory.states

    def get_initial_state(self, batch_size: int) -> list[Any]:
        """Return the state before the first step."""
        return initial_state_of(self.cell, batch_size, self.compute_dtype)

    def _zero_state(self, sequences_shape: Any) -> list[Any]:
        """Return the state before the first step for sequences of this shape."""
        return self.get_initial_state(sequences_shape[0])

    def reset_state(self) -> None:
        """Reset the states of a stateful layer to zero."""
        if self._memory is not None:
            self._memory.keep(nest.map_structure(zeros_like, self._memory.states))

    reset_states = reset_state

    def _start(self, sequences: Any, given: Any) -> list[Any]:
        """Return the initial state of this call in the compute dtype."""
        if self._memory is not None:
            self._check_batch(sequences.shape[0])
        if given is None and self._memory is not None:
            given = nest.map_structure(lambda v: v.read_value(), self._memory.states)
        if given is None:
            with device(sequences.device):
                given = self._zero_state(sequences.shape)
        states = as_list(given)
        if len(states) != len(self.state_size):
            raise ShapeError(
                f"{self._title} has {len(self.state_size)} states. Got an initial_state of "
                f"{len(states)}."
            )
        return [nest.map_structure(self._as_input, state) for state in states]

    def _check_batch(self, batch: int) -> None:
        kept = nest.flatten(self.states)[0].shape[0]
        if kept != batch:
            raise ShapeError(
                f"{self._title} is stateful and keeps the states of {kept} sequences. Got a batch "
                f"of {batch}."
            )

    # Computation

    def build(self, sequences_shape: Any, initial_state_shape: Any = None) -> None:
        self._check_sequences(sequences_shape)
        if isinstance(self.cell, Layer) and not self.cell.built:
            self.cell.build((sequences_shape[0], *sequences_shape[2:]))
            self.cell.built = True
        if self.stateful and self._memory is None:
            if sequences_shape[0] is None:
                raise ShapeError(
                    f"{self._title} is stateful, so it needs a fixed batch size. Give `batch_size` "
                    "to Input."
                )
            state = self._zero_state(sequences_shape)
            self._memory = _Memory(state, self.variable_dtype)

    def _check_sequences(self, shape: Any) -> None:
        if len(shape) < 3 or shape[1] == 0:
            raise ShapeError(
                f"{self._title} takes sequences of shape (batch, steps, features) with at least "
                f"one step. Got shape {tuple(shape)}."
            )

    def call(
        self,
        sequences: Any,
        initial_state: Any = None,
        mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        self._check_sequences(sequences.shape)
        if self.go_backwards:
            sequences = flip(sequences, 1)
        outputs, states = walk(
            self.cell,
            swapaxes(sequences, 0, 1),
            self._start(sequences, initial_state),
            self._step_masks(mask, sequences.shape),
            training,
            self.zero_output_for_mask,
            self.return_sequences,
        )
        if self._memory is not None:
            self._memory.keep(states)
        output = swapaxes(outputs, 0, 1) if self.return_sequences else outputs
        return (output, *states) if self.return_state else output

    def _step_masks(self, mask: Any, shape: Sequence[int]) -> Any:
        """Return the masks `[steps, batch]` in the order of execution, None if there are none."""
        if isinstance(mask, list | tuple):
            mask = mask[0]
        if mask is None:
            return None
        if tuple(mask.shape) != tuple(shape[:2]):
            raise ShapeError(
                f"{self._title} takes a mask of shape (batch, steps), here {tuple(shape[:2])}. Got "
                f"{mask.shape}."
            )
        steps = swapaxes(cast(mask, "bool"), 0, 1)
        return flip(steps, 0) if self.go_backwards else steps

    # Shapes

    def compute_output_shape(self, sequences_shape: Any, initial_state_shape: Any = None) -> Any:
        batch, length = sequences_shape[:2]
        size = output_size_of(self.cell)
        output = (batch, length, size) if self.return_sequences else (batch, size)
        if not self.return_state:
            return output
        states = [nest.map_structure(lambda n: (batch, n), n) for n in self.state_size]
        return (output, *states)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        if isinstance(previous_mask, list | tuple):
            previous_mask = previous_mask[0]
        if not self.return_sequences or previous_mask is None:
            return None
        if not self.return_state:
            return previous_mask
        return [previous_mask, *nest.map_structure(lambda _: None, self.state_size)]


def of_cell(name: str) -> property:
    """Return a property that reads an attribute of the layer's cell."""
    return property(lambda self: getattr(self.cell, name), doc=f"The cell's `{name}`.")


class OneCellRNN(RNN):
    """Base class of layers that create their cell and expose its arguments as properties."""

    def __init__(self, kind: Any, name: str, given: Mapping[str, Any], options: Any) -> None:
        """Create a cell of class `kind` from those arguments in `given` that it takes."""
        shared = {key: options[key] for key in ("dtype", "trainable") if key in options}
        cell = kind(**taken_by(kind, given), **shared, name=name)
        taken = ("return_sequences", "return_state", "go_backwards", "stateful", "unroll")
        ways = {key: given[key] for key in (*taken, "activity_regularizer")}
        super().__init__(cell, **ways, **options)

    units = of_cell("units")
    activation = of_cell("activation")
    use_bias = of_cell("use_bias")
    kernel_initializer = of_cell("kernel_initializer")
    recurrent_initializer = of_cell("recurrent_initializer")
    bias_initializer = of_cell("bias_initializer")
    kernel_regularizer = of_cell("kernel_regularizer")
    recurrent_regularizer = of_cell("recurrent_regularizer")
    bias_regularizer = of_cell("bias_regularizer")
    kernel_constraint = of_cell("kernel_constraint")
    recurrent_constraint = of_cell("recurrent_constraint")
    bias_constraint = of_cell("bias_constraint")
    dropout = of_cell("dropout")
    recurrent_dropout = of_cell("recurrent_dropout")
