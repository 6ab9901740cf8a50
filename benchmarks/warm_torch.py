"""Let torch.compile fill its caches for the rows of the benchmark, several processes at a time.

python benchmarks/warm_torch.py [rows]    rows separated by commas (default: all on CUDA)

To compile takes minutes, of which a benchmark has none to spare. Run it beside the GPU tests. The
mode max-autotune is left out: it chooses kernels by their times, and a busy device distorts them.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tapegrad_bench.adapters import CONTENDERS, Contender
from tapegrad_bench.worker import Session
from tapegrad_bench.workload import Kind, Workload
from tapegrad_bench.workloads import WORKLOADS

AT_ONCE = 4
DEVICE = "cuda"


def main(names: list[str]) -> int:
    """Compile each row in each mode, in a process of its own; return how many failed."""
    if importlib.util.find_spec("torch") is None:
        print("There is nothing to fill: torch is not installed.")
        return 1
    rows = names or [name for name, row in WORKLOADS.items() if _is_compiled(row)]
    tasks = [(mode.name, row) for row in reversed(rows) for mode in _modes()]  # slow ones first
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return sum(pool.map(_run, tasks))


def _is_compiled(row: Workload) -> bool:
    return DEVICE in row.default_on and row.kind is not Kind.FOOTPRINT


def _modes() -> list[Contender]:
    compiled = [c for c in CONTENDERS if c.library == "torch" and c.is_slow_to_compile]
    return [c for c in compiled if c.mode != "max-autotune"]


def _run(task: tuple[str, str]) -> bool:
    command = [sys.executable, __file__, "--one", *task]
    return subprocess.run(command, check=False).returncode != 0


def compile_row(mode: str, name: str) -> None:
    """Make one row's step at both of its sizes, as a worker of the benchmark does."""
    contender, row = next(c for c in _modes() if c.name == mode), WORKLOADS[name]
    session, dtype, start = Session(DEVICE), row.dtypes[DEVICE], time.monotonic()
    session.load(contender)
    session.check(contender, row, dtype)
    session.build(contender, row, row.defaults[DEVICE], dtype)
    print(f"{mode} {name}: {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        compile_row(*sys.argv[2:])
    else:
        raise SystemExit(main([name for word in sys.argv[1:] for name in word.split(",")]))
