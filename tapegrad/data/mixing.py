"""Elements of several datasets in one: sample_from_datasets and choose_from_datasets."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.data.constants import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from tapegrad.data.functions import annotate_errors
from tapegrad.data.plan import END, Plan, Rows, Run, Source, State
from tapegrad.data.shuffling import new_seed
from tapegrad.data.sources import random_access
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.program.record.signature import TensorSpec

_DRAWN_TOGETHER = 1024


class Choose(Plan):
    """Elements of several datasets, each time the next one of that which another dataset names."""

    def __init__(self, step: str, plans: Sequence[Plan], choice: Plan, stops: bool) -> None:
        if not plans:
            raise ArgumentError(f"{step} needs at least one dataset. Got none.")
        self.step = step
        self._inputs = list(plans)
        self._choice = choice
        self._stops = stops

    def open(self, run: Run, state: State | None) -> Source:
        host = run.on_host()
        saved = [None] * len(self._inputs) if state is None else state["inputs"]
        if len(saved) != len(self._inputs):
            raise ArgumentError(f"The state of {self.step} has another number of datasets.")
        sources = [plan.start(host, before) for plan, before in zip(self._inputs, saved)]
        choice = self._choice.start(host, None if state is None else state["choice"])
        ended = [False] * len(sources) if state is None else [bool(e) for e in state["ended"]]
        return _Chosen(self.step, sources, choice, ended, self._stops)

    def size(self) -> int:
        sizes = {plan.size() for plan in (*self._inputs, self._choice)}
        return INFINITE_CARDINALITY if sizes == {INFINITE_CARDINALITY} else UNKNOWN_CARDINALITY

    def spec(self) -> Any:
        return self._inputs[0].spec()


class _Chosen(Source):
    def __init__(
        self, step: str, sources: list[Source], choice: Source, ended: list[bool], stops: bool
    ) -> None:
        self._step = step
        self._sources = sources
        self._choice = choice
        self._ended = ended
        self._stops = stops

    def next(self) -> Any:
        while not (any(self._ended) if self._stops else all(self._ended)):
            place = self._chosen()
            if place is None:
                break
            element = END if self._ended[place] else self._sources[place].next()
            if element is not END:
                return element
            self._ended[place] = True
        return END

    def _chosen(self) -> int | None:
        index = self._choice.next()
        if index is END:
            return None
        with annotate_errors(self._step):
            if getattr(index, "shape", None) != () or index.dtype.kind not in "iu":
                raise ShapeError(f"{self._step} needs a choice_dataset of single integers.")
            if not 0 <= index < len(self._sources):
                raise ArgumentError(
                    f"{self._step} got {len(self._sources)} datasets, and the choice {int(index)}."
                )
        return int(index)

    def state(self) -> State:
        return {
            "step": self._step,
            "inputs": [source.state() for source in self._sources],
            "choice": self._choice.state(),
            "ended": list(self._ended),
        }

    def close(self) -> None:
        for source in (*self._sources, self._choice):
            source.close()


# Random choices


class _Draws(Rows):
    """Random integers with given probabilities; each is a function of the seed and its place."""

    def __init__(self, probabilities: np.ndarray, seed: int) -> None:
        self._limits = np.cumsum(probabilities)
        self._seed = seed
        self._block: tuple[int, np.ndarray] = (-1, np.zeros(0))

    def __len__(self) -> int:
        return sys.maxsize

    def at(self, index: int) -> Any:
        number, place = divmod(index, _DRAWN_TOGETHER)
        held, drawn = self._block
        if held != number:
            random = np.random.default_rng([self._seed, number]).random(_DRAWN_TOGETHER)
            most = len(self._limits) - 1  # the last limit may be rounded to less than 1
            drawn = np.minimum(np.searchsorted(self._limits, random, "right"), most)
            self._block = (number, drawn)
        return np.asarray(drawn[place], np.int64)


def sampled(plans: Sequence[Plan], weights: Any, seed: int | None, stops: bool) -> Plan:
    """Return a plan that draws the dataset of each element at random."""
    step = "sample_from_datasets"
    share = np.ones(len(plans)) if weights is None else np.asarray(weights, np.float64)
    if share.shape != (len(plans),):
        raise ShapeError(
            f"{step} needs one weight per dataset. Got {len(plans)} datasets and weights of shape "
            f"{share.shape}."
        )
    if not (np.isfinite(share).all() and (share >= 0.0).all() and (share.any() or not plans)):
        raise ArgumentError(f"{step} needs weights of at least 0, not all 0. Got {weights!r}.")
    kept = [plan for plan, one in zip(plans, share) if one]  # others are never read
    drawn = share[share > 0.0]
    rows = _Draws(drawn / drawn.sum(), new_seed() if seed is None else seed % 2**64)
    spec = TensorSpec((), "int64")
    choice = random_access("draws", rows, lambda: spec, INFINITE_CARDINALITY)
    return Choose(step, kept, choice, stops)
