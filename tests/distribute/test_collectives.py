"""Collective functions in real processes; the checks are in programs/collectives.py."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tapegrad import distribute
from tapegrad.errors import ArgumentError
from tests.distribute.processes import PROGRAMS, finish, needs_mpi, run
from tests.seeds import LONG


@needs_mpi
@pytest.mark.parametrize("count", [2, 3, 4] if LONG else [3])
def test_collective_functions_agree_with_numpy(count: int) -> None:
    done = run("collectives.py", count)

    assert (done.status, done.err) == (0, "")
    assert sorted(done.out.splitlines()) == [f"[{r}] done {r} {count}" for r in range(count)]


@needs_mpi
def test_a_program_that_mpiexec_starts_finds_its_ranks() -> None:
    beside = Path(sys.executable).with_name("mpiexec")
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec") or "mpiexec"
    done = finish([mpiexec, "-n", "2", sys.executable, str(PROGRAMS / "ranks.py")])

    assert done.status == 0, done.err
    assert sorted(done.out.splitlines()) == ["rank 0 of 2: sum 1.0", "rank 1 of 2: sum 1.0"]


def test_one_process_is_alone() -> None:
    distribute.init()
    distribute.barrier()

    assert (distribute.rank(), distribute.size(), distribute.local_rank()) == (0, 1, 0)


def test_wrong_arguments_are_explained() -> None:
    with pytest.raises(
        ArgumentError, match=r"op must be 'sum', 'mean', 'max' or 'min'. Got 'prod'"
    ):
        distribute.all_reduce(1.0, "prod")
    with pytest.raises(ArgumentError, match="root must be the rank of a process, from 0 to 0"):
        distribute.broadcast(1.0, root=1)
    with pytest.raises(ArgumentError, match="recv needs an earlier send"):
        distribute.recv(1.0, source=0)
    with pytest.raises(ArgumentError, match="timeout must be a positive number"):
        distribute.init(timeout=0)
