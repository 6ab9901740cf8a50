"""Assertions about dtypes, ranks and shapes, and the TestCase for unittest."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError

check = tf.debugging


@pytest.mark.parametrize(
    ("use", "error", "words"),
    [
        (lambda: check.assert_integer([1.5]), ArgumentTypeError, "integers. Got float32"),
        (lambda: check.assert_type([1], "float32"), ArgumentTypeError, "of float32. Got int32"),
        (lambda: check.assert_scalar([1.0]), ShapeError, r"a scalar. Got .* \(1,\)"),
        (lambda: check.assert_rank_at_least([1.0], 2), ShapeError, "at least 2 axes"),
        (lambda: check.assert_rank_in([1.0], (2, 3)), ShapeError, r"a rank in \[2, 3\]"),
        (lambda: check.assert_negative([-1.0, 2.0]), ArgumentError, "requires x < 0"),
        (lambda: check.assert_non_positive([1.0], "sum"), ArgumentError, "sum. The assertion"),
        (lambda: check.assert_proper_iterable("ab"), ArgumentTypeError, "a list or a tuple"),
        (lambda: check.assert_proper_iterable(3), ArgumentTypeError, "an iterable. Got int"),
        (
            lambda: check.assert_same_float_dtype([tf.constant(1.0), tf.constant(1)]),
            ArgumentError,
            r"one dtype of floats. Got \['float32', 'int32'\]",
        ),
    ],
)
def test_an_assertion_that_fails_says_what_it_got(use, error, words):
    with pytest.raises(error, match=words):
        use()


def test_equal_symbols_are_equal_sizes():
    x, y = np.zeros((4, 3)), np.zeros((5, 4, 3))

    check.assert_shapes([(x, ("N", "D")), (y, (..., "N", "D")), (y, (5, None, 3)), (x, "ND")])
    with pytest.raises(ShapeError, match=r"'D' = 4. Got \(5, 4, 3\)"):
        check.assert_shapes([(x, ("D", None)), (y, (5, 4, "D"))])
    with pytest.raises(ShapeError, match=r"Expected a shape of \('N',\). Got \(4, 3\)"):
        check.assert_shapes([(x, ("N",))])


def test_an_ellipsis_stands_for_any_number_of_axes():
    x = np.zeros((2, 3, 4, 5))

    for wanted in [("A", ..., 5), (2, 3, ..., 4, 5), (2, 3, 4, 5, ...), (2, ..., "B", 4, 5)]:
        check.assert_shapes([(x, wanted)])
    for wanted in [(2, ..., 4), (3, ..., 5), (2, 3, ..., 3, 4, 5)]:
        with pytest.raises(ShapeError, match=r"Got \(2, 3, 4, 5\)"):
            check.assert_shapes([(x, wanted)])


def test_a_test_case_compares_tensors():
    case = tf.test.TestCase()

    case.assertAllClose({"a": tf.constant([1.0]), "b": [2.0]}, {"a": [1.0], "b": (2.0,)})
    case.assertAllEqual(tf.constant([1, 2]), np.array([1, 2]))
    case.assertAllGreater(tf.constant([1.0]), 0.5)
    case.assertAllInSet([1, 1, 2], {1, 2})
    case.assertDTypeEqual(tf.constant(1.0), tf.float32)
    case.assertNotAllClose([1.0], [1.1])
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        case.assertAllClose(tf.constant([1.0]), [1.1])
    with pytest.raises(AssertionError, match=r"\{2\} is not in"):
        case.assertAllInSet([1, 2], {1})
    with case.session():
        assert case.evaluate([tf.constant(3.0)]) == [3.0]


def test_the_numbers_of_errors_are_those_of_tensorflow():
    assert (tf.errors.OK, tf.errors.INVALID_ARGUMENT, tf.errors.UNAUTHENTICATED) == (0, 3, 16)


def test_switches_of_keras_remember_their_settings():
    config = tf.keras.config
    config.disable_interactive_logging()
    assert not tf.keras.utils.is_interactive_logging_enabled()
    config.enable_interactive_logging()
    assert config.is_interactive_logging_enabled()
    with pytest.raises(ArgumentError, match="epsilon is always 1e-07"):
        config.set_epsilon(1e-3)
