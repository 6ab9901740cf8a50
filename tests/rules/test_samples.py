"""Every sample, every check; the second order of a few long samples takes turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tapegrad.autodiff.batching import Batched
from tapegrad.testing.checks import (
    check_batching,
    check_dtypes,
    check_forward,
    check_jvp,
    check_second_order,
    check_vjp,
)
from tapegrad.testing.sample import Sample, normal
from tapegrad.testing.samples import all_samples
from tests.seeds import LONG, SEED

SAMPLES = all_samples()
DIFFERENTIABLE = [sample for sample in SAMPLES if sample.differentiable]


TURNS = (("hyp1f1", "hyp1f1-series"), ("hyp2f1", "hyp2f1-series"))
"""Samples of one function whose second order takes seconds: one has it, others for each commit."""


def derivative_cases(seed: int) -> list[Any]:
    resting = {name for names in TURNS for k, name in enumerate(names) if k != seed % len(names)}
    return [
        pytest.param(sample, check, id=f"{sample!r}-{check.__name__}")
        for sample in DIFFERENTIABLE
        for check in (check_vjp, check_jvp, check_second_order)
        if LONG or check is not check_second_order or sample.name not in resting
    ]


@pytest.mark.parametrize("check", [check_forward, check_batching, check_dtypes])
@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_values(sample: Sample, check: Callable[[Sample], None]) -> None:
    check(sample)


@pytest.mark.parametrize(("sample", "check"), derivative_cases(SEED))
def test_derivatives(sample: Sample, check: Callable[[Sample], None]) -> None:
    check(sample)


@pytest.mark.skipif(LONG, reason="All samples have all checks in a long run.")
def test_each_long_sample_has_its_turn_and_all_others_have_every_check() -> None:
    days = [{case.id for case in derivative_cases(seed)} for seed in (10, 11)]

    every = {
        f"{sample!r}-check_{check}"
        for sample in DIFFERENTIABLE
        for check in ("vjp", "jvp", "second_order")
    }
    turns = {f"{name}-check_second_order" for names in TURNS for name in names}
    assert days[0] | days[1] == every
    assert days[0] & days[1] == every - turns
    assert all(len(day & turns) == len(TURNS) for day in days)


def test_batching_is_checked_with_all_arguments_and_with_each_alone() -> None:
    seen = set()

    def total(*args: Any) -> Any:
        seen.add(tuple(type(arg) is Batched for arg in args))
        return args[0] * args[1] + args[2]

    check_batching(Sample("total", total, [normal(2)] * 3))

    alone = {tuple(i == k for i in range(3)) for k in range(3)}
    # Each result is compared with a call without a batch.
    assert seen == alone | {(True, True, True), (False, False, False)}
