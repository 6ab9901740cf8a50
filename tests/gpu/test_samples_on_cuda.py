"""All checks of every sample on the GPU, and equality with NumPy's results."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tapegrad.core.backend.registry import get_backend
from tapegrad.core.values.device import device
from tapegrad.testing.battery import check_protocol, check_sample
from tapegrad.testing.sample import Sample
from tapegrad.testing.samples import all_samples


@pytest.fixture(autouse=True)
def on_the_gpu() -> Iterator[None]:
    with device("cuda:0"):
        yield


def test_protocol() -> None:
    check_protocol(get_backend("cupy"))


@pytest.mark.parametrize("sample", all_samples(), ids=repr)
def test_sample(sample: Sample) -> None:
    check_sample(sample)
