"""A process that fails is named, and the others end within ten seconds."""

from __future__ import annotations

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
