"""Casts of many arrays as a group, and steps in half precision that use them."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.ops import casts_ahead

cupy = pytest.importorskip("cupy")
cast_groups = pytest.importorskip("tapegrad_cupy.cast_groups")

RNG = np.random.default_rng(3)
BFLOAT16 = tf.as_dtype("bfloat16").dtype
SHAPES = [(1,), (3, 5), (0, 4), (257,), (64, 64), (), (1000, 37)]


def arrays(shapes, dtype="f4"):
    return [cupy.asarray(RNG.normal(size=shape).astype(dtype)) for shape in shapes]


@pytest.mark.parametrize("dtype", [BFLOAT16, np.dtype("f2"), np.dtype("f8")], ids=str)
@pytest.mark.parametrize("count", [1, 4, 200])
def test_all_are_cast_as_each_alone(count, dtype) -> None:
    given = arrays((SHAPES * 30)[:count])
    group = cast_groups.cast_group(given, dtype)

    for _ in range(2):
        made = group(given)
        for x, y in zip(given, made, strict=True):
            assert (y.dtype, y.shape) == (dtype, x.shape)
            np.testing.assert_array_equal(cupy.asnumpy(y), cupy.asnumpy(x).astype(dtype))
        given = arrays([x.shape for x in given])  # in other places


def test_what_does_not_fit_is_left_alone() -> None:
    given = arrays([(8, 4), (6,)])
    group = cast_groups.cast_group(given, BFLOAT16)

    assert group([given[0], arrays([(7,)])[0]]) is None
    assert group([given[0].T.copy().T, given[1]]) is None
    assert group([given[0], arrays([(7,)])[0][1:]]) is None
    assert group([given[0], arrays([(6,)], "f8")[0]]) is None
    assert cast_groups.cast_group(arrays([(2,)], "i4"), BFLOAT16) is None
    assert cast_groups.cast_group([*given, *arrays([(2,)], "f8")], BFLOAT16) is None


def trained(steps: int) -> list[np.ndarray]:
    with tf.device("cuda:0"):
        rng = np.random.default_rng(0)
        weights = [tf.Variable(rng.normal(size=(16, 16)).astype("f4")) for _ in range(6)]
        x = tf.cast(tf.constant(rng.normal(size=(8, 16)).astype("f4")), "bfloat16")
        optimizer = tf.optimizers.AdamW(1e-2)
        for _ in range(steps):
            with tf.GradientTape() as tape:
                y = x
                for weight in (*weights, weights[0]):
                    y = tf.tanh(tf.matmul(y, tf.cast(weight, "bfloat16")))
                loss = tf.reduce_mean(tf.cast(y * y, "float32"))
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return [weight.numpy() for weight in weights]


def test_a_step_with_casts_ahead_is_the_step_without(monkeypatch) -> None:
    ahead = trained(5)
    monkeypatch.setitem(casts_ahead._cast_groups, cupy.ndarray, None)

    for mine, wanted in zip(ahead, trained(5), strict=True):
        np.testing.assert_array_equal(mine, wanted)


def test_a_value_that_an_optimizer_moved_meanwhile_is_cast_again() -> None:
    with tf.device("cuda:0"):
        weights = [tf.Variable([1.0, 2.0, 3.0]) for _ in range(3)]
        optimizer = tf.optimizers.SGD(0.5)
        for step in range(4):
            with tf.GradientTape():
                first = tf.cast(weights[0], "bfloat16")
                optimizer.apply_gradients([(tf.ones([3]), weight) for weight in weights])
                rest = [tf.cast(weight, "bfloat16") for weight in weights[1:]]

            assert float(first[0]) == 1.0 - 0.5 * step
            assert [float(value[0]) for value in rest] == [0.5 - 0.5 * step] * 2
