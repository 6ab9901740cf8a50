"""Every sample, every check."""

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

SAMPLES = all_samples()
DIFFERENTIABLE = [sample for sample in SAMPLES if sample.differentiable]


@pytest.mark.parametrize("check", [check_forward, check_batching, check_dtypes])
@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_values(sample: Sample, check: Callable[[Sample], None]) -> None:
    check(sample)


@pytest.mark.parametrize("check", [check_vjp, check_jvp, check_second_order])
@pytest.mark.parametrize("sample", DIFFERENTIABLE, ids=repr)
def test_derivatives(sample: Sample, check: Callable[[Sample], None]) -> None:
    check(sample)


def test_batching_is_checked_with_all_arguments_and_with_each_alone() -> None:
    seen = set()

    def total(*args: Any) -> Any:
        seen.add(tuple(type(arg) is Batched for arg in args))
        return args[0] * args[1] + args[2]

    check_batching(Sample("total", total, [normal(2)] * 3))

    alone = {tuple(i == k for i in range(3)) for k in range(3)}
    # Each result is compared with a call without a batch.
    assert seen == alone | {(True, True, True), (False, False, False)}
