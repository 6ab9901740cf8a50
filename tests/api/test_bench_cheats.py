"""Adapters that cheat: the checks, also those of the timed call, must catch each of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tapegrad_bench.adapters import CONTENDERS, load
from tapegrad_bench.evidence import again, compare, evidence_of, reference_evidence
from tapegrad_bench.judge import checked, judge
from tapegrad_bench.reference import CHECKED_STEPS, reference
from tapegrad_bench.workload import Problem
from tapegrad_bench.workloads import WORKLOADS

FUNCTION = CONTENDERS[1]


TIMED = {
    "elementwise": {"n": 9000},
    "layernorm": {"rows": 40, "width": 120},
    "hvp": {"n": 80},
    "jacobian": {"n": 80},
    "mlp_small": {"batch": 8, "inputs": 90, "hidden": 60, "outputs": 5, "layers": 3},
}
"""Sizes other than those of the first check, with arrays larger than a sketch."""


def honest(name, dtype, dims=None):
    workload = WORKLOADS[name]
    problem = Problem(workload, dims or workload.check, dtype)
    return problem, load(FUNCTION, "cpu").prepare("function", problem)


def complaint_about(problem, prepared):
    found = judge(problem.workload, problem.dtype, checked(prepared), reference(problem))
    return found.complaint


def no_update(prepared):
    """Compute the loss and leave the weights as they are."""
    return replace(prepared, step=lambda: (prepared.gradients()[0], []))


def half_an_update(prepared):
    """Update at every other step."""
    calls = []

    def step():
        calls.append(None)
        return prepared.step() if len(calls) % 2 else (prepared.gradients()[0], [])

    return replace(prepared, step=step)


def missing_gradient(prepared):
    """Leave the last gradient out."""
    name = "gradients" if prepared.gradients else "step"
    run = getattr(prepared, name)

    def without():
        loss, gradients = run()
        return loss, [*gradients[:-1], None]

    return replace(prepared, **{name: without})


def stale_result(prepared):
    """Compute once, and return the same result for other inputs."""
    kept = []

    def step():
        if not kept:
            kept.append(prepared.step())
        return kept[0]

    return replace(prepared, step=step)


def reused_output(prepared):
    """Write each result into the memory of the last one."""
    kept = []

    def step():
        result = prepared.fetch(prepared.step())
        kept[:] = kept or [np.empty_like(array) for array in result]
        for place, array in zip(kept, result):
            place[...] = array
        return kept[0], kept[1:]

    def fetch(result):
        loss, gradients = result
        return [np.array(value) for value in (loss, *gradients)]

    return replace(prepared, step=step, fetch=fetch)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("cheat", [no_update, half_an_update, missing_gradient, stale_result])
@pytest.mark.parametrize("name", ["mlp_large", "mlp_small"])
def test_training_steps_that_cheat_are_caught(name, dtype, cheat):
    problem, prepared = honest(name, dtype)

    assert complaint_about(*honest(name, dtype)) == ""
    assert complaint_about(problem, cheat(prepared)) != ""


@pytest.mark.parametrize("cheat", [missing_gradient, stale_result, reused_output])
@pytest.mark.parametrize("name", ["elementwise", "layernorm", "hvp", "jacobian"])
def test_gradients_that_cheat_are_caught(name, cheat):
    problem, prepared = honest(name, "float32")

    assert complaint_about(*honest(name, "float32")) == ""
    assert complaint_about(problem, cheat(prepared)) != ""


# The call that is timed


def frozen_parameter(prepared):
    """Update all parameters but the last one."""

    def step():
        last = prepared.parameters()[-1]
        before = last.numpy().copy()
        result = prepared.step()
        last.assign(before)
        return result

    return replace(prepared, step=step)


def missing_moment(prepared):
    """Leave the gradient of the first parameter out of the optimizer."""

    def moments():
        first, *others = prepared.moments()
        return [0.0 * first.value(), *others]

    return replace(prepared, moments=moments)


def scaled_gradients(prepared):
    """Give Adam gradients of another size, which changes no update."""
    return replace(prepared, moments=lambda: [2.0 * m.value() for m in prepared.moments()])


def later(cheat):
    """Be honest until the check before the timing is over."""

    def cheating(prepared):
        calls, dishonest = [], cheat(prepared)

        def step():
            calls.append(None)
            return prepared.step() if len(calls) <= CHECKED_STEPS else dishonest.step()

        return replace(dishonest, step=step)

    cheating.__name__ = f"{cheat.__name__}_later"
    return cheating


def timed_complaints(problem, prepared):
    """Return the complaints before and after the steps that would be timed."""
    known = reference_evidence(problem)
    results = [prepared.step() for _ in range(CHECKED_STEPS)]
    before = evidence_of(prepared, problem, results)
    for _ in range(5):
        prepared.step()
    found = before, again(prepared, problem)
    return [
        compare(problem.workload.tolerance, problem.dtype, one, known).complaint for one in found
    ]


NAMES = {"ids": lambda value: getattr(value, "__name__", value)}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "cheat",
    [no_update, half_an_update, stale_result, frozen_parameter, missing_moment, scaled_gradients],
    **NAMES,
)
def test_timed_training_steps_that_cheat_are_caught(dtype, cheat):
    problem, prepared = honest("mlp_small", dtype, TIMED["mlp_small"])

    assert all(timed_complaints(problem, cheat(prepared)))


@pytest.mark.parametrize("cheat", [missing_gradient, stale_result, reused_output])
@pytest.mark.parametrize("name", ["elementwise", "layernorm", "hvp", "jacobian"])
def test_timed_gradients_that_cheat_are_caught(name, cheat):
    problem, prepared = honest(name, "float32", TIMED[name])

    assert all(timed_complaints(problem, cheat(prepared)))


@pytest.mark.parametrize(
    ("name", "cheat"),
    [
        ("mlp_small", later(no_update)),
        ("mlp_small", later(stale_result)),
        ("mlp_small", later(frozen_parameter)),
        ("elementwise", later(stale_result)),
        ("layernorm", later(missing_gradient)),
    ],
    **NAMES,
)
def test_a_result_that_becomes_wrong_while_it_is_timed_is_caught(name, cheat):
    problem, prepared = honest(name, "float32", TIMED[name])

    before, after = timed_complaints(problem, cheat(prepared))

    assert before == ""
    assert after != ""


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("name", TIMED)
def test_honest_timed_steps_pass(name, dtype):
    assert timed_complaints(*honest(name, dtype, TIMED[name])) == ["", ""]
