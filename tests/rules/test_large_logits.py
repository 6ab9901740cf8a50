"""Weights of logarithmic sums add up to 1 in float32, however large the numbers are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.ops.elementwise.exponential import logaddexp, logaddexp2
from tapegrad.scipy import special

LOGITS = np.array([1000.0, 1000.0, 998.0], np.float32)

FUNCTIONS: dict[str, tuple[Any, float]] = {
    "reduce_logsumexp": (tf.reduce_logsumexp, 1.0),
    "logaddexp": (lambda x: logaddexp(x[0], x[2]), 1.0),
    "logaddexp2": (lambda x: logaddexp2(x[0], x[2]), 1.0),
    "cumulative_logsumexp": (lambda x: tf.math.cumulative_logsumexp(x)[2], 1.0),
    "softmax_cross_entropy_with_logits": (
        lambda x: tf.nn.softmax_cross_entropy_with_logits([0.0, 0.0, 1.0], x),
        0.0,
    ),
    "sparse_softmax_cross_entropy_with_logits": (
        lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(2, x),
        0.0,
    ),
    "log_softmax": (lambda x: tf.nn.log_softmax(x)[0], 0.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("recorded", [False, True], ids=["eager", "function"])
def test_gradients_at_large_numbers_have_the_right_sum(name: str, recorded: bool) -> None:
    function, total = FUNCTIONS[name]
    gradient = tf.grad(function)
    found = (tf.function(gradient) if recorded else gradient)(tf.constant(LOGITS)).numpy()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.sum(dtype=np.float64), total, atol=3e-7)
    np.testing.assert_allclose(found, gradient(tf.constant(LOGITS, "float64")).numpy(), atol=3e-6)


def test_softmax_over_all_axes_adds_up_to_one() -> None:
    assert abs(float(special.softmax(LOGITS).numpy().sum()) - 1) < 3e-7
    logs = special.log_softmax(LOGITS).numpy()
    assert abs(float(np.exp(logs.astype(np.float64)).sum()) - 1) < 3e-7


@pytest.mark.parametrize("function", [logaddexp, logaddexp2])
@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (-np.inf, -np.inf, (0.0, 0.0)),
        (np.inf, 1.0, (1.0, 0.0)),
        (-np.inf, 1.0, (0.0, 1.0)),
        (np.inf, np.inf, (0.5, 0.5)),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_log_sums_at_infinity(function: Any, a: float, b: float, expected: tuple) -> None:
    found = tf.grad(function, argnums=(0, 1))(tf.constant(a), tf.constant(b))
    assert tuple(g.numpy() for g in found) == expected


@pytest.mark.parametrize("recorded", [False, True], ids=["eager", "function"])
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_xdivy_has_no_gradient_where_both_are_zero(recorded: bool) -> None:
    call = tf.function(tf.math.xdivy) if recorded else tf.math.xdivy
    for x, y, slope in ((0.0, 0.0, 0.0), (0.0, 2.0, 0.5), (1.0, 2.0, 0.5), (1.0, 0.0, np.inf)):
        assert float(tf.grad(call)(tf.constant(x), tf.constant(y))) == slope
        assert float(tf.grad(lambda x, y=y: call(x, y))(tf.constant(x))) == slope
