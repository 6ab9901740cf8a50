"""What code that depends on implementation details is worth: each part on and off, in turns.

python benchmarks/cleverness.py --device cpu
python benchmarks/cleverness.py --device cuda --budget 230 --parts "library replay"

Every state runs in a fresh process, because the switches are environment variables that are read
once. A round has one process with everything on and one for each part that is off. Ratios compare
processes of one round; the order of the processes changes from round to round. Each step gets
another batch. On the CPU a step runs in one thread and its CPU time is taken, which
other processes disturb less than elapsed time.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tapegrad_bench.process import ON_CPU, THREAD_SETTINGS
from tapegrad_bench.quantities import format_time
from tapegrad_bench.workloads import WORKLOADS

MODES = ("eager", "function")
ROWS = {
    "cpu": ("mlp_small", "scalar_chain", "elementwise", "rnn"),
    "cuda": ("convnet", "gpt2", "mlp_small"),
}
WORTH = 1.1
"""A part is kept if some row takes this many times as long without it."""

WARM_UP = 12
"""Steps before the first that counts: library calls are replayed from the fourth on, and a
function with two batches captures a graph for each."""

SECONDS = {"cpu": 0.4, "cuda": 0.5}
"""How long a process times one row in one mode."""

ON = "everything on"

Times = dict[str, float]
"""Seconds per step by row and mode."""


@dataclass(frozen=True)
class Switch:
    """A part of the code that can be turned off."""

    variable: str
    devices: tuple[str, ...]


SWITCHES = {
    "library replay": Switch("TAPEGRAD_LIBRARY_REPLAY", ("cuda",)),
    "direct calls": Switch("TAPEGRAD_DIRECT_CALLS", ("cpu",)),
    "reference counts": Switch("TAPEGRAD_REFERENCE_COUNTS", ("cpu", "cuda")),
}


# In the process that is timed


def make_step(device: str, mode: str, problem: Any) -> tuple[Any, Callable[[], Any]]:
    """Return the library and a step of a workload, which gets another batch at each call."""
    # Imported where the switches are set: this loads tapegrad.
    from tapegrad_bench.adapters import on_tapegrad

    library = on_tapegrad.load(device)
    return library, library.prepare(mode, problem).step


def time_row(device: str, mode: str, problem: Any) -> float:
    """Return the median time of a step."""
    from tapegrad_bench.timing import steps_per_repeat

    library, step = make_step(device, mode, problem)
    clock = time.process_time if device == "cpu" else time.perf_counter

    def time_steps(count: int) -> float:
        start = clock()
        for _ in range(count):
            result = step()
        library.synchronize(result)
        return (clock() - start) / count

    count = steps_per_repeat(min(time_steps(1) for _ in range(WARM_UP)), device)
    deadline = time.perf_counter() + SECONDS[device]
    times: list[float] = []
    gc.disable()
    while len(times) < 7 or time.perf_counter() < deadline:
        times.append(time_steps(count))
    gc.enable()
    return median(times[1:])


def measure_here(device: str, rows: Sequence[str]) -> Times:
    """Time all rows in this process."""
    from tapegrad_bench.workload import Problem

    if device == "cpu" and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    times = {}
    for name in rows:
        workload = WORKLOADS[name]
        problem = Problem(workload, workload.defaults[device], workload.dtypes[device])
        for mode in MODES:
            times[f"{name} {mode}"] = time_row(device, mode, problem)
            gc.collect()
    return times


# In the process that compares


def measure(device: str, rows: Sequence[str], off: str) -> Times:
    """Time all rows in a fresh process with one part off; none is off for ON."""
    environment = {key: value for key, value in os.environ.items() if key not in VARIABLES}
    if device == "cpu":
        environment |= {**ON_CPU, **dict.fromkeys(THREAD_SETTINGS, "1")}
    if off != ON:
        environment[SWITCHES[off].variable] = "0"
    command = [sys.executable, __file__, "--device", device, "--rows", ",".join(rows), "--here"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    times: Times = json.loads(done.stdout.splitlines()[-1])
    return times


VARIABLES = {switch.variable for switch in SWITCHES.values()}


def run_rounds(device: str, rows: Sequence[str], parts: Sequence[str], budget: float) -> list[Any]:
    """Return what each round measured, by state; another round begins if it is likely to fit."""
    states = [ON, *parts]
    rounds: list[dict[str, Times]] = []
    start = time.monotonic()
    longest = 0.0
    while not rounds or time.monotonic() - start + longest < budget:
        begin, turn = time.monotonic(), len(rounds) % len(states)
        order = [*states[turn:], *states[:turn]]
        rounds.append({state: measure(device, rows, state) for state in order})
        # The first round also compiles what is not in the caches.
        longest = time.monotonic() - begin
        print(f"round {len(rounds)}: {longest:.0f} s", file=sys.stderr)
    return rounds


def table(rounds: Sequence[dict[str, Times]], parts: Sequence[str]) -> list[str]:
    """Return the lines of the table.

    >>> rounds = [{ON: {"rnn eager": 1e-3}, "direct calls": {"rnn eager": 1.5e-3}}]
    >>> print(*table(rounds, ["direct calls"]), sep="\\n")
    off                row                       on      off   off/on   range
    direct calls       rnn eager            1.00 ms  1.50 ms    1.500   1.50 to 1.50  worth it
    """
    lines = [f"{'off':18} {'row':20} {'on':>7}  {'off':>7}   off/on   range"]
    for part in parts:
        for row in rounds[0][ON]:
            on, off = [one[ON][row] for one in rounds], [one[part][row] for one in rounds]
            ratios = sorted(b / a for a, b in zip(on, off, strict=True))
            line = (
                f"{part:18} {row:20} {format_time(median(on)):>7}  {format_time(median(off)):>7}"
                f"  {median(ratios):7.3f}   {ratios[0]:.2f} to {ratios[-1]:.2f}"
            )
            lines.append(line + ("  worth it" if median(ratios) >= WORTH else ""))
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=ROWS, required=True)
    parser.add_argument("--budget", type=float, default=230.0, help="seconds (default: 230)")
    parser.add_argument("--rows", default="", help="workloads, with commas between them")
    parser.add_argument("--parts", default="", help=f"of {', '.join(SWITCHES)}")
    parser.add_argument("--json", help="also write all times to this file")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    device = arguments.device
    rows = [name for name in arguments.rows.split(",") if name] or ROWS[device]
    if arguments.here:
        print(json.dumps(measure_here(device, rows)))
        return 0
    known = [name for name, switch in SWITCHES.items() if device in switch.devices]
    parts = [name.strip() for name in arguments.parts.split(",") if name.strip()] or known
    if unknown := [name for name in (*parts, *rows) if name not in {*SWITCHES, *WORKLOADS}]:
        parser.error(f"There is no {unknown[0]!r}.")
    rounds = run_rounds(device, rows, parts, arguments.budget)
    print(f"{len(rounds)} rounds on {device}", *table(rounds, parts), sep="\n")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rounds, file)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
