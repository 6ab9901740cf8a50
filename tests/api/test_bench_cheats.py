"""Adapters that cheat: the check must catch each of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tapegrad_bench.adapters import CONTENDERS, load
from tapegrad_bench.judge import checked, judge
from tapegrad_bench.reference import reference
from tapegrad_bench.workload import Problem
from tapegrad_bench.workloads import WORKLOADS

FUNCTION = CONTENDERS[1]


def honest(name, dtype):
    workload = WORKLOADS[name]
    problem = Problem(workload, workload.check, dtype)
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
