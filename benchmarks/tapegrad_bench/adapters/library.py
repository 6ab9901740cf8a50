"""What an adapter gives the runner, whichever library is behind it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Protocol

import numpy as np

from tapegrad_bench.workload import Problem

Outputs = list[np.ndarray]


class UnsupportedError(Exception):
    """A library cannot run a workload; the message says why, for the cell of the table."""


@dataclass(frozen=True)
class Prepared:
    """A step that is ready to run."""

    step: Callable[[], Any]
    """Run one step; its result is the loss and gradients, or what the device makes of them."""
    fetch: Callable[[Any], Outputs]
    """Copy the result to the host in float64: the loss (or output) first."""
    restart: Callable[[], None]
    """Begin anew with the first set of inputs and, for a training step, with the first parameters
    and an optimizer that has made no update. The step stays the same: captured and compiled."""
    gradients: Callable[[], Any] | None = None
    """For a training step: the result with gradients, by the same maths and without an update."""
    parameters: Callable[[], Sequence[Any]] | None = None
    """For a training step: the parameters as they are now."""
    moments: Callable[[], Sequence[Any]] | None = None
    """For Adam: the running means of the gradients, which the steps left in the optimizer.

    They are linear in the gradients of the steps that were timed. The updates are not: Adam takes
    the size of a gradient away."""

    def fetch_parameters(self) -> Outputs:
        """Copy the parameters to the host in float64."""
        return [] if self.parameters is None else self.fetch((None, self.parameters()))[1:]


class Library(Protocol):
    """One library on one device; the function `load(device)` of each adapter makes it."""

    version: str

    def prepare(self, mode: str, problem: Problem) -> Prepared:
        """Bring the data to the device and make the step, or raise UnsupportedError."""

    def release(self) -> None:
        """Forget what was prepared before; a step that is still to run will be prepared anew."""

    def synchronize(self, result: Any) -> None:
        """Wait until `result` and all work before it is done."""

    def stopwatch(self) -> Stopwatch | None:
        """Events on the device, where the library can record them."""

    def allocated(self) -> int | None:
        """Bytes in use on the device now, if anybody counts them."""

    def peak_of(self, run: Callable[[], Any]) -> int | None:
        """The most bytes in use on the device while `run` runs."""

    def transfers_of(self, run: Callable[[], Any]) -> int | None:
        """How often `run` copies from the device to the host, where the library can tell."""


class Stopwatch(Protocol):
    """A pair of device events."""

    def start(self) -> None:
        """Record the first event."""

    def stop(self) -> float:
        """Record the second, wait for it, and return the seconds between them."""


class Uncounted:
    """The part of a library that does not tell how often it copies."""

    def transfers_of(self, run: Callable[[], Any]) -> int | None:
        """Nobody counts them here."""
        return None


class OnHost(Uncounted):
    """The part of a library that computes on the host, at once."""

    def release(self) -> None:
        """Nothing is kept."""

    def synchronize(self, result: Any) -> None:
        """Nothing to wait for."""

    def stopwatch(self) -> Stopwatch | None:
        """No device, no events."""
        return None

    def allocated(self) -> int | None:
        """No device, no memory on it."""
        return None

    def peak_of(self, run: Callable[[], Any]) -> int | None:
        """Likewise."""
        run()
        return None


def in_turn(
    step: Callable[..., Any], sets: Iterable[Sequence[Any]]
) -> tuple[Callable[[], Any], Callable[[], None]]:
    """Return a step that takes the next one of some sets of arguments at each call, and a rewind.

    >>> step, rewind = in_turn(lambda x, y: x + y, [(1, 2), (3, 4)])
    >>> step(), step(), step(), rewind(), step()
    (3, 7, 3, None, 3)
    """
    kept = list(sets)
    turn = cycle(kept)

    def run() -> Any:
        return step(*next(turn))

    def rewind() -> None:
        nonlocal turn
        turn = cycle(kept)

    return run, rewind


def flat(result: Any) -> list[Any]:
    """Return the leaves of (loss, gradients): the loss, then each gradient.

    >>> flat((1.0, [2.0, 3.0]))
    [1.0, 2.0, 3.0]
    """
    loss, gradients = result
    return [loss, *gradients]


def fetching(to_host: Callable[[Any], Any]) -> Callable[[Any], Outputs]:
    """Return a `fetch` for `Prepared`, given how one array is copied to the host.

    >>> fetching(np.asarray)((None, [2]))
    [array([], dtype=float64), array(2.)]
    """

    def fetch(result: Any) -> Outputs:
        return [
            np.empty(0) if value is None else np.array(to_host(value), np.float64)
            for value in flat(result)
        ]

    return fetch


def numpy_bfloat16() -> Any:
    """Return the dtype that NumPy has for bfloat16 once ml_dtypes is imported."""
    try:
        return importlib.import_module("ml_dtypes").bfloat16
    except ImportError as error:
        raise UnsupportedError("bfloat16 needs ml_dtypes. Run: pip install ml_dtypes.") from error
