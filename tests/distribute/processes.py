"""Run a program of `programs/` in several processes of this machine."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import time
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"

needs_mpi = pytest.mark.skipif(
    find_spec("mpi4py") is None, reason="MPI is not installed; the extra `dev` has it on Linux."
)


@dataclass(frozen=True)
class Finished:
    """What is left of the processes."""

    status: int
    out: str
    err: str
    seconds: float


def run(program: str, count: int, *arguments: str) -> Finished:
    """Run `tapegrad run -n COUNT PROGRAM ARGUMENTS`."""
    command = [sys.executable, "-m", "tapegrad", "run", "-n", str(count)]
    return finish([*command, str(PROGRAMS / program), *arguments])


@cache
def weights_of_one_process() -> str:
    """Return what the program of the fixed order prints in this process, which is alone."""
    with redirect_stdout(StringIO()) as out:
        runpy.run_path(str(PROGRAMS / "fixed_order.py"))
    return out.getvalue().strip()


def finish(command: list[str], **variables: str) -> Finished:
    start = time.monotonic()
    # One thread per process, since all of them share the cores.
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TAPEGRAD_WAIT": "1", **variables}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    return Finished(done.returncode, done.stdout, done.stderr, time.monotonic() - start)
