"""Arrays that repeat their entries are computed once and broadcast where they are read."""

from __future__ import annotations

from typing import Any

import numpy as np

import tapegrad as tf
import tapegrad.numpy as tnp
from tests.program.test_windows import array, check


def test_a_constant_that_repeats_itself_is_kept_once() -> None:
    repeated = np.broadcast_to(np.arange(20.0)[:, None, None], (20, 300, 4)).copy()

    program = check(lambda x: tf.constant(repeated) * x + 1.0, array(20, 300, 4))

    sizes = [np.size(constant) for constant in program.graph.constants.values()]
    if array(1).device == "cpu":  # constants on other devices are not read
        assert max(sizes, default=0) <= 20


def test_a_constant_that_differs_in_one_element_stays() -> None:
    almost = np.zeros((20, 300, 4))
    almost[7, 123, 2] = -0.0
    almost[3, 11, 1] = 1.0

    program = check(lambda x: tf.constant(almost) * x + tf.constant(-almost), array(20, 300, 4))

    sizes = [np.size(constant) for constant in program.graph.constants.values()]
    assert max(sizes) == almost.size


def test_the_sign_of_zero_makes_a_difference() -> None:
    signed = np.zeros((64, 128))
    signed[:, 1] = -0.0
    signed[5, 1] = 0.0
    x = array(64, 128)

    found = tf.function(lambda x: tnp.copysign(x, tf.constant(signed)) * 1.0)
    for _ in range(2):
        result = found(x)

    np.testing.assert_array_equal(result.numpy(), np.copysign(x.numpy(), signed))


def test_calls_of_broadcast_arrays_are_made_for_one_entry() -> None:
    def function(x: Any, row: Any) -> Any:
        wide = tf.broadcast_to(row, (500, 30))
        return x + tf.exp(wide) / (1.0 + wide * wide)

    program = check(function, array(500, 30), array(30), rtol=1e-10)

    heavy = [call for call in program.graph.calls if call.primitive.name == "exp"]
    assert all(call.results[0].size == 30 for call in heavy)


def test_results_are_whole_arrays() -> None:
    """A result may be written by its owner, so it is no view of a smaller array."""

    def function(row: Any) -> Any:
        return tf.broadcast_to(row, (50, 30)) * 2.0

    compiled, row = tf.function(function), array(30)
    for _ in range(2):
        result = compiled(row)

    assert 0 not in np.asarray(result).strides
    np.testing.assert_array_equal(result.numpy(), np.tile(row.numpy() * 2, (50, 1)))
