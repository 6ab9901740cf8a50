"""A process that fails is named, and the others end within ten seconds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.distribute.processes import needs_mpi, run
from tests.seeds import LONG, SEED

# What the program does in rank 1, and what rank 0 learns.
WAYS = {
    "error": "ZeroDivisionError: the data of this rank are bad",
    "stop": "It has been silent for 7 s",
    "loop": "Rank 0 has waited 2 s for rank 1 in all_reduce(sum) float64[3]",
    "kill": "It has ended without an error message, as if killed",
    "order": "is all_gather float64[3], but that of rank 0 is all_reduce(sum) float64[3]",
    "fewer": "It has ended after 1 collective calls, while rank 0 waits for it in all_reduce(sum)",
}


@needs_mpi
@pytest.mark.parametrize("way", WAYS if LONG else [[*WAYS][SEED % len(WAYS)]])
def test_a_rank_that_fails_is_named_and_the_others_end(way: str) -> None:
    done = run("failures.py", 2, way)

    assert done.status == 1
    assert "tapegrad run: rank 1 has failed" in done.err
    noticed = [line for line in done.out.splitlines() if "noticed" in line]
    assert len(noticed) == 1
    assert "Rank 1 has failed." in noticed[0]
    assert WAYS[way] in noticed[0]
    seconds = float(noticed[0].partition("after ")[2].partition(" s")[0])
    assert seconds < 10


# How processes of an elastic world of three are lost, and what is said of the last one.
LOSSES = {
    ("kill",): "Rank 2 is lost. It has ended without an error message, as if killed",
    ("stop",): "Rank 2 is lost. It has been silent for 7 s",
    # Both of the others wait, and either of them may say so first.
    ("loop",): "Rank 2 is lost. Rank [01] has waited 3 s for rank 2 in all_gather",
    ("error", "kill"): "Rank 0 is lost. It has ended without an error message, as if killed",
}


@needs_mpi
@pytest.mark.parametrize("ways", LOSSES if LONG else [[*LOSSES][SEED % len(LOSSES)]])
def test_the_others_go_on_in_an_elastic_world(ways: tuple[str, ...], tmp_path: Path) -> None:
    done = run("elastic.py", 3, str(tmp_path), *ways)

    assert done.status == 0, done.err
    printed = sorted(line.partition("] ")[2] for line in done.out.splitlines())
    left = 3 - len(ways)
    assert printed == [f"done {rank} of {left}" for rank in range(left)]
    assert re.search(LOSSES[ways], done.err), done.err
    assert f"tapegrad: {left} processes go on." in done.err
