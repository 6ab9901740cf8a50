"""Axes are permuted before stacking, and the results stay the same."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.passes.layouts import with_joins_last
from tapegrad.program.passes.pipeline import tidied
from tests.program.recorded_graphs import assert_same_results, count, recorded


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize("order", [(1, 3, 0, 2), (0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_the_axes_of_a_stack_are_moved_before_it_is_made(axis, order):
    arrays = [np.random.default_rng(k).normal(size=(2, 3, 4)) for k in range(3)]
    before = recorded(lambda *x: (tf.transpose(tf.stack(x, axis), order),), arrays)

    after = tidied(with_joins_last(before))

    assert_same_results(before, after, arrays)
    assert after.calls[-1].primitive.name == "stack"


def test_a_stack_that_is_read_elsewhere_stays():
    def function(x, y):
        z = tf.stack([x, y])
        return tf.transpose(z), z

    arrays = [np.ones((2, 3)), np.zeros((2, 3))]
    before = recorded(function, arrays)

    after = with_joins_last(before)

    assert_same_results(before, after, arrays)
    assert count(after, "permute_dims") == 1
