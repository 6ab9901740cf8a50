"""Learning rate schedules against their formulas in float64, eagerly and inside functions."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.keras.optimizers import SGD, schedules

STEPS = 100


# Each formula gives the rate of one step, with Python's numbers only.


def polynomial(step, cycle=False, power=2.0):
    length = 13 * max(1, math.ceil(step / 13)) if cycle else 13
    return (0.1 - 0.01) * (1 - min(step, length) / length) ** power + 0.01


def piecewise(step):
    return next(v for b, v in [(5, 1.0), (20, 0.5), (33, 0.25), (math.inf, 0.1)] if step <= b)


def cosine(step):
    return 0.1 * (0.9 * 0.5 * (1 + math.cos(math.pi * min(step, 30) / 30)) + 0.1)


def warm_cosine(step):
    if step < 10:
        return 0.01 + (0.2 - 0.01) * step / 10
    return 0.2 * (0.9 * 0.5 * (1 + math.cos(math.pi * min(step - 10, 30) / 30)) + 0.1)


def restarts(step, first, t_mul, m_mul, alpha):
    """Walk through the periods one by one, which needs no logarithm."""
    length, height = float(first), 1.0
    while step >= length:
        step, length, height = step - length, length * t_mul, height * m_mul
    wave = height * 0.5 * (1 + math.cos(math.pi * step / length))
    return 0.1 * ((1 - alpha) * wave + alpha)


SCHEDULES = {
    "exponential": (schedules.ExponentialDecay(0.1, 7, 0.7), lambda s: 0.1 * 0.7 ** (s / 7)),
    "exponential-stairs": (
        schedules.ExponentialDecay(0.1, 7, 0.7, staircase=True),
        lambda s: 0.1 * 0.7 ** (s // 7),
    ),
    "piecewise": (schedules.PiecewiseConstantDecay([5, 20, 33], [1.0, 0.5, 0.25, 0.1]), piecewise),
    "polynomial": (schedules.PolynomialDecay(0.1, 13, 0.01, 2.0), polynomial),
    "polynomial-cycle": (
        schedules.PolynomialDecay(0.1, 13, 0.01, 0.5, cycle=True),
        lambda s: polynomial(s, cycle=True, power=0.5),
    ),
    "inverse": (schedules.InverseTimeDecay(0.1, 9, 0.5), lambda s: 0.1 / (1 + 0.5 * s / 9)),
    "inverse-stairs": (
        schedules.InverseTimeDecay(0.1, 9, 0.5, staircase=True),
        lambda s: 0.1 / (1 + 0.5 * (s // 9)),
    ),
    "cosine": (schedules.CosineDecay(0.1, 30, 0.1), cosine),
    "cosine-warm": (
        schedules.CosineDecay(0.01, 30, 0.1, warmup_target=0.2, warmup_steps=10),
        warm_cosine,
    ),
    "cosine-target-without-steps": (
        schedules.CosineDecay(0.01, 30, 0.1, warmup_target=0.1),
        cosine,
    ),
    "restarts": (
        schedules.CosineDecayRestarts(0.1, 7),
        lambda s: restarts(s, 7, 2.0, 1.0, 0.0),
    ),
    "restarts-of-one-length": (
        schedules.CosineDecayRestarts(0.1, 7, 1.0, 0.8, 0.1),
        lambda s: restarts(s, 7, 1.0, 0.8, 0.1),
    ),
    "restarts-by-half": (
        schedules.CosineDecayRestarts(0.1, 8, 1.5, 0.9, 0.2),
        lambda s: restarts(s, 8, 1.5, 0.9, 0.2),
    ),
}
every_schedule = pytest.mark.parametrize("name", SCHEDULES)


def expected(name):
    return np.array([SCHEDULES[name][1](step) for step in range(STEPS)])


@every_schedule
def test_the_rate_of_every_step_follows_the_formula(name):
    schedule = SCHEDULES[name][0]

    rates = [schedule(step) for step in range(STEPS)]

    assert {rate.dtype for rate in rates} == {tf.float32}
    np.testing.assert_allclose([float(rate) for rate in rates], expected(name), 1e-6, 1e-9)


@every_schedule
def test_a_function_is_recorded_once_for_all_steps(name):
    schedule, calls = SCHEDULES[name][0], []
    count = tf.Variable(0, dtype="int64", trainable=False)

    @tf.function
    def rate():
        calls.append(1)
        value = schedule(count)
        count.assign_add(1)
        return value

    rates = [float(rate()) for _ in range(STEPS)]

    np.testing.assert_allclose(rates, expected(name), 1e-6, 1e-9)
    assert len(calls) == 1


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
@every_schedule
def test_nothing_is_read_from_the_device(name):
    register_backend(strict.StrictBackend())
    try:
        with tf.device("strict:0"):
            count = tf.Variable(17, dtype="int64", trainable=False)
            with strict.forbidding_reads():
                rate = SCHEDULES[name][0](count)
            assert rate.device == "strict:0"
            assert float(rate) == pytest.approx(expected(name)[17], 1e-6)
    finally:
        unregister_backend("strict")


@pytest.mark.parametrize("t_mul", [2.0, 3.0, 5.0, 10.0])
def test_each_restart_comes_at_its_step(t_mul):
    schedule = schedules.CosineDecayRestarts(1.0, 7, t_mul)
    starts = [7 * sum(t_mul**n for n in range(period)) for period in range(1, 6)]

    rates = [float(schedule(int(step))) for step in starts]

    assert rates == [1.0] * 5


def test_steps_beyond_single_precision_are_told_apart():
    schedule = schedules.PiecewiseConstantDecay([2**24], [1.0, 0.5])

    assert (float(schedule(2**24)), float(schedule(2**24 + 1))) == (1.0, 0.5)


def test_an_optimizer_reads_the_schedule_before_it_counts_the_step():
    w = tf.Variable(0.0)
    optimizer = SGD(schedules.PiecewiseConstantDecay([0, 1], [1.0, 10.0, 100.0]))

    values = []
    for _ in range(3):
        optimizer.apply_gradients([(-1.0, w)])
        values.append(float(w))

    assert values == [1.0, 11.0, 111.0]


@every_schedule
def test_a_configuration_survives_json(name):
    schedule = SCHEDULES[name][0]

    config = json.loads(json.dumps(schedules.serialize(schedule)))
    twin = schedules.deserialize(config)

    assert type(twin) is type(schedule)
    assert twin.get_config() == schedule.get_config()
    assert float(twin(17)) == float(schedule(17))


def test_the_configuration_has_the_names_of_the_arguments():
    config = schedules.CosineDecayRestarts(0.1, 7, m_mul=0.5).get_config()

    assert config == {
        "initial_learning_rate": 0.1,
        "first_decay_steps": 7,
        "t_mul": 2.0,
        "m_mul": 0.5,
        "alpha": 0.0,
        "name": "SGDRDecay",
    }


def test_a_class_of_ones_own_is_found_among_custom_objects():
    class Constant(schedules.LearningRateSchedule):
        def __init__(self, value):
            self.value = value

        def __call__(self, step):
            return self.value

    config = schedules.serialize(Constant(0.5))

    assert schedules.deserialize(config, {"Constant": Constant})(3) == 0.5


@pytest.mark.parametrize(
    "make",
    [
        lambda: schedules.ExponentialDecay(0.1, 0, 0.5),
        lambda: schedules.PolynomialDecay(0.1, -1),
        lambda: schedules.InverseTimeDecay(0.1, 0, 0.5),
        lambda: schedules.CosineDecay(0.1, 0),
        lambda: schedules.CosineDecayRestarts(0.1, 0),
    ],
)
def test_a_decay_without_steps_is_refused(make):
    with pytest.raises(ValueError, match=r"decay_steps must be positive\. Got (0|-1)\."):
        make()


def test_boundaries_that_do_not_fit_the_values_are_refused():
    with pytest.raises(ValueError, match=r"one more value .* Got 2 boundaries and 2 values\."):
        schedules.PiecewiseConstantDecay([1, 2], [0.1, 0.2])


def test_a_schedule_without_a_call_says_so():
    with pytest.raises(NotImplementedError, match=r"LearningRateSchedule must define __call__"):
        schedules.LearningRateSchedule()(0)


def test_an_unknown_schedule_names_those_there_are():
    with pytest.raises(ValueError, match=r"no learning rate schedule 'Cosine'.*CosineDecay"):
        schedules.deserialize({"class_name": "Cosine", "config": {}})


def test_only_schedules_are_serialized():
    with pytest.raises(TypeError, match=r"takes a LearningRateSchedule\. Got float\."):
        schedules.serialize(0.1)
