"""Shuffles: elements are drawn at random from a buffer that is refilled from the input.

The draws depend only on the seed and the number of the pass. A pass that resumes therefore only
repeats the draws, on positions instead of elements.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from tapegrad.core.values.device import device
from tapegrad.data.plan import END, Above, Passing, Plan, Rows, Run, Source, State, refuse_beyond
from tapegrad.ops.random.generator import get_global_generator


class Shuffle(Passing):
    """Passes on the elements in a random order: a new one for each pass, or one for all."""

    step = "shuffle"

    def __init__(self, plan: Plan, buffer_size: int, seed: int | None, reshuffles: bool) -> None:
        super().__init__(plan)
        self._buffer_size = buffer_size
        # Saved with the seed: a seed chosen at random would differ after a restart.
        self.memory = [new_seed() if seed is None else seed % 2**64, 0]
        self._reshuffles = reshuffles
        self._lock = threading.Lock()

    def open(self, run: Run, state: State | None) -> Source:
        if run.peeks:
            return self._input.start(run)
        if state is not None:
            self.remember(state["memory"])
        order = Order(self, self._next_pass() if state is None else state["pass"])
        rows = self._input.rows()
        if rows is not None and rows.ready:
            taken = 0 if state is None else state["taken"]
            return _ShuffledRows(rows, self._buffer_size, order, taken)
        return _Shuffled(self._input, run.on_host(), self._buffer_size, order, state or {})

    def remember(self, memory: Any) -> None:
        seed, passes = map(int, memory)
        if min(seed, passes) < 0:
            raise ValueError(f"memory {memory}")
        self.memory = [seed, passes]

    def _next_pass(self) -> int:
        if not self._reshuffles:
            return 0
        with self._lock:
            seed, passes = self.memory
            self.memory = [seed, passes + 1]
            return int(passes)


def new_seed() -> int:
    """Return a seed drawn from the global generator, for a dataset that was given none."""
    with device("cpu"):
        return int(get_global_generator().make_seeds().numpy()[0, 0]) % 2**64


class Order:
    """The random numbers of one pass."""

    def __init__(self, plan: Shuffle, number: int) -> None:
        self._plan = plan
        self._number = number
        self._generator = np.random.default_rng([plan.memory[0], number])

    def places(self, size: int, kept: int, count: int) -> list[int]:
        """Draw places in a buffer that holds `size` elements for `kept` draws and then shrinks.

        Drawing them together or one by one gives the same places.
        """
        if count == 1:
            return [int(self._generator.random() * size)]
        sizes = np.full(count, size)
        sizes[kept:] -= np.arange(count - kept)
        places: list[int] = (self._generator.random(count) * sizes).astype(np.int64).tolist()
        return places

    def state(self, taken: int) -> State:
        where = {"pass": self._number, "taken": taken}
        return {"step": "shuffle", "memory": self._plan.memory, **where}


class _Buffer:
    """Holds elements, or positions of elements, and returns them in random order."""

    def __init__(self, order: Order) -> None:
        self.held: list[Any] = []
        self._order = order

    def exchange(self, arriving: Iterator[Any], count: int) -> list[Any]:
        """Return `count` elements; each is replaced by an arriving one while there are any."""
        held = self.held
        new = list(islice(arriving, count))
        total = min(count, len(new) + len(held))
        places = self._order.places(len(held), len(new), total) if total else []
        leaving: list[Any] = []
        for place, element in zip(places, new):
            leaving.append(held[place])
            held[place] = element
        for place in places[len(new) :]:
            leaving.append(held[place])
            held[place] = held[-1]
            held.pop()
        return leaving


class _Positions:
    """The order in which elements 0, 1, 2, ... leave a buffer."""

    def __init__(self, total: int, buffer_size: int, order: Order, taken: int) -> None:
        self.buffer = _Buffer(order)
        self.buffer.held = list(range(min(total, buffer_size)))
        self._arriving = iter(range(len(self.buffer.held), total))
        self.taken = 0
        if len(self.next(taken)) < taken:
            refuse_beyond("shuffle")

    def next(self, count: int) -> list[int]:
        """Return the positions of the next elements, fewer than `count` at the end."""
        found: list[int] = self.buffer.exchange(self._arriving, count)
        self.taken += len(found)
        return found


class _ShuffledRows(Source):
    """Reads rows in a random order; the buffer holds only their positions."""

    def __init__(self, rows: Rows, buffer_size: int, order: Order, taken: int) -> None:
        self._rows = rows
        self._order = order
        self._positions = _Positions(len(rows), buffer_size, order, taken)

    def next(self) -> Any:
        found = self._positions.next(1)
        return self._rows.at(found[0]) if found else END

    def block(self, count: int, step: str, like: Any = None) -> tuple[int, Any]:
        found = self._positions.next(count)
        return len(found), self._rows.block(found, step, like) if found else None

    def gathers(self, like: Any) -> bool:
        return self._rows.gathers(like)

    def state(self) -> State:
        return self._order.state(self._positions.taken) | {"first": None, "input": None}


class _Shuffled(Above):
    """Shuffles the elements of a source.

    To resume, the buffer is refilled: element by element if the input has random access,
    otherwise by reading it again from the start of the pass.
    """

    def __init__(self, plan: Plan, run: Run, buffer_size: int, order: Order, state: State) -> None:
        self._buffer_size = buffer_size
        self._order = order
        self._buffer = _Buffer(order)
        self._first = state.get("first")
        self._taken = 0
        rows, taken = plan.rows(), state.get("taken", 0)
        if rows is not None and taken and state["input"] is not None:
            positions = _Positions(len(rows), buffer_size, order, taken)
            self._buffer = positions.buffer
            self._buffer.held = [rows.at(position) for position in self._buffer.held]
            self._taken = taken
            self._source = plan.start(run, state["input"])
        else:
            self._source = plan.start(run, self._first)
            self._first = self._source.state()
            while self._taken < taken:
                if self.next() is END:
                    refuse_beyond("shuffle")

    def next(self) -> Any:
        held = self._buffer.held
        while len(held) < self._buffer_size and (element := self._source.next()) is not END:
            held.append(element)
        if not held:
            return END
        new = self._source.next()
        (element,) = self._buffer.exchange(iter([] if new is END else [new]), 1)
        self._taken += 1
        return element

    def state(self) -> State:
        inside = {"first": self._first, "input": self._source.state()}
        return self._order.state(self._taken) | inside
