"""Expressions of recorded calls."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.trace.expression import UntraceableError, array_input
from tapegrad.program.graph.formulas import formulas_of, weight_of
from tests.program.recorded_graphs import recorded


def test_a_result_of_another_dtype_than_was_recorded_is_no_formula() -> None:
    (call,) = recorded(lambda x: (tf.exp(x),), [np.ones(3)]).calls
    other = replace(call, results=(replace(call.results[0], dtype=np.dtype("float32")),))

    assert formulas_of(call, [array_input(0, np.dtype("float64"))])[0].dtype == np.float64
    with pytest.raises(UntraceableError, match="another dtype"):
        formulas_of(other, [array_input(0, np.dtype("float64"))])
    assert weight_of(other) is None


def test_costly_functions_weigh_more_than_arithmetic() -> None:
    cheap, dear = recorded(lambda x: (x * 2.0, tf.exp(x)), [np.ones(3)]).calls

    assert weight_of(cheap) == 1
    assert (weight_of(dear) or 0) > 1


def test_what_makes_no_single_elements_has_no_weight() -> None:
    (call,) = recorded(lambda x: (tf.cumsum(x),), [np.ones(3)]).calls

    assert weight_of(call) is None
