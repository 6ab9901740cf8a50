"""What keeps compilers from vectorising loops in C is written in another way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_numpy.loops import compiler

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

rng = np.random.default_rng(11)


def recorded(function: Any, *arrays: Any) -> tuple[list[np.ndarray], list[Any]]:
    """Return the results of the compiled function and the steps of its program."""
    compiled = tf.function(function)
    given = [tf.constant(array) for array in arrays]
    compiled(*given)
    results = [np.asarray(result) for result in tf.nest.flatten(compiled(*given))]
    return results, [*compiled.program(*given).steps]


def sources_of(steps: list[Any]) -> str:
    return "\n".join(step.run.__dict__["source"] for step in steps if hasattr(step, "run"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [0, 1])
def test_columns_of_a_small_matrix_are_packed(dtype: str, axis: int) -> None:
    x, y = (rng.normal(size=(n, 3)).astype(dtype) for n in (40, 50))

    def function(x: Any, y: Any) -> Any:
        d = x[:, None, 0] * y[None, :, 1] - y[None, :, 2]
        return tf.reduce_sum(tf.exp(-d * d), axis=axis)

    (found,), steps = recorded(function, x, y)
    d = x[:, None, 0] * y[None, :, 1] - y[None, :, 2]
    rtol = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(found, np.exp(-d * d).sum(axis), rtol=rtol)
    assert "packed" in sources_of(steps)


def test_reversed_columns_in_stages() -> None:
    x, y = rng.normal(size=(30, 1)), rng.normal(size=(70, 2))

    def function(x: Any, y: Any) -> Any:
        return tf.nn.softmax(x * y[::-1, 1], axis=-1)

    (found,), _ = recorded(function, x, y)
    e = np.exp(x * y[::-1, 1] - (x * y[::-1, 1]).max(1, keepdims=True))
    np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), rtol=1e-12)


def test_conditions_of_rows_are_masks() -> None:
    x, flags = rng.normal(size=(20, 90)).astype(np.float32), rng.normal(size=(20, 1)) > 0

    def function(x: Any, flags: Any) -> Any:
        return tf.where(flags, tf.exp(x), x * 2.0) + tf.where(x > 0.0, x, 0.0)

    (found,), steps = recorded(function, x, flags)
    np.testing.assert_allclose(
        found, np.where(flags, np.exp(x), x * 2) + np.maximum(x, 0), rtol=1e-6, atol=1e-6
    )
    assert "choose_float(x" in sources_of(steps)


def test_bools_of_rows_are_numbers() -> None:
    x = rng.normal(size=(6, 20, 8))
    y = rng.integers(0, 2, (6, 20, 1)).astype(np.float64)

    (found,), steps = recorded(lambda x, y: tf.where(y == 0.0, x, x * 2.0), x, y)

    np.testing.assert_array_equal(found, np.where(y == 0, x, 2 * x))
    assert "const bool" not in sources_of(steps)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("exponent", [-12, -5, -4, -3, -2, -1, 4, 5, 7, 8, 12])
def test_whole_powers(exponent: int, dtype: str) -> None:
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1.0, 4.0]
    x = np.concatenate([rng.uniform(-100, 100, 500), special]).astype(dtype)
    with np.errstate(all="ignore"):
        (found,), steps = recorded(lambda x: (x + 0.0) ** exponent, x)
        expected = (x + 0.0).astype(np.longdouble) ** exponent
    rtol = (1 if dtype == "float32" else 8) * np.finfo(dtype).eps
    np.testing.assert_allclose(found.astype(np.longdouble), expected, rtol=rtol)
    np.testing.assert_array_equal(np.signbit(found[-8:-4]), np.signbit(expected[-8:-4]))
    assert "tg_pow(" not in sources_of(steps)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("exponent", [-3.5, -2.5, -1.5, 0.5, 1.5, 2.5, 3.5])
def test_powers_of_roots(exponent: float, dtype: str) -> None:
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1.0, 4.0]
    x = np.concatenate([rng.uniform(0.01, 100, 500), special]).astype(dtype)
    with np.errstate(all="ignore"):
        (found,), steps = recorded(lambda x: (x + 0.0) ** exponent, x)
        expected = x.astype(np.longdouble) ** exponent
    np.testing.assert_allclose(found.astype(np.longdouble), expected, rtol=4 * np.finfo(dtype).eps)
    zeros_and_infinities = found[-8:-4][~np.isnan(found[-8:-4])]  # NaN has any sign
    assert not np.signbit(zeros_and_infinities).any()
    assert "tg_pow(" not in sources_of(steps)


def test_sums_along_one_axis_of_values_of_one_loop_share_their_work() -> None:
    x = rng.normal(size=(60, 3))

    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            d = x[:, None] - x[None]
            force = d * (tf.reduce_sum(d * d, -1, keepdims=True) + 0.1) ** -1.5
            loss = tf.reduce_sum(tf.reduce_sum(force, 1) ** 2)
        return loss, tape.gradient(loss, x)

    (loss, gradient), steps = recorded(function, x)

    def value(x: np.ndarray) -> Any:
        d = x[:, None] - x[None]
        force = d * ((d * d).sum(-1, keepdims=True) + 0.1) ** -1.5
        return (force.sum(1) ** 2).sum()

    np.testing.assert_allclose(loss, value(x), rtol=1e-10)
    for i, k in [(0, 0), (17, 2), (59, 1)]:
        step = np.zeros_like(x)
        step[i, k] = 1e-6
        slope = (value(x + step) - value(x - step)) / 2e-6
        np.testing.assert_allclose(gradient[i, k], slope, rtol=1e-5)
    pairs = [s for s in steps if hasattr(s, "run") and s.made_of.loop.shape == (60, 60)]
    assert len(pairs) <= 3, [len(step.results) for step in pairs]
