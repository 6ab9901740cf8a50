"""tf.train.ExponentialMovingAverage: values, decays, tensors, functions and names."""

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.train import ExponentialMovingAverage


def test_averages_begin_with_the_value_and_decay():
    w = tf.Variable([1.0, 2.0], dtype="float64")
    averages, expected = ExponentialMovingAverage(0.75), np.array([1.0, 2.0])
    averages.apply([w])

    for step in range(4):
        w.assign_add([1.0, -step])
        averages.apply([w])
        expected = 0.75 * expected + 0.25 * w.numpy()

    np.testing.assert_allclose(averages.average(w), expected)
    assert not averages.average(w).trainable


def test_the_number_of_updates_limits_the_decay():
    w, number = tf.Variable(0.0), tf.Variable(0)
    averages = ExponentialMovingAverage(0.5, num_updates=number)
    averages.apply([w])
    w.assign(1.0)

    averages.apply([w])  # (1 + 0) / (10 + 0)
    first = float(averages.average(w))
    number.assign(1000)
    averages.apply([w])

    assert first == pytest.approx(0.9)
    assert float(averages.average(w)) == pytest.approx(0.95)


@pytest.mark.parametrize("zero_debias", [False, True])
def test_averages_of_tensors_begin_with_zeros(zero_debias):
    x = tf.constant([3.0, 5.0])
    averages = ExponentialMovingAverage(0.9, zero_debias=zero_debias)

    for _ in range(2):
        averages.apply([x])

    weight = 1.0 if zero_debias else 1 - 0.9**2
    np.testing.assert_allclose(averages.average(x), weight * x.numpy(), rtol=1e-6)


def test_averages_move_in_a_function():
    w, averages = tf.Variable(0.0), ExponentialMovingAverage(0.5)

    @tf.function
    def step(x):
        w.assign(x)
        averages.apply([w])

    for x in (2.0, 4.0, 8.0):
        step(tf.constant(x))

    # The first call makes the average, with the value that the variable has then.
    start = float(averages.average(w))
    eager, other = tf.Variable(0.0), ExponentialMovingAverage(0.5)
    other.apply([eager])
    for x in (2.0, 4.0, 8.0):
        eager.assign(x)
        other.apply([eager])
    assert start == float(other.average(eager)) == 5.25


def test_names_lead_to_the_variables():
    w, b = tf.Variable(1.0, name="w"), tf.Variable(1.0, name="b")
    averages = ExponentialMovingAverage(0.9, name="slow")
    averages.apply([w])

    assert averages.average_name(w) == "w/slow" == averages.average(w).name.removesuffix(":0")
    assert averages.average(b) is None
    assert {*averages.variables_to_restore()} == {"w/slow"}
    assert averages.variables_to_restore([w, b])["b/slow"] is b


def test_what_has_no_average_is_refused():
    averages = ExponentialMovingAverage(0.9)
    with pytest.raises(ArgumentError, match=r"pass a list, such as model.trainable_variables"):
        averages.apply()
    with pytest.raises(ArgumentTypeError, match=r"Got a value of dtype int32"):
        averages.apply([tf.Variable(1)])
    with pytest.raises(ArgumentTypeError, match=r"apply takes variables and tensors. Got float"):
        averages.apply([1.0])
    with pytest.raises(ArgumentError, match=r"decay must be a real number"):
        ExponentialMovingAverage([0.9, 0.8])
