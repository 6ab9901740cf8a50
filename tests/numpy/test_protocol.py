"""NumPy's own functions, called on tensors, give tensors with NumPy's values."""

from __future__ import annotations

import re
import warnings

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
    *("np.polynomial.", "np.poly1d", "np.polyadd(np.poly1d"),
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

    with pytest.raises(TypeError, match=r"np.busday_count does not support tensors. .* Call it on"):
        np.busday_count(x, x)


def test_a_ufunc_without_a_form_is_refused_in_words():
    with pytest.raises(
        TypeError, match=r"np.isnat does not support tensors. .* Call it on x.numpy"
    ):
        np.isnat(tapegrad.constant([1.0]))


LEAVES = "A tensor that a tape follows became a NumPy array"


def test_a_followed_tensor_that_becomes_an_array_warns_once_per_place():
    x = tapegrad.constant([1.0, 2.0])
    with warnings.catch_warnings(record=True) as caught, tapegrad.GradientTape() as tape:
        warnings.simplefilter("default")
        tape.watch(x)
        for _ in range(3):
            np.asarray(x)

    assert [str(each.message).split(":")[0] for each in caught] == [LEAVES]
    assert caught[0].filename == __file__


def test_a_variable_that_becomes_an_array_warns_where_it_did():
    v = tapegrad.Variable([1.0, 2.0])
    with tapegrad.GradientTape(), pytest.warns(UserWarning, match=LEAVES) as caught:
        np.asarray(v)

    assert caught[0].filename == __file__


def test_without_a_tape_that_follows_nothing_is_said():
    x, other = tapegrad.constant([1.0]), tapegrad.constant([2.0])
    with tapegrad.GradientTape() as tape:
        tape.watch(x)
        np.asarray(other)
        x.numpy()
        with tape.stop_recording():
            np.asarray(x)

    np.asarray(x)


def test_ufuncs_of_others_are_not_taken_for_numpys():
    add = np.frompyfunc(lambda a, b: a - b, 2, 1)

    with pytest.raises(TypeError, match=r"does not support tensors. Call it on x.numpy"):
        add(tapegrad.constant([1.0]), 2.0)


def test_questions_about_dtypes_read_no_values():
    x = tapegrad.constant([1.0])

    assert np.result_type(x, np.float16) == np.float32
    assert np.can_cast(x, "float64")


def test_a_tensor_has_no_strides():
    x = tapegrad.constant([1.0])

    assert not hasattr(x, "strides")
    with pytest.raises(AttributeError, match=r"Take x.numpy\(\) first"):
        _ = x.strides


def test_arrays_beside_what_is_no_number_broadcast():
    x, none = np.broadcast_arrays(tapegrad.constant([1.0, 2.0]), None)

    assert (x.shape, none.tolist()) == ((2,), [None, None])
