"""`tapegrad doctor --distributed`: check the processes of a program and what is between them.

Without a launcher it starts two processes on this machine. Under `mpiexec`, `srun` or torchrun it
checks the processes that these have started.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np

from tapegrad.commands.doctor import Finding
from tapegrad.core.backend.registry import capabilities_of
from tapegrad.core.values.device import default_device
from tapegrad.core.world import current_world
from tapegrad.distribute.environment import find_place
from tapegrad.distribute.launch import run
from tapegrad.distribute.mirrored import self_and_others
from tapegrad.distribute.process_group import barrier, init
from tapegrad.errors import TapegradError
from tapegrad.ops.collective import functions as collective
from tapegrad.ops.creation import constant, zeros

MEGABYTES = (0.001, 1.0, 16.0)
"""The sizes of the arrays whose sums are timed."""

SLOWER = 2.0
"""A link that takes so many times as long as the median link is reported."""

LINK = 4_000_000
"""Bytes that are sent to time one link."""


def main(count: int, as_json: bool) -> int:
    """Run the checks and return the exit status; only rank 0 prints."""
    if find_place(os.environ).size == 1:
        extra = ["--json"] if as_json else []
        command = [sys.executable, "-m", "tapegrad", "doctor", "--distributed", *extra]
        return run(command, count, prefixes=False)
    found = []
    try:
        init()
        for finding in _findings():
            found.append(finding)
            if current_world().rank == 0 and not as_json:
                _say(f"{finding.state:8}{finding.check:28}{finding.message}")
    except TapegradError as error:
        if current_world().rank == 0:
            _say(f"failed  {error}")
        return 1
    if as_json and current_world().rank == 0:
        _say(json.dumps([finding.as_dict() for finding in found], indent=2))
    return 1 if any(finding.state == "failed" for finding in found) else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _findings() -> Iterator[Finding]:
    yield from _processes()
    yield _sums_are_right()
    for megabytes in MEGABYTES:
        yield _speed_of_sums(megabytes)
    yield from _links()


def _processes() -> Iterator[Finding]:
    """Compare what the processes run on."""
    here = {
        "host": socket.gethostname(),
        "device": default_device(),
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "tapegrad": sys.modules["tapegrad"].__version__,
    }
    everyone = [json.loads(text) for text in self_and_others(json.dumps(here))]
    hosts = ", ".join(f"{rank}: {one['host']} {one['device']}" for rank, one in enumerate(everyone))
    yield Finding("processes", "", "ok", 0.0, f"{len(everyone)} ({hosts})")
    for name in ("Python", "NumPy", "tapegrad"):
        versions = [one[name] for one in everyone]
        if len(set(versions)) > 1:
            which = ", ".join(f"{rank}: {version}" for rank, version in enumerate(versions))
            text = f"{name} has different versions ({which}). Install the same everywhere."
            yield Finding("versions", "", "failed", 0.0, text)


def _sums_are_right() -> Finding:
    world = current_world()
    found = collective.all_reduce(constant(np.arange(1000.0) * (world.rank + 1))).numpy()
    expected = np.arange(1000.0) * sum(range(1, world.size + 1))
    if not np.allclose(found, expected):
        return Finding("sums", "", "failed", 0.0, "all_reduce returns wrong sums.")
    uses = capabilities_of(type(zeros([1]).array)).communication
    return Finding("sums", "", "ok", 0.0, f"right, through {type(uses).__name__}")


def _time_of(call: Callable[[], Any], repeats: int) -> float:
    """Return the least seconds of a call in the slowest process."""
    call()
    times = []
    for _ in range(repeats):
        barrier()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(collective.all_reduce(constant(min(times), "float64"), "max"))


def _speed_of_sums(megabytes: float) -> Finding:
    x, size = zeros([max(1, int(megabytes * 250_000))]), current_world().size
    seconds = _time_of(lambda: collective.all_reduce(x).numpy(), 5)
    # A ring sends 2 (n - 1) / n of the array from each process to the next.
    speed = 2 * (size - 1) / size * megabytes / 1000 / seconds
    text = f"{seconds * 1e3:.3f} ms, {speed:.2f} GB/s from each process"
    return Finding(f"sum of {megabytes:g} MB", "", "ok", round(seconds, 6), text)


def _links() -> Iterator[Finding]:
    """Time the link from each process to the next, and name slow ones."""
    world = current_world()
    x = zeros([LINK // 4])
    to, source = (world.rank + 1) % world.size, (world.rank - 1) % world.size

    def shift() -> None:
        collective.send(x, to)
        collective.recv(x, source).numpy()

    shift()
    times = []
    for _ in range(5):
        barrier()
        start = time.perf_counter()
        shift()
        times.append(time.perf_counter() - start)
    seconds = collective.all_gather(constant([min(times)], "float64")).tolist()
    typical = median(seconds)
    slow = [rank for rank, one in enumerate(seconds) if one > SLOWER * typical]
    for rank in slow:
        text = (
            f"What rank {rank} receives from rank {(rank - 1) % world.size} takes "
            f"{seconds[rank] / typical:.1f} times as long as the median. Look at the network card "
            "and the load of its machine."
        )
        yield Finding("slow link", "", "slow", round(seconds[rank], 6), text)
    speed = LINK / 1e9 / typical
    yield Finding("links", "", "ok", round(typical, 6), f"{speed:.2f} GB/s between neighbours")
