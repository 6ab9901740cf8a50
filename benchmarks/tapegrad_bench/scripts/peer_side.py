"""The process that compares and times functions of a script in another library."""

from __future__ import annotations

import importlib.metadata
import os
import re
import time
from itertools import cycle
from typing import Any

import numpy as np

from tapegrad_bench.adapters.library import UnsupportedError
from tapegrad_bench.scripts.agreement import Agreement, is_widened, judge
from tapegrad_bench.scripts.captured import Captured, Part, unpack, wide_array, widened
from tapegrad_bench.scripts.clock import first_line, time_steps
from tapegrad_bench.scripts.steps import Step, make_step, reference_step
from tapegrad_bench.scripts.watching import SETS
from tapegrad_bench.translation import Peer

LEAST = {"numpy": (2, 0), "jax": (0, 4, 31), "torch": (2, 4)}
"""The versions from which on the translations work."""

_OUT_OF_MEMORY = re.compile(r"out of memory|RESOURCE_EXHAUSTED|can't allocate memory", re.I)


class PeerSession:
    """Answers the requests of the command."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._peer: Any = None
        self._captured: Captured | None = None
        self._steps: dict[str, Step] = {}

    def load(self, library: str) -> str:
        """Import the library and return its version."""
        try:
            version = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            raise UnsupportedError(f"{library} is not installed") from None
        if _numbers(version) < LEAST[library]:
            least = ".".join(map(str, LEAST[library]))
            raise UnsupportedError(f"{library} {version} is too old: {least} is needed")
        if library == "numpy" and self._device != "cpu":
            raise UnsupportedError("numpy computes on the CPU only")
        self._peer = Peer(library, self._device)
        if library == "torch" and self._device == "cpu":
            threads = os.environ.get("OMP_NUM_THREADS")
            self._peer.xp.set_num_threads(int(threads or self._peer.xp.get_num_threads()))
        return version

    def take(self, packed: bytes) -> None:
        """Take a captured function, in place of the one before."""
        self._steps.clear()
        self._captured = unpack(packed)

    def check(self, name: str) -> tuple[Agreement, float]:
        """Run the first call of a part; return whether it agrees, and its seconds."""
        part, inputs = self._part(name)
        try:
            start = time.perf_counter()
            step = make_step(self._peer, part)
            results = step(self._arrays(inputs))
            step.synchronize(results)
            first = time.perf_counter() - start
            found = [self._peer.host(result).copy() for result in results]
            wide = self._wide(part, inputs) if is_widened(part) else None
        except Exception as error:
            raise _in_words(error) from error
        self._steps[name] = step
        return judge(part, found, wide), first

    def time(self, name: str, seconds: float) -> list[float]:
        """Return the seconds of steps of a part that was checked."""
        step, captured = self._steps[name], self._captured
        assert captured is not None
        sets = [captured.inputs[k % len(captured.inputs)] for k in range(SETS)]
        try:
            turn = cycle([self._arrays(inputs) for inputs in sets])
            return time_steps(lambda: step(next(turn)), step.synchronize, seconds, self._device)
        except Exception as error:
            raise _in_words(error) from error

    def _part(self, name: str) -> tuple[Part, list[np.ndarray]]:
        captured = self._captured
        assert captured is not None
        part = captured.parts[name]
        if part.gradients and self._peer.name == "numpy":
            raise UnsupportedError("numpy has no gradients")
        return part, captured.inputs[0]

    def _arrays(self, inputs: list[np.ndarray]) -> list[Any]:
        return [self._peer.array(array) for array in inputs]

    def _wide(self, part: Part, inputs: list[np.ndarray]) -> list[np.ndarray] | None:
        """Return the results in double precision; None if they do not fit into memory."""
        try:
            step = reference_step(self._peer, widened(part))
            results = step(self._arrays([wide_array(array) for array in inputs]))
            return [self._peer.host(result).copy() for result in results]
        except Exception as error:
            if _OUT_OF_MEMORY.search(str(error)) or isinstance(error, MemoryError):
                return None
            raise


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, e.g. (2, 13, 0) for "2.13.0+cpu"."""
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("+")[0])[:3])


def _in_words(error: Exception) -> Exception:
    if isinstance(error, UnsupportedError):
        return error
    if isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(str(error)):
        return UnsupportedError("out of memory")
    return UnsupportedError(first_line(error))
