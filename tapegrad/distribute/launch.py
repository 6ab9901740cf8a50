"""`tapegrad run -n 4 train.py`: start the processes of a program on this machine.

Lines of output get the rank in front. When a process fails, its error is printed and all others
are ended. The exit status is that of the first process that failed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO

from tapegrad.control.hub import Hub
from tapegrad.distribute.environment import HUB

PATIENCE = 4.0
"""Seconds that the other processes have to end by themselves after a failure."""

NOTICING = 1.0
"""Seconds after which the hub knows that a process has ended and that the others go on."""


def main(argv: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="tapegrad run",
        description="Run a Python program in several processes, which tapegrad.distribute joins.",
        epilog="examples:\n  tapegrad run -n 4 train.py --epochs 2\n"
        "  tapegrad run -n 2 -m package.train",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-n", type=int, required=True, metavar="COUNT", help="how many processes")
    parser.add_argument("-m", action="store_true", help="the program is the name of a module")
    parser.add_argument("--json", action="store_true", help="at the end, print JSON")
    parser.add_argument("program", help="a Python file, or the name of a module with -m")
    rest = parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the program")
    rest.required = False  # a message about a missing program shall not ask for them
    options = parser.parse_args(argv)
    if options.n < 1:
        parser.error(f"-n must be a number of processes from 1. Got {options.n}.")
    program = [*(["-m"] if options.m else []), options.program, *options.arguments]
    start = time.monotonic()
    status = run([sys.executable, *program], options.n)
    if options.json:
        seconds = round(time.monotonic() - start, 3)
        print(json.dumps({"processes": options.n, "status": status, "seconds": seconds}))
    return status


def run(command: Sequence[str], count: int, prefixes: bool = True) -> int:
    """Run a command in `count` processes and return the exit status of the first failure, or 0.

    With `prefixes`, lines of output get the rank in front.
    """
    hub = Hub(count)
    port = hub.start("127.0.0.1")
    processes = [
        subprocess.Popen(
            command,
            env=environment_of(rank, count, port),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for rank in range(count)
    ]
    streams = [
        threading.Thread(
            target=_copy, args=(source, target, f"[{rank}] " if prefixes else ""), daemon=True
        )
        for rank, process in enumerate(processes)
        for source, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
    ]
    for stream in streams:
        stream.start()
    try:
        status = _wait(processes, hub)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
    for stream in streams:
        stream.join(timeout=1.0)
    return status


def environment_of(rank: int, count: int, port: int) -> dict[str, str]:
    """Return the environment of the process of a rank; the control channel is at a port here."""
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
    more = {HUB: f"127.0.0.1:{port}", "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **{name: str(value) for name, value in numbers.items()}, **more}


def _copy(source: IO[bytes], target: IO[str], prefix: str) -> None:
    """Copy lines with a prefix, each in one piece."""
    with source:
        for line in source:
            target.write(f"{prefix}{line.decode(errors='replace').rstrip()}\n")
            target.flush()


def _wait(processes: Sequence[subprocess.Popen[bytes]], hub: Hub) -> int:
    """Wait until all processes have ended, or one has failed and the others had time to end."""
    status, until = 0, float("inf")
    ended: dict[int, float] = {}
    told: set[int] = set()
    while time.monotonic() < until:
        codes = [process.poll() for process in processes]
        failed = _failures(codes, ended, hub)
        for rank in {*hub.lost} - told:
            told.add(rank)
            _say(rank, codes[rank], hub.lost[rank])
        if not status and (failed or hub.failure is not None):
            rank = failed[0] if hub.failure is None else hub.failure[0]
            code = codes[rank]
            if code is None and failed:
                code = codes[failed[0]]
            status = 1 if code is None or code < 0 else code
            until = time.monotonic() + PATIENCE
            _say(rank, codes[rank], "" if hub.failure is None else hub.failure[1])
        if None not in [code for rank, code in enumerate(codes) if rank not in hub.lost]:
            break
        time.sleep(0.02)
    return status


def _failures(codes: Sequence[int | None], ended: dict[int, float], hub: Hub) -> list[int]:
    """Return the processes that have failed, without those that the others can do without.

    `ended` has the times at which failures were seen first.
    """
    now = time.monotonic()
    failed = [rank for rank, code in enumerate(codes) if code and rank not in hub.lost]
    if not hub.is_elastic:
        return failed
    return [rank for rank in failed if now - ended.setdefault(rank, now) > NOTICING]


def _say(rank: int, code: int | None, why: str) -> None:
    """Print which process has failed, and why."""
    if code is not None and code < 0:
        why = f"It was ended by {signal.Signals(-code).name}."
    elif code and not why:
        why = f"Its exit status is {code}."
    print(f"tapegrad run: rank {rank} has failed. {why}", file=sys.stderr, flush=True)
