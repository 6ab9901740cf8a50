"""Every sample on a stand-in device that refuses host copies and anything beyond the Array API."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tapegrad_strict as strict
from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.backend.registry import get_backend, register_backend, unregister_backend
from tapegrad.core.values.device import device
from tapegrad.ops.creation import constant
from tapegrad.ops.elementwise.arithmetic import add
from tapegrad.ops.nn.losses import sparse_softmax_cross_entropy_with_logits
from tapegrad.testing.battery import check_protocol, check_sample
from tapegrad.testing.sample import Sample
from tapegrad.testing.samples import all_samples
from tapegrad.testing.variants import complex_form
from tests.long_formulas import affordable

# Tensor.dtype looks a dtype up among NumPy's first and asks the backend when it is not there.
pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")


@pytest.fixture(autouse=True)
def strict_device() -> Iterator[None]:
    register_backend(strict.StrictBackend())
    with device("strict:0"), strict.forbidding_reads():
        yield
    unregister_backend("strict")


def test_protocol() -> None:
    check_protocol(get_backend("strict"))


@pytest.mark.parametrize("sample", affordable(all_samples(), one_in=12), ids=repr)
def test_sample(sample: Sample) -> None:
    check_sample(sample)


@pytest.mark.parametrize("name", ["glu", "sigmoid", "silu", "gelu_tanh", "silu_slope"])
def test_activations_of_complex_numbers(name: str) -> None:
    # The kernels of this backend are the generic ones, the reference is a formula of NumPy.
    check_sample(complex_form(next(s for s in all_samples() if s.name == name)))


def test_the_stand_in_refuses_host_copies() -> None:
    array = constant([1.0, 2.0]).array

    with pytest.raises(RuntimeError):
        np.asarray(array)
    with pytest.raises(RuntimeError):
        float(array[0])


def test_mixed_devices_are_refused_with_both_names() -> None:
    here = constant([1.0])
    with device("cpu"):
        there = constant([1.0])

    with pytest.raises(ValueError, match=r"strict:0 and cpu"):
        add(here, there)


def test_a_label_out_of_range_shows_as_nan_where_raising_would_wait_for_the_device() -> None:
    logits = constant([[1.0, 2.0], [3.0, 4.0]])
    with GradientTape() as tape:
        tape.watch(logits)
        loss = sparse_softmax_cross_entropy_with_logits(constant([1, 2]), logits)

    gradient = tape.gradient(loss, logits)

    assert np.isnan(loss.numpy()).tolist() == [False, True]
    assert np.isnan(gradient.numpy()).tolist() == [[False, False], [True, True]]
