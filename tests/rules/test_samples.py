"""Every sample, every check."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tapegrad.testing.checks import (
    check_batching,
    check_dtypes,
    check_forward,
    check_jvp,
    check_second_order,
    check_vjp,
)
from tapegrad.testing.sample import Sample
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
