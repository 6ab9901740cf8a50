"""Fourier transforms in programs: their normalization and weights become parts of loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.ops.fourier import transforms
from tapegrad.program.graph.graph import Call
from tests import capabilities
from tests.program.reference_loops import Reference
from tests.program.test_fusion import draw, kinds, steps_of

TRANSFORMS = ("fourier", "inverse_real_fourier", "real_fourier")


@pytest.fixture(autouse=True)
def target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run loops in NumPy instead of C, so that these tests need no compiler."""
    capabilities.use(monkeypatch, loops=Reference())


def unscaled(step: Call) -> str:
    is_inverse = step.primitive.name == "inverse_real_fourier" or step.params.get("inverse")
    return "forward" if is_inverse else "backward"


@pytest.mark.parametrize("n", [8, 9])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_a_filter_is_transforms_and_one_loop_between_them(n: int, norm: str) -> None:
    def loss(x: Any, w: Any) -> Any:
        spectrum = transforms.rfft(x, norm=norm) * tf.cast(w, "complex128")
        y = transforms.irfft(spectrum, n, norm=norm)
        return tf.reduce_sum(y * y * y)

    steps = steps_of(tf.grad(loss), draw(6, n), draw(n // 2 + 1, seed=1))
    calls = [step for step in steps if isinstance(step, Call)]
    assert {step.primitive.name for step in calls} <= {*TRANSFORMS, "positions_like", "reshape"}
    assert kinds(steps).count("positions_like") <= 1  # both weights are functions of them
    found = [step for step in calls if step.primitive.name in TRANSFORMS]
    assert len(found) == 4
    assert all(step.params["norm"] == unscaled(step) for step in found)
    # The positions are made after the spectrum, so its factor and its weights are two loops.
    assert kinds(steps).count("loop") <= 6


@pytest.mark.parametrize("axis", [0, 1])
def test_complex_transforms(axis: int) -> None:
    def loss(x: Any) -> Any:
        spectrum = transforms.fft(tf.complex(x, x * 2.0), axis=axis)
        back = transforms.ifft(spectrum * spectrum, axis=axis, norm="ortho")
        return tf.reduce_sum(tf.math.real(back) ** 2 + tf.math.imag(back))

    steps = steps_of(tf.grad(loss), draw(6, 10))
    names = kinds(steps)
    assert set(names) <= {"fourier", "loop", "reshape"}
    for step in steps:
        if isinstance(step, Call) and step.primitive.name == "fourier":
            assert step.params["norm"] == unscaled(step)


def test_a_transform_without_a_factor_stays_alone() -> None:
    assert kinds(steps_of(transforms.rfft, draw(6, 10))) == ["real_fourier"]


def test_empty_transforms() -> None:
    spectrum = tf.function(lambda x: transforms.rfft(x, norm="forward"))(tf.zeros([0, 6]))
    assert spectrum.shape == (0, 4)
    assert np.asarray(tf.function(transforms.irfft)(tf.cast(spectrum, "complex64"))).shape == (0, 6)
