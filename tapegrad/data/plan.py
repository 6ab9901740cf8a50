"""Plans and sources: a plan says what a dataset is made of, a source reads through it once.

Everything here deals in elements on the host; `Dataset` is the face of plans for users.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from tapegrad.core import nest
from tapegrad.data.resident import Resident
from tapegrad.data.structure import mapped, spec_of, stacked
from tapegrad.errors import ArgumentError, ArgumentTypeError

State = dict[str, Any]
"""Where a source stands, in values that JSON can hold."""


_COUNTS = {"at", "given", "pass", "place", "round", "taken", "turn"}
"""What is a number in the states of all steps that have it."""

_AS_IT_WAS = "Build the dataset as it was when the state was taken."


class End:
    """What a source returns instead of an element when there is none left."""

    def __repr__(self) -> str:
        return "END"


END = End()


@dataclass(frozen=True)
class Run:
    """For whom a source is opened.

    `like` is an array that lies where a step that works ahead may put the elements: only the last
    steps know, because what comes before works on the host. `peeks` is set by those who look at
    one element to learn its shape: nothing is counted, kept or started for them.
    """

    like: Any = None
    peeks: bool = False

    def on_host(self) -> Run:
        return self if self.like is None else replace(self, like=None)


class Source(ABC):
    """One pass over a dataset."""

    @abstractmethod
    def next(self) -> Any:
        """Return the next element, or END, and END again from then on."""

    @abstractmethod
    def state(self) -> State:
        """Return where this pass stands, for `Plan.start`."""

    def block(self, count: int, step: str, like: Any = None) -> tuple[int, Any]:
        """Return how many elements there were, at most `count`, and these as one.

        They may be tensors where the array `like` lies, if it is given.
        """
        elements: list[Any] = []
        while len(elements) < count and (element := self.next()) is not END:
            elements.append(element)
        return len(elements), stacked(elements, step) if elements else None

    def gathers(self, like: Any) -> bool:
        """Tell whether blocks are gathered where the array `like` lies, so that none is copied."""
        return False

    def is_gathered(self) -> bool:
        """Tell whether elements are such blocks."""
        return False

    def close(self) -> None:  # noqa: B027  # arrays and numbers have nothing to close
        """End the threads that work for this pass."""


class Above(Source):
    """A source that reads another one."""

    _step: str

    def __init__(self, source: Source) -> None:
        self._source = source

    def state(self) -> State:
        return {"step": self._step, "input": self._source.state()}

    def close(self) -> None:
        self._source.close()


class Rows(ABC):
    """Elements that can be read in any order.

    They are `ready` if reading one runs no function of the user's.
    """

    ready = True

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def at(self, index: int) -> Any:
        """Return one element."""

    def block(self, indices: range | Sequence[int], step: str, like: Any = None) -> Any:
        """Return several elements as one, perhaps as tensors where the array `like` lies."""
        return stacked([self.at(index) for index in indices], step)

    def gathers(self, like: Any) -> bool:
        """Tell whether blocks are gathered where the array `like` lies, so that none is copied."""
        return False


class ListRows(Rows):
    """Elements of a list, whose shapes may differ."""

    def __init__(self, elements: Sequence[Any]) -> None:
        self._elements = elements

    def __len__(self) -> int:
        return len(self._elements)

    def at(self, index: int) -> Any:
        return self._elements[index]


def refuse_beyond(step: str) -> NoReturn:
    """Say that a state is not of this dataset, but of a longer one."""
    raise ArgumentError(f"The state stands beyond the last element of {step}. {_AS_IT_WAS}")


class Plan(ABC):
    """A dataset: a source of its own, or a step on top of others."""

    step: str
    """TensorFlow's name of the step."""

    memory: Any = None
    """What later passes go by: a shuffle's seed and how many began; which one a cache keeps."""

    def start(self, run: Run, state: State | None = None) -> Source:
        """Return a source at the start of a pass, or where another one stood."""
        if state is not None:
            self._check(state)
        rows = self.rows()
        if rows is not None and rows.ready:
            return RowSource(self.step, rows, 0 if state is None else state["at"])
        return self.open(run, state)

    def _check(self, state: Any) -> None:
        if not isinstance(state, dict):
            raise ArgumentTypeError(
                "A state is the dictionary that an iterator's state() returned. "
                f"Got {type(state).__name__}."
            )
        if state.get("step") != self.step:
            raise ArgumentError(
                f"The state belongs to a dataset with the step {state.get('step')!r} where this "
                f"one has {self.step!r}. {_AS_IT_WAS}"
            )
        for key in _COUNTS & state.keys():
            if type(state[key]) is not int or state[key] < 0:
                raise ArgumentError(
                    f"The state of {self.step} is damaged: {key!r} is {state[key]!r:.50}, which is "
                    "no number from 0 on."
                )

    def remember(self, memory: Any) -> None:
        self.memory = memory

    @abstractmethod
    def open(self, run: Run, state: State | None) -> Source:
        """Return a source; `start` has checked that the state is for this step."""

    @abstractmethod
    def size(self) -> int:
        """Return the number of elements, or what stands for those without one."""

    @abstractmethod
    def spec(self) -> Any:
        """Return a structure of TensorSpecs that all elements fit."""

    def rows(self) -> Rows | None:
        """Return the elements for reading in any order, if that can be done."""
        return None


class RowSource(Source):
    """Reads rows from the first to the last; a state takes it anywhere at once."""

    def __init__(self, step: str, rows: Rows, at: int, more: State | None = None) -> None:
        if at > len(rows):
            refuse_beyond(step)
        self._rows = rows
        self._at = at
        self._more = {"step": step, **(more or {})}

    def next(self) -> Any:
        if self._at >= len(self._rows):
            return END
        element = self._rows.at(self._at)
        self._at += 1
        return element

    def block(self, count: int, step: str, like: Any = None) -> tuple[int, Any]:
        indices = range(self._at, min(self._at + count, len(self._rows)))
        if not indices:
            return 0, None
        block = self._rows.block(indices, step, like)
        self._at = indices.stop
        return len(indices), block

    def gathers(self, like: Any) -> bool:
        return self._rows.gathers(like)

    def state(self) -> State:
        return {**self._more, "at": self._at}


class ArrayRows(Rows):
    """The slices of arrays along their first axis."""

    def __init__(self, arrays: Any) -> None:
        # A memory-mapped file gives its own kind of array; as a plain one it still reads lazily.
        self._arrays = mapped(np.asarray, arrays)
        self._length = int(nest.flatten(arrays)[0].shape[0])
        self._resident = Resident(self._arrays)

    def __len__(self) -> int:
        return self._length

    def at(self, index: int) -> Any:
        return mapped(lambda array: array[index, ...], self._arrays)

    def block(self, indices: range | Sequence[int], step: str, like: Any = None) -> Any:
        chosen: Any = np.asarray(indices, np.int64)
        found = self._resident.rows(chosen, like)
        if found is not None:
            return found
        if isinstance(indices, range) and indices.step > 0:
            chosen = slice(indices.start, indices.stop, indices.step)
        return mapped(lambda array: array[chosen], self._arrays)

    def gathers(self, like: Any) -> bool:
        return self._resident.is_for(like)


class Passing(Plan):
    """A step that passes elements on as they come."""

    def __init__(self, plan: Plan) -> None:
        self._input = plan

    def size(self) -> int:
        return self._input.size()

    def spec(self) -> Any:
        return self._input.spec()


def within(plan: Plan) -> list[Plan]:
    """Return a plan and all that it is made of, in the same order in every process."""
    held = [v if isinstance(v, list | tuple) else [v] for v in vars(plan).values()]
    inputs = [one for group in held for one in group if isinstance(one, Plan)]
    return [plan, *[deeper for one in inputs for deeper in within(one)]]


def remembering(plan: Plan, state: State | None = None) -> list[Plan]:
    """Return the shuffles and caches in a plan, with the memories that they had in a state."""
    found = [one for one in within(plan) if one.step in ("shuffle", "cache")]
    for one, memory in zip(found, state["memories"], strict=True) if state else ():
        one.remember(memory)
    return found


def first_of(plan: Plan) -> Any:
    """Return the first element of a plan, without counting this as a pass."""
    source = plan.start(Run(peeks=True))
    try:
        element = source.next()
    finally:
        source.close()
    if element is END:
        raise ArgumentError(
            f"The elements that {plan.step} gives are known only by looking at one, and there is "
            "none."
        )
    return element


def peek(plan: Plan) -> Any:
    """Return the spec of a plan whose elements must be looked at."""
    return spec_of(first_of(plan))
