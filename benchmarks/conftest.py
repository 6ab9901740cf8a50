"""What the suites share: devices, and a step that is prepared, checked and warmed up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tapegrad_bench.adapters import Contender, load, reason_absent, reason_without
from tapegrad_bench.adapters.library import UnsupportedError
from tapegrad_bench.judge import checked, judge
from tapegrad_bench.reference import reference
from tapegrad_bench.timing import WARM_UP, wait_for_programs
from tapegrad_bench.workload import Problem, Workload

Step = Callable[[], Any]


@pytest.fixture
def prepare() -> Callable[[Contender, Workload, str], Step]:
    """Return a function that makes a step which runs to its end, or skips the test."""

    def make(contender: Contender, workload: Workload, device: str) -> Step:
        missing = reason_without(device) or reason_absent(contender.library)
        if missing:
            pytest.skip(missing)
        library, dtype = load(contender, device), workload.dtypes[device]
        try:
            _check(library, contender, Problem(workload, workload.check, dtype))
            prepared = library.prepare(
                contender.mode, Problem(workload, workload.defaults[device], dtype)
            )
        except UnsupportedError as error:
            pytest.skip(str(error))

        def step() -> None:
            library.synchronize(prepared.step())

        for _ in range(WARM_UP):
            step()
            wait_for_programs()
        return step

    return make


def _check(library: Any, contender: Contender, problem: Problem) -> None:
    """Fail where the library computes something else than the reference."""
    prepared = library.prepare(contender.mode, problem)
    judgement = judge(problem.workload, problem.dtype, checked(prepared), reference(problem))
    assert not judgement.complaint, judgement.complaint
