"""Plans and sources: a plan describes a dataset, and a source is one pass over it.

Elements are on the host throughout. `Dataset` is the public interface to plans.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from tapegrad.core.values import nest
from tapegrad.data.resident import Resident
from tapegrad.data.structure import mapped, spec_of, stacked
from tapegrad.errors import ArgumentError, ArgumentTypeError

State = dict[str, Any]
"""The position of a source, in values that JSON can hold."""


_COUNTS = {"at", "given", "pass", "place", "round", "taken", "turn"}
"""Keys whose values are integers in the state of every step."""

_REBUILD = "Build the dataset in the same way as when the state was saved."


class End:
    """Returned by sources in place of an element after the last one."""

    def __repr__(self) -> str:
        return "END"


END = End()


@dataclass(frozen=True)
class Run:
    """Options for opening a source.

    `like` is an array on the target device, to which a step that prefetches may copy elements.
    Only the last steps receive it; the earlier ones work on the host. `peeks` is set to inspect one
    element for its shape: then nothing is counted, cached or started.
    """

    like: Any = None
    peeks: bool = False

    def on_host(self) -> Run:
        return self if self.like is None else replace(self, like=None)


class Source(ABC):
    """One pass over a dataset."""

    @abstractmethod
    def next(self) -> Any:
        """Return the next element, or END; after the end, END again."""

    @abstractmethod
    def state(self) -> State:
        """Return the position of this pass, for `Plan.start`."""

    def block(self, count: int, step: str, like: Any = None) -> tuple[int, Any]:
        """Return up to `count` elements as one, and their number.

        If the array `like` is given, they may be tensors on its device.
        """
        elements: list[Any] = []
        while len(elements) < count and (element := self.next()) is not END:
            elements.append(element)
        return len(elements), stacked(elements, step) if elements else None

    def gathers(self, like: Any) -> bool:
        """Return whether blocks are gathered on the device of `like`, so that none is copied."""
        return False

    def is_gathered(self) -> bool:
        """Return whether the elements are gathered blocks."""
        return False

    def close(self) -> None:  # noqa: B027  # arrays and numbers have nothing to close
        """Stop the threads of this pass."""


class Above(Source):
    """A source that reads another source."""

    _step: str

    def __init__(self, source: Source) -> None:
        self._source = source

    def state(self) -> State:
        return {"step": self._step, "input": self._source.state()}

    def close(self) -> None:
        self._source.close()


class Rows(ABC):
    """Elements with random access.

    They are `ready` if reading one calls no user function.
    """

    ready = True

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def at(self, index: int) -> Any:
        """Return one element."""

    def block(self, indices: range | Sequence[int], step: str, like: Any = None) -> Any:
        """Return several elements as one, perhaps as tensors on the device of `like`."""
        return stacked([self.at(index) for index in indices], step)

    def gathers(self, like: Any) -> bool:
        """Return whether blocks are gathered on the device of `like`, so that none is copied."""
        return False


class ListRows(Rows):
    """The elements of a list, whose shapes may differ."""

    def __init__(self, elements: Sequence[Any]) -> None:
        self._elements = elements

    def __len__(self) -> int:
        return len(self._elements)

    def at(self, index: int) -> Any:
        return self._elements[index]


def refuse_beyond(step: str) -> NoReturn:
    """Raise because a state belongs to a longer dataset."""
    raise ArgumentError(f"The state points beyond the last element of {step}. {_REBUILD}")


class Plan(ABC):
    """A description of a dataset: a data source, or a step that reads other plans."""

    step: str
    """TensorFlow's name for the step."""

    memory: Any = None
    """State shared by passes: the seed and pass count of a shuffle, or the pass a cache keeps."""

    options: Any = None
    """What `Dataset.with_options` has set at this step."""

    def start(self, run: Run, state: State | None = None) -> Source:
        """Return a source at the start of a pass, or at the position of `state`."""
        if state is not None:
            self._check(state)
        rows = self.rows()
        if rows is not None and rows.ready:
            return RowSource(self.step, rows, 0 if state is None else state["at"])
        return self.open(run, state)

    def _check(self, state: Any) -> None:
        if not isinstance(state, dict):
            raise ArgumentTypeError(
                "A state must be the dictionary that an iterator's state() returned. "
                f"Got {type(state).__name__}."
            )
        if state.get("step") != self.step:
            raise ArgumentError(
                f"The state belongs to a dataset with the step {state.get('step')!r}, but this "
                f"dataset has {self.step!r} there. {_REBUILD}"
            )
        for key in _COUNTS & state.keys():
            if type(state[key]) is not int or state[key] < 0:
                raise ArgumentError(
                    f"The state of {self.step} is damaged: {key!r} must be an integer >= 0. "
                    f"Got {state[key]!r:.50}."
                )

    def remember(self, memory: Any) -> None:
        self.memory = memory

    @abstractmethod
    def open(self, run: Run, state: State | None) -> Source:
        """Return a source; `start` has checked that the state belongs to this step."""

    @abstractmethod
    def size(self) -> int:
        """Return the number of elements, or the sentinel for an infinite or unknown number."""

    @abstractmethod
    def spec(self) -> Any:
        """Return the TensorSpecs that all elements match."""

    def rows(self) -> Rows | None:
        """Return the elements with random access, if possible."""
        return None


class RowSource(Source):
    """Reads rows from first to last; a state restores any position directly."""

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
        # A memory-mapped array becomes a plain one, which still reads lazily.
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
    """A step that passes elements on unchanged."""

    def __init__(self, plan: Plan) -> None:
        self._input = plan

    def size(self) -> int:
        return self._input.size()

    def spec(self) -> Any:
        return self._input.spec()


def plan_and_inputs(plan: Plan) -> list[Plan]:
    """Return a plan and all its inputs, in the same order in every process."""
    held = [v if isinstance(v, list | tuple) else [v] for v in vars(plan).values()]
    inputs = [one for group in held for one in group if isinstance(one, Plan)]
    return [plan, *[deeper for one in inputs for deeper in plan_and_inputs(one)]]


def plans_with_memory(plan: Plan, state: State | None = None) -> list[Plan]:
    """Return the shuffles and caches in a plan, with their memories restored from a state."""
    found = [one for one in plan_and_inputs(plan) if one.step in ("shuffle", "cache")]
    for one, memory in zip(found, state["memories"], strict=True) if state else ():
        one.remember(memory)
    return found


def first_of(plan: Plan) -> Any:
    """Return the first element of a plan, without counting a pass."""
    source = plan.start(Run(peeks=True))
    try:
        element = source.next()
    finally:
        source.close()
    if element is END:
        raise ArgumentError(
            f"The shape of the elements of {plan.step} is only known from an element, and the "
            "dataset is empty."
        )
    return element


def peek(plan: Plan) -> Any:
    """Return the spec of a plan, found by inspecting its first element."""
    return spec_of(first_of(plan))
