"""PyTorch's modes of the benchmark on CUDA: the same results as NumPy, before and after replays."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from tapegrad_bench.adapters import CONTENDERS, load
from tapegrad_bench.adapters.library import UnsupportedError
from tapegrad_bench.evidence import again, compare, evidence_of, reference_evidence
from tapegrad_bench.judge import checked, judge
from tapegrad_bench.reference import CHECKED_STEPS, reference
from tapegrad_bench.workload import Kind, Problem
from tapegrad_bench.workloads import WORKLOADS
from tests.gpu.test_interop_on_cuda import peer

# Warnings of other libraries are not errors here.
pytestmark = pytest.mark.filterwarnings("default")

TIMED = [w.name for w in WORKLOADS.values() if w.kind is not Kind.FOOTPRINT]
CASES = [
    *(("graph", name) for name in TIMED),
    *(("eager", name) for name in ("elementwise", "mlp_small", "convnet")),
    *(("compile-overhead", name) for name in ("elementwise", "mlp_small")),
    *(("max-autotune", name) for name in ("elementwise", "mlp_small")),
    ("nn", "rnn"),
    ("nn-graph", "rnn"),
]
BETWEEN = 5
"""Steps between the checks."""


@pytest.fixture(autouse=True)
def torch() -> Any:
    return peer("torch")


def problem_of(name: str, dtype: str | None = None) -> Problem:
    workload = WORKLOADS[name]
    return Problem(workload, workload.check, dtype or workload.dtypes["cuda"])


def library() -> Any:
    return load(next(c for c in CONTENDERS if c.name == "torch:eager"), "cuda")


@pytest.mark.parametrize(("mode", "name"), CASES)
def test_every_mode_agrees_with_numpy_before_and_after_it_is_timed(mode, name) -> None:
    problem = problem_of(name)
    workload, dtype, known = problem.workload, problem.dtype, reference_evidence(problem)
    tolerance = workload.tolerance
    assert known is not None
    prepared = library().prepare(mode, problem)

    small = checked(prepared)
    prepared.restart()
    results = [prepared.step() for _ in range(CHECKED_STEPS)]
    before = evidence_of(prepared, problem, results)
    for _ in range(BETWEEN):
        prepared.step()
    after = again(prepared, problem)

    assert judge(workload, dtype, small, reference(problem)).complaint == ""
    assert compare(tolerance, dtype, before, known).complaint == ""
    assert compare(tolerance, dtype, after, known).complaint == ""
    library().release()


def test_each_step_is_one_replay_of_the_same_graph(torch) -> None:
    prepared = library().prepare("graph", problem_of("mlp_small"))
    original, replayed = torch.cuda.CUDAGraph.replay, []

    def replay(graph):
        replayed.append(graph)
        original(graph)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda.CUDAGraph, "replay", replay)
        for _ in range(4):
            prepared.step()
    torch.cuda.synchronize()

    assert len(replayed) == 4
    assert len({id(one) for one in replayed}) == 1


def test_a_captured_step_trains() -> None:
    problem = problem_of("mlp_small")
    prepared = library().prepare("graph", problem)
    assert prepared.parameters is not None
    start = prepared.fetch_parameters()

    losses = [float(prepared.fetch(prepared.step())[0]) for _ in range(400)]

    for value, expected in zip(start, problem.params):  # the capture left them as they were
        np.testing.assert_allclose(value, expected, rtol=1e-6)
    assert np.mean(losses[-8:]) < 0.5 * np.mean(losses[:8])


def test_a_step_that_reads_a_value_on_the_host_cannot_be_captured(torch) -> None:
    graphs = importlib.import_module("tapegrad_bench.adapters.torch_graph")
    x = torch.ones(3, device="cuda")

    with pytest.raises(UnsupportedError, match="PyTorch cannot capture this step: "):
        graphs.Captured(lambda inputs: (inputs[0] * float(inputs[0].sum()), []), [x])

    assert float((x + 1).sum()) == 6.0  # the device can be used after it


def test_cudnn_chooses_its_fastest_algorithms_and_rounds_no_float32(torch) -> None:
    library()

    assert torch.backends.cudnn.benchmark
    assert not torch.backends.cudnn.allow_tf32
