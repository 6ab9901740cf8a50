"""StackedRNNCells: several cells as one, each fed with the output of the previous one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from tapegrad.core.values import nest
from tapegrad.errors import ArgumentTypeError
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.recurrent.cells import as_list, sizes_of
from tapegrad.keras.layers.recurrent.copying import revived
from tapegrad.ops.creation import zeros


class StackedRNNCells(Layer):
    """Feed each cell with the output of the previous one; the state is the list of their states.

    >>> import tapegrad
    >>> from tapegrad.keras.layers.recurrent.lstm import LSTMCell
    >>> from tapegrad.keras.layers.recurrent.rnn import RNN
    >>> RNN(StackedRNNCells([LSTMCell(4), LSTMCell(2)]))(tapegrad.ones([3, 5, 6])).shape
    (3, 2)
    """

    def __init__(self, cells: Sequence[Any], **kwargs: Any) -> None:
        cells = [revived(cell) for cell in cells]
        if kwargs.get("dtype") is None and cells and isinstance(cells[0], Layer):
            kwargs["dtype"] = cells[0].dtype_policy
        super().__init__(**kwargs)
        for cell in cells:
            check_cell(cell)
        self.cells = cells
        if not self.trainable:
            self.trainable = False  # also sets it on the cells

    @property
    def state_size(self) -> list[Any]:
        return [cell.state_size for cell in self.cells]

    @property
    def output_size(self) -> int:
        return output_size_of(self.cells[-1])

    def build(self, input_shape: Any) -> None:
        for cell in self.cells:
            if isinstance(cell, Layer) and not cell.built:
                cell.build(input_shape)
                cell.built = True
            input_shape = (input_shape[0], output_size_of(cell))

    def call(self, inputs: Any, states: Sequence[Any], training: bool | None = None) -> Any:
        new: list[Any] = []
        for cell, state in zip(self.cells, states, strict=True):
            inputs, after = cell(inputs, as_list(state))
            new.append(like_state(cell, after))
        return inputs, new

    def get_initial_state(self, batch_size: int) -> list[Any]:
        """Return the states before the first step."""
        return [
            like_state(cell, initial_state_of(cell, batch_size, self.compute_dtype))
            for cell in self.cells
        ]

    def compute_output_shape(self, input_shape: Any) -> Any:
        batch = input_shape[0]
        states = [nest.map_structure(lambda n: (batch, n), cell.state_size) for cell in self.cells]
        return (batch, self.output_size), states


def check_cell(cell: Any) -> None:
    """Raise an error if an object is not a cell."""
    if not callable(getattr(cell, "call", None)) or not hasattr(cell, "state_size"):
        raise ArgumentTypeError(
            "A cell is a layer with a call(inputs, states) and with a state_size, a number or a "
            f"list of numbers. Got {type(cell).__name__}: {cell!r}."
        )


def output_size_of(cell: Any) -> int:
    """Return the output size of a cell, by default the size of its first state."""
    size = getattr(cell, "output_size", None)
    return int(sizes_of(cell.state_size)[0] if size is None else size)


def like_state(cell: Any, state: Any) -> Any:
    """Return a state with the structure of `state_size`: a tensor if that is one number."""
    if isinstance(cell.state_size, list | tuple):
        return list(state)
    return state[0] if nest.is_nested(state) else state


@cache
def _takes_dtype(function: Callable[..., Any]) -> bool:
    """Whether a method of a cell takes the dtype of its state, as those of Keras 2 do."""
    return "dtype" in inspect.signature(function).parameters


def initial_state_of(cell: Any, batch_size: int, dtype: str) -> list[Any]:
    """Return the initial state of any cell as a list."""
    if hasattr(cell, "get_initial_state"):
        more = {"dtype": dtype} if _takes_dtype(type(cell).get_initial_state) else {}
        return as_list(cell.get_initial_state(batch_size=batch_size, **more))
    return [zeros((batch_size, n), dtype) for n in sizes_of(cell.state_size)]
