from __future__ import annotations

import numpy as np
import pytest

from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.creation import constant
from tapegrad.ops.indexing import sorting
from tapegrad.ops.reduction import counting


@pytest.mark.parametrize("count", [6, 200])
def test_top_k_takes_the_first_of_those_that_tie(count):
    x = np.zeros((2, count))
    x[1, 3] = 1.0

    values, indices = sorting.top_k(constant(x), k=3)

    assert indices.numpy().tolist() == [[0, 1, 2], [3, 0, 1]]
    assert values.numpy().tolist() == [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    assert indices.dtype == "int32"


def test_top_k_agrees_with_a_full_sort():
    x = np.random.default_rng(0).integers(0, 30, (20, 300)).astype(float)

    values, indices = sorting.top_k(constant(x), k=10)

    order = np.argsort(-x, axis=1, kind="stable")[:, :10]
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, order, 1))


def test_top_k_of_too_few_is_refused():
    with pytest.raises(ArgumentError, match="at least k = 4"):
        sorting.top_k(constant([1.0, 2.0]), k=4)


def test_a_stable_descending_sort_keeps_the_order_of_ties():
    order = sorting.argsort(constant([1, 2, 1, 2]), direction="DESCENDING", stable=True)

    assert order.numpy().tolist() == [1, 3, 0, 2]


def test_an_unknown_direction_is_named():
    with pytest.raises(ArgumentError, match="Got 'down'"):
        sorting.sort(constant([1.0]), direction="down")


def test_searchsorted_needs_the_same_leading_axes():
    with pytest.raises(ShapeError, match=r"\(2, 3\) and \(4,\)"):
        sorting.searchsorted(constant(np.ones((2, 3))), constant(np.ones(4)))


def test_the_gradient_of_a_distinct_value_goes_to_its_first_appearance():
    x = constant([5.0, 3.0, 5.0])
    with GradientTape() as tape:
        tape.watch(x)
        y, _ = counting.unique(x)

    assert tape.gradient(y, x).numpy().tolist() == [1.0, 1.0, 0.0]


def test_bincount_takes_its_length_from_the_values_and_the_limits():
    assert counting.bincount([0, 4, 1]).numpy().tolist() == [1, 1, 0, 0, 1]
    assert counting.bincount([0, 4, 1], maxlength=3).numpy().tolist() == [1, 1, 0]
    assert counting.bincount([0, 1], minlength=4).numpy().tolist() == [1, 1, 0, 0]
    assert counting.bincount(np.zeros(0, int)).numpy().tolist() == []
