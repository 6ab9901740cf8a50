"""Parts of an array that were made by slices and by one call are the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.passes.parts import with_shared_parts
from tests.program.recorded_graphs import assert_same_results, count, recorded

ROWS = np.random.default_rng(0).normal(size=(3, 5))


@pytest.mark.parametrize("is_unstacked_first", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_equal_parts_are_computed_with_once(is_unstacked_first: bool, axis: int) -> None:
    def slices(x: Any) -> Any:
        return tf.exp(x[1] if axis == 0 else x[:, 1])

    def parts(x: Any) -> Any:
        return tf.exp(tf.unstack(x, axis=axis)[1])

    first, second = (parts, slices) if is_unstacked_first else (slices, parts)
    graph = recorded(lambda x: (first(x) + second(x), x[-1]), (ROWS,))
    after = with_shared_parts(graph)

    assert count(graph, "exp") == 2
    assert count(after, "exp") == 1
    assert_same_results(graph, after, (ROWS,))


def test_results_stay_arrays_of_their_own() -> None:
    graph = recorded(lambda x: (x[1], tf.unstack(x)[1], tf.exp(x[-2])), (ROWS,))
    after = with_shared_parts(graph)

    assert len({value.number for value in after.outputs}) == 3
    assert_same_results(graph, after, (ROWS,))
