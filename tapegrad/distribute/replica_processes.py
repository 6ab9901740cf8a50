"""Start the other replicas of a program that no launcher has started.

A replica is a process that runs the whole program. When a script makes a `MirroredStrategy` for
several devices, it is started again once per further device. The first process prints what the
program prints; of the others, only errors are printed.
"""

from __future__ import annotations

import atexit
import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from tapegrad.control.hub import start_process
from tapegrad.core.values.device import list_devices
from tapegrad.core.world import current_world
from tapegrad.distribute.environment import Place, find_place
from tapegrad.distribute.launch import environment_of
from tapegrad.errors import ArgumentError

REPLICAS = "TAPEGRAD_REPLICAS"
"""How many replicas `MirroredStrategy` starts; 1 starts none."""

PATIENCE = 10.0
"""Seconds that the other replicas have to end after the first one."""


def place_with_replicas(devices: Sequence[str]) -> Place | None:
    """Start the replicas for some devices, by default all GPUs; return the place of this process.

    Return None if there is one replica, or if the program cannot be started again.
    """
    is_alone = current_world().peers is None and find_place(os.environ).launcher == "none"
    if not is_alone or not _is_script():
        return None
    count = _count(devices)
    if count > 1:
        return _start(count)
    if REPLICAS not in os.environ and not devices:
        # Not a warning: the program computes what it should.
        sys.stderr.write(
            "tapegrad: MirroredStrategy has one replica, because one device is visible. "
            f"{REPLICAS}=2 starts two processes on it.\n"
        )
    return None


def _count(devices: Sequence[str]) -> int:
    """Return how many replicas a strategy has on some devices."""
    chosen = os.environ.get(REPLICAS)
    if chosen is not None:
        if not chosen.isdecimal() or int(chosen) < 1:
            raise ArgumentError(f"{REPLICAS} must be a number of replicas. Got {chosen!r}.")
        return int(chosen)
    found = [re.search(r"(cpu|gpu|cuda):(\d+)$", str(name).lower()) for name in devices]
    kinds = {one[1] for one in found if one}
    if devices:
        # Each replica takes the GPU of its number.
        in_order = [int(one[2]) for one in found if one] == [*range(len(devices))]
        return len(devices) if kinds == {"cpu"} or (in_order and "cpu" not in kinds) else 1
    if "TAPEGRAD_DEVICE" in os.environ:
        return 1
    return max(1, sum(name.startswith("cuda:") for name in list_devices()))


def _is_script() -> bool:
    """Return whether the strategy is made by the script that Python runs, or by files beside it.

    Test runners, notebooks and servers also run programs, but must not be started again.
    """
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    frame: Any = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("tapegrad."):
        frame = frame.f_back
    made_in = None if frame is None else frame.f_globals.get("__file__")
    if main is None or made_in is None or hasattr(sys, "ps1"):
        return False
    return Path(made_in).resolve().is_relative_to(Path(main).resolve().parent)


def _start(count: int) -> Place:
    port = start_process(count)
    command = [sys.executable, *sys.orig_argv[1:]]
    processes, threads = [], []
    for rank in range(1, count):
        process = subprocess.Popen(
            command,
            env=environment_of(rank, count, port),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        thread = threading.Thread(target=_copy, args=(process.stderr, rank), daemon=True)
        thread.start()
        processes.append(process)
        threads.append(thread)
    # It runs after the function that `init` registers, which waits for the end of all programs.
    atexit.register(_end, processes, threads)
    address = ("127.0.0.1", port)
    return Place(0, count, 0, count, "MirroredStrategy", address, hub_is_running=True)


def _copy(source: IO[str], rank: int) -> None:
    with source:
        for line in source:
            sys.stderr.write(f"[{rank}] {line}")
            sys.stderr.flush()


def _end(processes: Sequence[subprocess.Popen[str]], threads: Sequence[threading.Thread]) -> None:
    for process in processes:
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
    for thread in threads:
        thread.join(1.0)
