from __future__ import annotations

import numpy as np
import pytest

from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.creation import constant
from tapegrad.ops.indexing import segment_functions as functions


def gradient_of(function, values):
    x = constant(values)
    with GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x).numpy()


def test_rows_that_tie_for_the_maximum_share_the_gradient():
    gradient = gradient_of(lambda x: functions.segment_max(x, [0, 0, 1]), [2.0, 2.0, 1.0])

    assert gradient.tolist() == [0.5, 0.5, 1.0]


def test_a_row_with_a_negative_id_belongs_nowhere():
    for function in (functions.unsorted_segment_sum, functions.unsorted_segment_max):
        gradient = gradient_of(lambda x, f=function: f(x, [0, -1], 1), [1.0, 7.0])

        assert gradient.tolist() == [1.0, 0.0]


def test_empty_segments_have_tensorflows_values():
    x, ids = constant([2.0]), [1]

    assert functions.segment_max(x, ids).numpy().tolist() == [0.0, 2.0]
    assert functions.segment_mean(x, ids).numpy().tolist() == [0.0, 2.0]
    assert functions.segment_prod(x, ids).numpy().tolist() == [1.0, 2.0]
    assert functions.unsorted_segment_max(x, ids, 2).numpy()[0] == np.finfo(np.float32).min
    assert functions.unsorted_segment_min(x, ids, 2).numpy()[0] == np.finfo(np.float32).max


def test_nan_goes_through_without_a_warning():  # which would be an error in these tests
    x, ids = constant([np.nan, 1.0, 2.0, 3.0]), [0, 0, 1, 1]

    for name, other in {"max": 3.0, "min": 2.0, "sum": 5.0, "prod": 6.0}.items():
        result = getattr(functions, f"segment_{name}")(x, ids).numpy()

        np.testing.assert_array_equal(result, [np.nan, other])


def test_long_rows_are_summed_in_pieces():
    rng = np.random.default_rng(0)
    x, ids = rng.normal(size=(50, 40_000)), rng.integers(0, 3, 50)

    result = functions.unsorted_segment_sum(constant(x), ids, 3).numpy()

    np.testing.assert_allclose(result, [x[ids == s].sum(0) for s in range(3)], atol=1e-12)


def test_unsorted_ids_are_refused_where_sorted_ones_are_needed():
    with pytest.raises(ArgumentError, match="Use unsorted_segment_sum"):
        functions.segment_sum(constant([1.0, 2.0]), [1, 0])


def test_an_id_beyond_the_number_of_segments_is_named():
    with pytest.raises(ValueError, match="must be below 2; one is 5"):
        functions.unsorted_segment_sum(constant([1.0]), [5], 2)


def test_ids_must_begin_the_shape_of_the_data():
    with pytest.raises(ShapeError, match=r"Got \(3,\) for data of shape \(2,\)"):
        functions.unsorted_segment_sum(constant([1.0, 2.0]), [0, 0, 1], 2)
