"""NumPy's own functions, called on tensors, give tensors with NumPy's values."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tapegrad
from tests.numpy.calls import ARRAYS, CALLS
from tests.numpy.test_values import assert_same, run, tensors

# Calls in which NumPy makes an array of a tensor by itself, so that nobody is asked.
MAKES_ARRAYS = (
    *("np.array(", "np.asarray", "np.asanyarray", "np.ascontig", "np.full((2, 4), v)", "np.from"),
    *("np.r_", "np.c_", "np.require", "np.vectorize", "np.kaiser", "np.sin(x, where=x > 0, out"),
    *("np.ndenumerate", "np.histogram(x, 3, density", "np.array_repr"),
)


def asks_tensors(call):
    """Whether the outermost call hands a tensor to a function of NumPy."""
    names = re.findall(r"\b([a-z])\b(?!\s*=[^=])", call)
    return call.startswith("np.") and not call.startswith(MAKES_ARRAYS) and set(names) & set(ARRAYS)


@pytest.mark.parametrize("call", [call for call in CALLS if asks_tensors(call)])
def test_numpys_function_on_tensors(call):
    assert_same(run(call, np, tensors()), run(call, np, dict(ARRAYS)))


def test_a_function_without_a_form_is_refused_in_words():
    x = tapegrad.constant([1.0])

    with pytest.raises(TypeError, match=r"np.busday_count has no form for tensors. Call it on"):
        np.busday_count(x, x)


def test_a_ufunc_without_a_form_is_refused_in_words():
    with pytest.raises(TypeError, match=r"np.isnat has no form for tensors. Call it on x.numpy()"):
        np.isnat(tapegrad.constant([1.0]))
