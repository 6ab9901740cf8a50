"""The position of `fit` in its epochs and its data, for checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError


class Position:
    """The epoch, and the number of batches done in the epoch and in the pass over the data.

    A checkpoint can store it. `fit` starts at the position that a callback sets in
    `on_train_begin`.
    """

    def __init__(self, data: Any, epoch: int) -> None:
        self._data, self.epoch, self.done, self.taken = data, epoch, 0, 0
        self.is_distributed = False  # whether each replica has its part of the batches already
        self.steps: Iterator[Any] | None = None  # the rest of the data
        self.logs: dict[str, Any] = {}  # the metrics, for an epoch without remaining batches

    def begin(self) -> Iterator[Any]:
        """Begin a pass over the data."""
        self.taken = 0
        return iter(self._data)

    def state(self) -> dict[str, Any]:
        """Return the position as values that JSON can hold."""
        logs = {name: np.asarray(value).tolist() for name, value in self.logs.items()}
        data = [self._data.seed, self.taken, self._data.place() if self.taken else None]
        return {"epoch": self.epoch, "done": self.done, "data": data, "logs": logs}

    def set_state(self, state: dict[str, Any]) -> None:
        """Start `fit` at a position that `state` returned."""
        try:
            seed, taken, place = state["data"]
            steps = self._data.again(seed, taken, place) if taken else None
            self.epoch, self.done = int(state["epoch"]), int(state["done"])
            self.logs = dict(state["logs"])
        except (KeyError, TypeError, ValueError) as error:
            raise ArgumentError(
                f"The saved training position is damaged or belongs to other data: {error!r}."
            ) from error
        self.steps, self.taken = steps, taken
