"""The generic kernels of convolutions of sequences: blocks, transforms, and what gradients cost."""

from __future__ import annotations

import math
from typing import Any

import array_api_strict as xp
import numpy as np
import pytest

import tapegrad as tf
from tapegrad.ops.convolution import sequences
from tapegrad.ops.fourier.frames import cut_frames


def draw(size: int, kind: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=size)
    return x + 1j * rng.normal(size=size) if kind == "complex" else x


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("limits", [(8, 1 << 30), (1 << 24, 8), (1, 1 << 30)])
def test_blocks_and_transforms_give_the_sums(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], kind: str
) -> None:
    monkeypatch.setattr(sequences, "BLOCK", limits[0])
    monkeypatch.setattr(sequences, "DIRECT", limits[1])
    x, w = draw(23, kind, 0), draw(4, kind, 1)
    kernel: Any = sequences.sliding_dot_p.generic_kernel(xp)

    found = np.asarray(kernel(xp.asarray(x), xp.asarray(w)))

    expected = [np.sum(x[n : n + 4] * w) for n in range(20)]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_blocks_of_a_stack_hold_fewer_results_of_each_sequence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sequences, "BLOCK", 40)
    stored: list[int] = []

    def cut(*args: Any, **params: Any) -> Any:
        frames = cut_frames(*args, **params)
        stored.append(math.prod(frames.shape))
        return frames

    monkeypatch.setattr(sequences, "cut_frames", cut)
    x, w = draw(69, "real", 0).reshape(3, 23), draw(12, "real", 1).reshape(3, 4)
    kernel: Any = sequences.sliding_dot_p.generic_kernel(xp)

    found = np.asarray(kernel(xp.asarray(x), xp.asarray(w)))

    assert max(stored) <= 40
    for own, x_own, w_own in zip(found, x, w):
        expected = [np.sum(x_own[n : n + 4] * w_own) for n in range(20)]
        np.testing.assert_allclose(own, expected, rtol=1e-12, atol=1e-12)


def test_gradients_of_a_long_signal_and_a_short_filter_need_little_memory() -> None:
    """The gradient of the filter must not convolve the long signal with one of its length."""
    x, w = tf.Variable(draw(200_000, "real", 0)), tf.Variable(draw(5, "real", 1))
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.sin(sequences.convolve(x, w)))

    gradient = tape.gradient(y, w)

    at = np.cos(np.convolve(x.numpy(), w.numpy()))
    expected = [np.sum(at[k : k + 200_000] * x.numpy()) for k in range(5)]
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-9)
