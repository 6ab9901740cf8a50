"""The benchmark's check of the call that is timed: digests, tolerances, and who is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tapegrad_bench import evidence
from tapegrad_bench.adapters import CONTENDERS, Contender, load
from tapegrad_bench.contest import Contest
from tapegrad_bench.evidence import (
    WIDTH,
    Evidence,
    again,
    compare,
    digest,
    distance,
    has_reference,
    reference_evidence,
    verdicts,
)
from tapegrad_bench.options import Group, Options
from tapegrad_bench.progress import Lines
from tapegrad_bench.reference import outputs_of
from tapegrad_bench.results import Status
from tapegrad_bench.runner import Runner
from tapegrad_bench.worker import _answer
from tapegrad_bench.workload import Kind, Problem
from tapegrad_bench.workloads import WORKLOADS

CHAIN = WORKLOADS["chain"]
RNG = np.random.default_rng(0)


# Digests


@pytest.mark.parametrize("size", [1, WIDTH, WIDTH + 1, 50 * WIDTH + 17])
@pytest.mark.parametrize("error", [1e-6, 0.1])
def test_sketches_show_how_far_arrays_are_apart(size, error):
    x = RNG.standard_normal(size)
    y = x + error * RNG.standard_normal(size)

    assert distance(digest(x), digest(y)) == pytest.approx(np.linalg.norm(x - y), rel=0.1)


def test_elements_in_another_order_have_another_sketch():
    x = RNG.standard_normal(100 * WIDTH)

    moved = distance(digest(x), digest(np.roll(x, WIDTH)))

    assert moved == pytest.approx(np.sqrt(2) * np.linalg.norm(x), rel=0.1)


def test_arrays_of_other_shapes_and_with_nan_are_far_apart():
    x = RNG.standard_normal((3, 4))

    assert distance(digest(x), digest(x.T)) == np.inf
    assert distance(digest(x), digest(np.where(x > 0, np.nan, x))) == np.inf


# Against each other


def gradient(value: float) -> Evidence:
    outputs = {"the output": digest(np.array(1.0)), "gradient 1": digest(np.full(5, value))}
    return Evidence(outputs=(outputs,))


def test_the_one_that_disagrees_with_most_others_is_wrong():
    found = {
        "tapegrad:function": ("tapegrad", gradient(1.1)),
        "torch:eager": ("torch", gradient(1.0)),
        "torch:graph": ("torch", gradient(1.0)),
        "jax:jit": ("jax", gradient(1.0)),
    }

    judged = verdicts(CHAIN.tolerance, "float32", found)

    assert {name for name, judgement in judged.items() if judgement.complaint} == {
        "tapegrad:function"
    }
    assert judged["tapegrad:function"].complaint.startswith(
        "It disagrees with torch:eager, torch:graph, jax:jit. Against torch:eager: "
        "With set 1 of the inputs, gradient 1 is off by 0.1"
    )


def test_modes_of_one_library_do_not_outvote_another_one():
    found = {
        "tapegrad:eager": ("tapegrad", gradient(1.1)),
        "tapegrad:function": ("tapegrad", gradient(1.1)),
        "jax:jit": ("jax", gradient(1.0)),
    }

    assert all(j.complaint for j in verdicts(CHAIN.tolerance, "float32", found).values())


def test_modes_of_one_library_are_one_voice():
    found = {
        "tapegrad:eager": ("tapegrad", gradient(1.1)),
        "tapegrad:function": ("tapegrad", gradient(1.1)),
        "torch:eager": ("torch", gradient(1.0)),
        "jax:jit": ("jax", gradient(1.0)),
    }

    judged = verdicts(CHAIN.tolerance, "float32", found)

    wrong = {name for name, judgement in judged.items() if judgement.complaint}
    assert wrong == {"tapegrad:eager", "tapegrad:function"}


def test_without_another_library_other_modes_count():
    found = {"tapegrad:eager": ("tapegrad", gradient(1.1)), "x": ("tapegrad", gradient(1.0))}

    assert all(j.complaint for j in verdicts(CHAIN.tolerance, "float32", found).values())
    assert verdicts(CHAIN.tolerance, "float32", {"x": found["x"]})["x"].complaint == ""


# Against NumPy in float64


def test_a_result_that_is_left_out_is_wrong():
    complaint = compare(CHAIN.tolerance, "float32", Evidence(), gradient(1.0)).complaint

    assert complaint == "It gave other results than expected, or left one out."


@pytest.mark.parametrize("limit", ["LARGEST_BYTES", "LARGEST_OPERATIONS"])
def test_a_reference_that_would_take_too_long_is_not_computed(limit, monkeypatch):
    problem = Problem(WORKLOADS["mlp_small"], WORKLOADS["mlp_small"].check, "float32")
    assert reference_evidence(problem) is not None

    monkeypatch.setattr(evidence, limit, 10.0)

    assert reference_evidence(problem) is None


def test_every_row_on_the_cpu_has_a_reference():
    for workload in WORKLOADS.values():
        if "cpu" in workload.default_on and workload.kind is not Kind.FOOTPRINT:
            dims, dtype = workload.defaults["cpu"], workload.dtypes["cpu"]
            assert has_reference(Problem(workload, dims, dtype)), workload.name


def test_outputs_are_those_of_each_set():
    problem = Problem(CHAIN, CHAIN.check, "float32")

    for (params, _), (total, _) in zip(problem.inputs(), outputs_of(problem)):
        factor = 1.001 ** problem.dims["links"]
        offset = 0.01 * (factor - 1) / 0.001
        assert total == pytest.approx(np.sum(factor * params[0].astype("f8") + offset))


# Starting again


@pytest.mark.parametrize("name", ["elementwise", "mlp_small", "rnn", "convnet"])
@pytest.mark.parametrize("contender", CONTENDERS[:3], ids=lambda c: c.name)
def test_a_restart_gives_the_same_results_by_the_same_step(name, contender):
    workload = WORKLOADS[name]
    if name == "convnet" and contender.library == "numpy":
        workload = WORKLOADS["mlp_mid"]  # there is no hand-written convolution
    problem = Problem(workload, workload.check, "float64")
    prepared = load(contender, "cpu").prepare(contender.mode, problem)

    first, second = (again(prepared, problem) for _ in range(2))

    judgement = compare(workload.tolerance, "float64", second, first)
    assert judgement.complaint == ""
    assert judgement.error < 1e-12


# The contest


@pytest.fixture
def _importable_adapters(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setattr("tapegrad_bench.contest.MOST_REPEATS", 3)


def misbehaving(mode: str) -> Contender:
    return Contender("numpy", mode, "bench_adapters", ("cpu",), f"misbehaving {mode}", False)


def cells_of(*contenders: Contender, workload: str = "chain"):
    chosen = WORKLOADS[workload]
    dims = chosen.defaults["cpu"]
    group = Group(chosen, dims, chosen.dtypes["cpu"], "cpu", contenders)
    made = Runner(Options(devices=("cpu",), budget=20.0), [group], Lines(None, 1))
    made._measure_ceilings = lambda: None
    return {cell.mode: cell for cell in made.run().cells}


@pytest.mark.usefixtures("_importable_adapters")
def test_a_step_that_is_wrong_only_when_it_is_timed_has_no_times():
    modes = ("honest", "wrong_at_size", "stale_at_last")

    found = cells_of(*map(misbehaving, modes))

    assert found["honest"].status is Status.OK
    assert found["honest"].times
    early, late = found["wrong_at_size"], found["stale_at_last"]
    assert (early.status, early.times) == (Status.WRONG, ())
    assert early.reason.startswith("At this size: With set 1 of the inputs, gradient 1 is off by")
    assert (late.status, late.times) == (Status.WRONG, ())
    assert late.reason.startswith("After it was timed: With set 2 of the inputs, the output is off")


@pytest.mark.usefixtures("_importable_adapters")
def test_without_a_reference_contenders_are_compared_with_each_other(monkeypatch):
    monkeypatch.setattr(Contest, "_timed_reference", lambda contest, deadline: None)
    others = [misbehaving("honest"), CONTENDERS[0]]

    found = cells_of(*others, replace(misbehaving("wrong_at_size"), library="json"))

    assert found["honest"].status is found["eager"].status is Status.OK
    assert "It disagrees with numpy:honest, tapegrad:eager" in found["wrong_at_size"].reason


@pytest.mark.parametrize(
    "words",
    [
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes.",
        "CUDA out of memory. Tried to allocate 60.00 MiB.",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    ],
    ids=["jax", "torch", "cublas"],
)
def test_a_worker_says_in_a_sentence_that_memory_ran_out(words):
    def exhausted():
        raise RuntimeError(words)

    status, reason = _answer(exhausted, ())

    assert status == "exhausted"
    assert reason == f"It ran out of memory: {words}"


def test_another_error_is_no_lack_of_memory():
    def failing():
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    assert _answer(failing, ())[0] == "failed"


# Rounding.


def trained(movement, moment, movement_noise=(), moment_noise=()):
    return Evidence(
        losses=(1.0, 0.9),
        movements=tuple(digest(np.array(x)) for x in movement),
        moments=tuple(digest(np.array(x)) for x in moment),
        movement_noise=movement_noise,
        moment_noise=moment_noise,
    )


HALF = {"bfloat16": 0.3}
LARGE, SMALL = [1.0, 0.0], [0.1, 0.0]


def test_updates_that_rounding_turns_around_are_compared_by_their_lengths():
    noisy = {"movement_noise": (0.0, 1.3), "moment_noise": (0.0, 0.0)}
    one = trained([LARGE, [0.0, 3.0]], [LARGE, SMALL], **noisy)
    turned = trained([LARGE, [3.0, 0.0]], [LARGE, SMALL], **noisy)
    short = trained([LARGE, [0.0, 0.3]], [LARGE, SMALL], **noisy)

    assert compare(HALF, "bfloat16", turned, one).complaint == ""
    assert compare(HALF, "bfloat16", short, one).complaint.startswith("The length of the update")


def test_a_parameter_that_does_not_move_is_noticed_where_updates_are_noise():
    honest = trained([LARGE, LARGE], [LARGE, SMALL], (1.3, 1.3), (0.9, 0.9))
    frozen = trained([LARGE, [0.0, 0.0]], [LARGE, SMALL], (1.3, 0.0), (0.9, 0.9))

    assert compare(HALF, "bfloat16", frozen, honest).complaint != ""


def test_the_gradients_behind_such_updates_are_still_compared():
    noisy = {"movement_noise": (1.3,), "moment_noise": (0.01,)}
    one = trained([LARGE], [SMALL], **noisy)
    other = trained([LARGE], [[0.0, 0.1]], **noisy)

    assert compare(HALF, "bfloat16", other, one).complaint.startswith("The gradient of parameter 1")


@pytest.mark.parametrize("place", [0, 1])
def test_the_noise_of_one_side_alone_excuses_nothing(place):
    noises = [(0.0,), (0.0,)]
    noises[place] = (1.3,)
    one = trained([LARGE], [LARGE], noises[0], (0.0,))
    turned = trained([[0.0, 1.0]], [LARGE], noises[1], (0.0,))

    assert compare(HALF, "bfloat16", turned, one).complaint.startswith("The update of the param")


def test_gradients_that_are_noise_must_have_the_right_length():
    noisy = {"movement_noise": (1.0,), "moment_noise": (0.8,)}
    one = trained([LARGE], [[1.0, 1.0]], **noisy)
    turned = trained([LARGE], [[1.0, -1.0]], **noisy)
    long = trained([LARGE], [[4.0, 4.0]], **noisy)

    assert compare(HALF, "bfloat16", turned, one).complaint == ""
    assert compare(HALF, "bfloat16", long, one).complaint.startswith("The length of the gradient")


def returned(values, noise=None):
    measured = () if noise is None else ({"the gradient": noise},)
    return Evidence(({"the gradient": digest(np.array(values))},), output_noise=measured)


def test_an_output_may_be_off_by_twice_what_rounding_changes():
    one = returned([1.0, 0.0], noise=0.2)
    near = returned([1.0, 0.38], noise=0.2)
    far = returned([1.0, 0.42], noise=0.2)

    assert compare({"float32": 0.02}, "float32", near, one).complaint == ""
    assert compare({"float32": 0.02}, "float32", far, one).complaint.startswith("With set 1 of")


def test_no_noise_excuses_a_missing_output_and_none_of_one_side_alone():
    honest = returned([1.0, 0.0], noise=2.0)
    missing = returned([0.0, 0.0], noise=2.0)
    silent = returned([1.0, 0.1])

    assert compare({"float32": 0.02}, "float32", missing, honest).complaint != ""
    assert compare({"float32": 0.02}, "float32", silent, honest).complaint != ""
