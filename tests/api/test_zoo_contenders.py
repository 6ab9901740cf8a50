"""What the zoo reads of a step that it times: the same step again, from the first parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_bench.evidence import Evidence, compare, digest
from tapegrad_zoo.contenders import BATCHES, CHECKED_STEPS, make, nudged
from tapegrad_zoo.program import Cost, Kind, Optimizer, Program

TIGHT = {"float64": 1e-12}
RATE = 0.1


def draw(rng, dims):
    return {"w": rng.standard_normal(dims["n"])}, {"x": rng.standard_normal(dims["n"])}


def loss_on_tapegrad(dims, half):
    import tapegrad as tf

    return lambda params, batch: tf.reduce_sum((params["w"] - batch["x"]) ** 2)


def step_on_tapegrad(dims, half):
    return lambda params, batch: {"sum": params["w"] + batch["x"], "both": params["w"] * (2 + 3j)}


def program(kind: Kind, rule: str | None = None) -> Program:
    size = {"n": 5}
    version = step_on_tapegrad if kind is Kind.STEP else loss_on_tapegrad
    return Program(
        summary="a sum of squares",
        kind=kind,
        make=draw,
        on_tapegrad=version,
        on_jax=version,
        on_torch=version,
        sizes={"check": size, "cpu": size, "cuda": size},
        cost=lambda dims: Cost(1.0, 1.0),
        optimizer=None if rule is None else Optimizer(rule, RATE),
        dtypes={"cpu": "float64", "cuda": "float64"},
    )


def gradients(made: Program) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the first parameters, and the gradients there of the first batches."""
    params, batches = made.draw("cpu", CHECKED_STEPS)
    return params["w"], [2 * (params["w"] - batch["x"]) for batch in batches]


def trained(rule: str) -> Evidence:
    """Return the evidence by the formulas of an optimizer."""
    made = program(Kind.TRAINING, rule)
    w, _ = gradients(made)
    start, m, v, losses = w.copy(), 0.0, 0.0, []
    for count, batch in enumerate(made.draw("cpu", CHECKED_STEPS)[1], start=1):
        losses.append(np.sum((w - batch["x"]) ** 2))
        g = 2 * (w - batch["x"])
        if rule == "sgd":
            w = w - RATE * g
        else:
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            rate = RATE * np.sqrt(1 - 0.999**count) / (1 - 0.9**count)
            w = w - rate * m / (np.sqrt(v) + 1e-8)
    moments = (digest(m),) if rule == "adam" else ()
    return Evidence((), tuple(losses), (digest(w - start),), moments)


@pytest.mark.parametrize("mode", ["eager", "function"])
@pytest.mark.parametrize("rule", ["sgd", "adam"])
def test_training_is_read_as_losses_movements_and_means_of_gradients(mode, rule):
    timed = make("tapegrad", mode, program(Kind.TRAINING, rule), "cpu")
    for _ in range(11):  # what the evidence begins with does not matter
        timed.step()

    found = timed.evidence(), timed.evidence()

    for one in found:
        assert compare(TIGHT, "float64", one, trained(rule)).complaint == ""


@pytest.mark.parametrize("mode", ["eager", "function"])
def test_gradients_are_read_batch_by_batch(mode):
    made = program(Kind.GRADIENT)
    timed = make("tapegrad", mode, made, "cpu")
    timed.step()

    found = timed.evidence()

    for outputs, expected in zip(found.outputs, gradients(made)[1], strict=True):
        np.testing.assert_allclose(outputs["the gradient of w"].sketch, expected)
        assert outputs["the loss"].norm == pytest.approx(np.sum(expected**2) / 4)


def test_results_of_a_step_are_read_by_name_and_complex_ones_in_two_parts():
    made = program(Kind.STEP)
    w, (batch, *_) = made.draw("cpu", CHECKED_STEPS)

    first, *_ = make("tapegrad", "eager", made, "cpu").evidence().outputs

    assert [*first] == ["both", "sum"]
    np.testing.assert_allclose(first["sum"].sketch, w["w"] + batch["x"])
    np.testing.assert_allclose(first["both"].sketch, [*(2 * w["w"]), *(3 * w["w"])])


def test_another_result_is_another_evidence():
    timed = make("tapegrad", "eager", program(Kind.TRAINING, "adam"), "cpu")
    found = timed.evidence()

    halved = replace(found, movements=tuple(digest(0.4 * d.sketch) for d in found.movements))

    assert compare(TIGHT, "float64", halved, found).complaint.startswith("The update of the para")


def test_a_training_step_tells_what_rounding_changes():
    found = make("tapegrad", "eager", program(Kind.TRAINING, "adam"), "cpu").evidence()

    (movement,), (moment,) = found.movement_noise, found.moment_noise
    assert 0 < moment < 1e-13 * found.moments[0].norm
    assert movement < 1e-13 * found.movements[0].norm


@pytest.mark.parametrize("mode", ["eager", "function"])
def test_a_gradient_tells_what_rounding_changes(mode):
    found = make("tapegrad", mode, program(Kind.GRADIENT), "cpu").evidence()

    for outputs, noise in zip(found.outputs, found.output_noise, strict=True):
        assert 0 < noise["the gradient of w"] < 1e-13 * outputs["the gradient of w"].norm


def test_parameters_are_nudged_by_the_rounding_of_products():
    start = {"w": np.float32([1.0, -2.0, 0.0]), "z": np.complex64([1j])}

    moved = nudged(start, "bfloat16", "cpu")

    assert [value.dtype for value in moved.values()] == [np.float32, np.complex64]
    np.testing.assert_array_equal(np.abs(moved["w"] - start["w"]), [2**-8, 2**-7, 0.0])
    np.testing.assert_array_equal(np.abs(moved["z"] - start["z"]), [2**-8])


@pytest.mark.parametrize("mode", ["eager", "function"])
def test_batches_on_the_host_give_the_same_results(mode):
    made = program(Kind.TRAINING, "adam")

    found, known = (make("tapegrad", mode, made, "cpu", place).evidence() for place in BATCHES)

    assert compare(TIGHT, "float64", found, known).complaint == ""


def test_a_function_gets_batches_on_the_host_as_arrays_of_numpy(monkeypatch):
    seen = []
    function = tf.function

    def noting(step):
        recorded = function(step)
        return lambda batch: seen.append(type(batch["x"])) or recorded(batch)

    monkeypatch.setattr(tf, "function", noting)

    make("tapegrad", "function", program(Kind.GRADIENT), "cpu", "host").step()

    assert seen == [np.ndarray]


def test_batches_for_a_gpu_are_those_that_one_thread_draws():
    made = program(Kind.GRADIENT)

    params, batches = made.draw("cuda", 8)
    known, others = made.draw("cpu", 8)

    np.testing.assert_array_equal(params["w"], known["w"])
    np.testing.assert_array_equal([b["x"] for b in batches], [b["x"] for b in others])
    assert len({batch["x"].tobytes() for batch in batches}) == 8
