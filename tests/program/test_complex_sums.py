"""Sums of complex numbers are computed by compiled loops, with what makes their operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.passes.complex_sums import with_sums_of_parts
from tapegrad_numpy.loops.entry_points import CLoopCompiler
from tests.program.recorded_graphs import assert_same_results, count, recorded

rng = np.random.default_rng(0)
Z = rng.normal(size=(4, 6)) + 1j * rng.normal(size=(4, 6))


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_both_parts_are_added(axis: Any, keepdims: bool) -> None:
    def function(z: Any) -> Any:
        return (tf.reduce_sum(z * z, axis=axis, keepdims=keepdims),)

    graph = recorded(function, (Z,))
    after = with_sums_of_parts(graph, CLoopCompiler())

    assert (count(graph, "sum"), count(after, "sum")) == (1, 2)
    sums = [call for call in after.calls if call.primitive.name == "sum"]
    assert [call.reads[0].dtype.name for call in sums] == ["float64", "float64"]
    assert_same_results(graph, after, (Z,))


def test_real_sums_stay() -> None:
    graph = recorded(lambda x: (tf.reduce_sum(x * x),), (Z.real,))

    assert with_sums_of_parts(graph, CLoopCompiler()) is graph
