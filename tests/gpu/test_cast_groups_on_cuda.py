"""Casts of many arrays as a group, and steps in half precision that use them."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.engine import batched_casts

cupy = pytest.importorskip("cupy")
cast_groups = pytest.importorskip("tapegrad_cupy.kernels.casting.cast_groups")
filter_layout = pytest.importorskip("tapegrad_cupy.kernels.convolution.filter_layout")
is_cudnn_order = filter_layout.is_cudnn_order

RNG = np.random.default_rng(3)
BFLOAT16 = tf.as_dtype("bfloat16").dtype
FILTERS = [(3, 3, 16, 40), (1, 5, 3, 33), (2, 2, 2, 3, 5), (3, 3, 1, 8), (2, 1, 70, 2)]
SHAPES = [(1,), (3, 5), (0, 4), (257,), (64, 64), (), (1000, 37), *FILTERS, (3, 3, 0, 4)]


def arrays(shapes, dtype="f4"):
    return [cupy.asarray(RNG.normal(size=shape).astype(dtype)) for shape in shapes]


@pytest.mark.parametrize("dtype", [BFLOAT16, np.dtype("f2"), np.dtype("f8")], ids=str)
@pytest.mark.parametrize("count", [1, 4, 12, 200])
def test_all_are_cast_as_each_alone(count, dtype) -> None:
    given = arrays((SHAPES * 30)[:count])
    group = cast_groups.cast_group(given, dtype)

    for _ in range(2):
        made = group(given)
        for x, y in zip(given, made, strict=True):
            assert (y.dtype, y.shape) == (dtype, x.shape)
            np.testing.assert_array_equal(cupy.asnumpy(y), cupy.asnumpy(x).astype(dtype))
        given = arrays([x.shape for x in given])  # in other places


def test_filters_come_in_the_order_of_cudnn_where_that_is_there(monkeypatch) -> None:
    others = [(1, 1, 8, 4), (3, 3, 8, 1), (3, 8, 4), (9, 4), (3, 3, 0, 4)]
    for has_cudnn in (True, False):
        monkeypatch.setattr(cast_groups, "library", lambda has=has_cudnn: (has or None, ""))
        given = arrays([*FILTERS, *others])
        for x, y in zip(given, cast_groups.cast_group(given, BFLOAT16)(given), strict=True):
            assert is_cudnn_order(y) == (has_cudnn and x.shape in FILTERS)
            assert y._c_contiguous == (not is_cudnn_order(y))


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
    monkeypatch.setitem(batched_casts._preparers, cupy.ndarray, None)

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


def convolved(steps: int, shared: bool) -> list[np.ndarray]:
    """The weights of convolutions after steps in half precision, some used twice if `shared`."""
    with tf.device("cuda:0"):
        rng = np.random.default_rng(0)
        shapes = [(3, 3, 3, 8), (3, 3, 8, 8), (3, 3, 8, 8), (1, 1, 8, 8), (8, 4)]
        weights = [tf.Variable(rng.normal(size=shape).astype("f4") / 8) for shape in shapes]
        x = tf.constant(rng.normal(size=(4, 12, 12, 3)).astype("f4"))
        optimizer = tf.optimizers.SGD(0.25, momentum=0.9)
        for _ in range(steps):
            with tf.GradientTape() as tape:
                y = tf.cast(x, "bfloat16")
                for filters in [*weights[:4], *weights[1:2] * shared]:
                    y = tf.tanh(tf.nn.conv2d(y, tf.cast(filters, "bfloat16"), 1, "SAME"))
                y = tf.nn.conv2d_transpose(
                    y, tf.cast(weights[2], "bfloat16"), (4, 24, 24, 8), 2, "SAME"
                )
                y = tf.reduce_mean(y, (1, 2)) @ tf.cast(weights[4], "bfloat16")
                loss = tf.reduce_mean(tf.cast(y * y, "float32"))
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return [weight.numpy() for weight in weights]


@pytest.mark.parametrize("shared", [False, True])
def test_filters_that_were_cast_ahead_train_as_those_that_were_not(monkeypatch, shared) -> None:
    ahead = convolved(4, shared)
    monkeypatch.setitem(batched_casts._preparers, cupy.ndarray, None)

    for mine, wanted in zip(ahead, convolved(4, shared), strict=True):
        assert np.isfinite(wanted).all()
        np.testing.assert_array_equal(mine, wanted)
