"""Convolution and correlation of sequences on the GPU against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp

pytest.importorskip("cupy")

LENGTHS = [
    (1, 1),
    (7, 33),
    (40, 40),
    (5000, 3),
    (700, 128),
    (9000, 8990),
    (9000, 8900),
    (30_000, 500),
]


def drawn(length: int, dtype: str, seed: int = 0) -> np.ndarray:
    """Return small whole numbers, of which sums are exact."""
    most = 2 if dtype == "float16" else 9
    return np.random.default_rng(seed).integers(-most, most, length).astype(dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "int32"])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_values(lengths: tuple[int, int], dtype: str) -> None:
    x, w = drawn(lengths[0], dtype), drawn(lengths[1], dtype, 1)
    wide = "float32" if dtype == "float16" else dtype
    for name in ("convolve", "correlate"):
        for mode in ("full", "same", "valid"):
            with tf.device("cuda:0"):
                found = getattr(tnp, name)(x, w, mode)

            expected = getattr(np, name)(x.astype(wide), w.astype(wide), mode).astype(dtype)

            assert found.dtype == dtype
            np.testing.assert_allclose(
                found.numpy(), expected, rtol=1e-3 if dtype == "float16" else 0
            )


def test_an_infinity_reaches_only_its_own_sums() -> None:
    x, w = np.arange(1.0, 1001.0), np.ones(70)
    x[900] = np.inf

    with tf.device("cuda:0"):
        found = tnp.correlate(x, w).numpy()

    np.testing.assert_array_equal(np.isinf(found), np.isinf(np.correlate(x, w)))
    assert not np.isnan(found).any()


@pytest.mark.parametrize("lengths", [(5000, 128), (60, 60), (33, 1000)])
def test_gradients(lengths: tuple[int, int]) -> None:
    x, w = (np.random.default_rng(n).normal(size=n) for n in lengths)

    def gradients(device: str) -> Any:
        with tf.device(device):
            sequences = [tf.constant(x), tf.constant(w)]
            with tf.GradientTape() as tape:
                tape.watch(sequences)
                loss = tf.reduce_sum(tf.sin(tnp.convolve(*sequences)))
            return tape.gradient(loss, sequences)

    for one, other in zip(gradients("cuda:0"), gradients("cpu"), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-9)


def test_a_batch_of_pairs() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(3, 500)), rng.normal(size=(3, 20))

    with tf.device("cuda:0"):
        found = tf.vmap(tnp.convolve)(tf.constant(x), tf.constant(w)).numpy()

    np.testing.assert_allclose(found, [np.convolve(a, b) for a, b in zip(x, w)], rtol=1e-11)
