"""Shuffles: a buffer from which elements are drawn at random and which is filled up again.

The draws depend on the seed and the number of the pass alone. So a pass that resumes need only
repeat the draws, on positions instead of elements.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from tapegrad.core.device import device
from tapegrad.data.plan import END, Plan, Rows, Run, Source, State
from tapegrad.ops.random_generator import get_global_generator

_AT_ONCE = 1024
"""Random numbers drawn together; the stream is the same whatever this is."""


class Shuffle(Plan):
    """The elements in an order that changes with each pass, or one order for all passes."""

    step = "shuffle"

    def __init__(self, plan: Plan, buffer_size: int, seed: int | None, reshuffles: bool) -> None:
        self._input = plan
        self._buffer_size = buffer_size
        self._seed = _new_seed() if seed is None else seed % 2**64
        self._reshuffles = reshuffles
        self._passes = 0
        self._lock = threading.Lock()

    def open(self, run: Run, state: State | None) -> Source:
        if run.peeks:
            return self._input.start(run)
        # The state has the seed too: one that nobody chose would be another after a restart.
        order = Order(
            self._seed if state is None else state["seed"],
            self._next_pass() if state is None else self._again(state["pass"]),
        )
        rows = self._input.rows()
        if rows is not None and rows.ready:
            taken = 0 if state is None else state["taken"]
            return _ShuffledRows(rows, self._buffer_size, order, taken)
        return _Shuffled(self._input, run.on_host(), self._buffer_size, order, state or {})

    def _next_pass(self) -> int:
        if not self._reshuffles:
            return 0
        with self._lock:
            self._passes += 1
            return self._passes - 1

    def _again(self, number: int) -> int:
        """Let later passes count on from one that resumes."""
        if self._reshuffles:
            with self._lock:
                self._passes = max(self._passes, number + 1)
        return number

    def size(self) -> int:
        return self._input.size()

    def spec(self) -> Any:
        return self._input.spec()


def _new_seed() -> int:
    with device("cpu"):
        return int(get_global_generator().make_seeds().numpy()[0, 0]) % 2**64


class Order:
    """The random numbers of one pass."""

    def __init__(self, seed: int, number: int) -> None:
        self.seed = seed
        self.number = number
        self.draws = self._drawn()

    def _drawn(self) -> Iterator[float]:
        generator = np.random.default_rng([self.seed, self.number])
        while True:
            yield from generator.random(_AT_ONCE).tolist()

    def state(self, taken: int) -> State:
        return {"step": "shuffle", "seed": self.seed, "pass": self.number, "taken": taken}


class _Buffer:
    """Holds elements, or the positions of elements, and gives them away at random."""

    def __init__(self, order: Order) -> None:
        self.held: list[Any] = []
        self._order = order

    def exchange(self, arriving: Iterator[Any], count: int) -> list[Any]:
        """Return so many elements, each replaced by one that arrives while there are any."""
        held, draws = self.held, self._order.draws
        leaving: list[Any] = []
        while held and len(leaving) < count:
            place = int(next(draws) * len(held))
            leaving.append(held[place])
            element = next(arriving, END)
            if element is not END:
                held[place] = element
                continue
            last = held.pop()
            if place < len(held):
                held[place] = last
        return leaving


class _Positions:
    """The order in which elements 0, 1, 2, ... leave a buffer."""

    def __init__(self, total: int, buffer_size: int, order: Order, taken: int) -> None:
        self.buffer = _Buffer(order)
        self.buffer.held = list(range(min(total, buffer_size)))
        self._arriving = iter(range(len(self.buffer.held), total))
        self.taken = 0
        self.next(taken)

    def next(self, count: int) -> list[int]:
        """Return the positions of the next elements, fewer than `count` at the end."""
        found: list[int] = self.buffer.exchange(self._arriving, count)
        self.taken += len(found)
        return found


class _ShuffledRows(Source):
    """Reads rows in a random order: only their positions are in the buffer."""

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


class _Shuffled(Source):
    """Shuffles what comes from a source.

    To resume, the buffer is filled anew: one by one where the input can be read in any order,
    else by reading it again from where the pass began.
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
            while self._taken < taken and self.next() is not END:
                pass

    def next(self) -> Any:
        held = self._buffer.held
        while len(held) < self._buffer_size and (element := self._source.next()) is not END:
            held.append(element)
        if not held:
            return END
        self._taken += 1
        (element,) = self._buffer.exchange(iter([self._source.next()]), 1)
        return element

    def state(self) -> State:
        inside = {"first": self._first, "input": self._source.state()}
        return self._order.state(self._taken) | inside

    def close(self) -> None:
        self._source.close()
