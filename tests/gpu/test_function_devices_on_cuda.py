"""Functions with tensors on host and GPU do what eager code does, or refuse as it does."""

from __future__ import annotations

import random
from typing import Any

import cupy
import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import DeviceError
from tests.program.test_devices_in_functions import outcome, random_program
from tests.seeds import SEED

DEVICES = ("cpu", "cuda:0")


def test_random_programs_on_host_and_gpu() -> None:
    rng = random.Random(SEED)
    for _ in range(100):
        with tf.device(rng.choice(DEVICES)):
            variable = tf.Variable([0.5, -1.0])
        tensors = []
        for _ in range(2):
            with tf.device(rng.choice(DEVICES)):
                tensors.append(tf.constant([1.0, -2.0]))
        program = random_program(rng, variable)
        recorded, with_tape = tf.function(program), rng.random() < 0.4
        with tf.device(rng.choice(DEVICES)):
            expected = outcome(program, tensors, with_tape)
            for _ in range(3):
                found = outcome(recorded, tensors, with_tape)
                if isinstance(expected, type):
                    assert found is expected
                else:
                    assert [place for place, _ in found] == [place for place, _ in expected]
                    for (_, one), (_, other) in zip(found, expected):
                        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_mixed_arguments_are_refused_with_both_names() -> None:
    with tf.device("cpu"):
        here = tf.constant([1.0])
    with tf.device("cuda:0"):
        there = tf.constant([1.0])
        f = tf.function(lambda x, y: x * 2.0 + y)
        for _ in range(2):
            with pytest.raises(DeviceError, match=r"cpu and cuda:0"):
                f(here, there)


def test_arrays_of_cupy_are_inputs() -> None:
    runs: list[int] = []

    def body(x: Any) -> Any:
        runs.append(1)
        return x * 2.0

    f = tf.function(body)
    for k in range(4):
        assert f(cupy.full(3, float(k))).numpy().tolist() == [2.0 * k] * 3
    assert len(runs) == 1


def test_a_constant_that_is_returned_is_new_at_each_call() -> None:
    with tf.device("cuda:0"):
        f = tf.function(lambda x: (tf.constant([1.0, 2.0]), x * 2.0))
        x = tf.constant(1.0)
        for _ in range(3):
            constant, _ = f(x)
            assert constant.numpy().tolist() == [1.0, 2.0]
            constant.array[...] = -1.0  # as a consumer of DLPack could do


def test_random_initial_values_are_drawn_once() -> None:
    def run(wrapper: Any) -> list[Any]:
        tf.random.set_seed(3)
        made: list[Any] = []

        def body(x: Any) -> Any:
            y = x + tf.random.normal([3])
            if not made:
                made.append(tf.Variable(tf.random.normal([3])))
            return y * made[0] * tf.random.uniform([3])

        f = wrapper(body)
        return [f(tf.ones([3])).numpy() for _ in range(4)]

    with tf.device("cuda:0"):
        np.testing.assert_allclose(run(tf.function), run(lambda f: f), rtol=1e-5)
