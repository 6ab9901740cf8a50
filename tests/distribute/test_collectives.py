"""Collective functions in real processes; the checks are in programs/collectives.py."""

from __future__ import annotations

import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tapegrad import distribute
from tapegrad.errors import ArgumentError
from tests.distribute.processes import PROGRAMS, finish, needs_mpi, run, weights_of_one_process
from tests.seeds import LONG, SEED


@needs_mpi
@pytest.mark.parametrize("count", [2, 3, 4] if LONG else [2 + SEED % 2])
def test_collective_functions_agree_with_numpy(count: int) -> None:
    alone = weights_of_one_process()
    done = run("collectives.py", count, "fixed")

    assert (done.status, done.err) == (0, "")
    lines = sorted(done.out.splitlines())
    assert [line for line in lines if "done" in line] == [
        f"[{r}] done {r} {count}" for r in range(count)
    ]
    # Training in a fixed order of additions gives the same bits in all worlds.
    assert [line for line in lines if "done" not in line] == sorted(
        f"[{r}] {line}" for r in range(count) for line in alone.splitlines()
    )


def _variables(launcher: str, rank: int, port: int) -> dict[str, str]:
    """Return what a launcher tells the process of a rank."""
    if launcher == "TF_CONFIG":
        cluster = {"worker": [f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"]}
        return {
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}})
        }
    return {
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "LOCAL_RANK": str(rank),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def _start(launcher: str) -> str:
    """Run the program in two processes and return what they print."""
    program = [sys.executable, str(PROGRAMS / "ranks.py")]
    if launcher == "mpiexec":
        beside = Path(sys.executable).with_name("mpiexec")
        return finish([str(beside) if beside.exists() else "mpiexec", "-n", "2", *program]).out
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with ThreadPoolExecutor(2) as pool:
        done = pool.map(lambda r: finish(program, **_variables(launcher, r, port)), range(2))
        return "".join(one.out for one in done)


LAUNCHERS = ["mpiexec", "torchrun", "TF_CONFIG"]


@needs_mpi
@pytest.mark.parametrize("launcher", LAUNCHERS if LONG else [LAUNCHERS[SEED % 3]])
def test_a_program_finds_its_ranks_whatever_starts_it(launcher: str) -> None:
    printed = _start(launcher)

    assert sorted(printed.splitlines()) == ["rank 0 of 2: sum 1.0", "rank 1 of 2: sum 1.0"]


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
