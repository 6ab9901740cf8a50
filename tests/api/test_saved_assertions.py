"""Functions with assertions are saved, and assert after loading."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tf
from tests.api.checked_functions import checked


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    tf.saved_model.save(checked(), str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([1.0, -2.0], "roots of positive numbers only. .* requires x > 0. 1 of 2 elements"),
        ([1.0, 7.0], "requires x within 4.0"),
        ([5.0, 5.0], "too much"),
    ],
)
def test_a_loaded_function_raises_what_the_function_raised(
    saved: Path, numbers: list[float], words: str
) -> None:
    loaded = tf.saved_model.load(str(saved))
    errors = []
    for one in (loaded, checked()):
        with pytest.raises(ValueError, match=words) as caught:
            one.root(tf.constant(numbers))
        errors.append((type(caught.value), str(caught.value).partition("; ")[0]))
    assert errors[0] == errors[1]
    np.testing.assert_array_equal(loaded.root(tf.constant([1.0, 4.0])), [1.0, 2.0])


def test_not_a_number_is_found_by_a_loaded_function(saved: Path) -> None:
    loaded = tf.saved_model.load(str(saved))
    with pytest.raises(ArithmeticError, match="finite"):
        tf.debugging.check_numerics(tf.constant([np.inf]), "the input")
    with pytest.raises(ValueError, match="requires x > 0"):
        loaded.root(tf.constant([np.nan]))


def test_assert_statements_in_a_branch_are_saved(saved: Path) -> None:
    loaded = tf.saved_model.load(str(saved))

    assert [float(loaded.half(tf.constant(x))) for x in (-4.0, 1.0, 3.0)] == [-2.0, 0.5, 1.5]
    with pytest.raises(AssertionError, match="x is large"):
        loaded.half(tf.constant(6.0))
    with pytest.raises(AssertionError, match=r"1\.5"):
        loaded.half(tf.constant(1.5))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"positive"', '"__import__"', "has the test '__import__'"),
        ('"message": {"list": ["x is large"]}', '"message": 3', "has the message 3"),
    ],
)
def test_a_damaged_assertion_is_refused(saved: Path, old: str, new: str, words: str) -> None:
    damaged = 0
    for path in saved.rglob("*.json"):
        text = json.dumps(json.loads(path.read_text()))
        damaged += old in text
        path.write_text(text.replace(old, new))
    assert damaged
    with pytest.raises(ValueError, match=words):
        use(saved)


def use(saved: Path) -> None:
    loaded = tf.saved_model.load(str(saved))
    loaded.root(tf.constant([1.0]))
    loaded.half(tf.constant(1.0))
