"""keras.random: seeds as in Keras, and distributions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import tapegrad as tg
from tapegrad import keras
from tapegrad.keras import random

DRAWS = {
    "normal": (lambda seed: random.normal((4000,), 1.0, 2.0, seed=seed), stats.norm(1, 2)),
    "truncated_normal": (lambda seed: random.truncated_normal((4000,), seed=seed),
                         stats.truncnorm(-2, 2)),
    "uniform": (lambda seed: random.uniform((4000,), -1.0, 3.0, seed=seed), stats.uniform(-1, 4)),
    "gamma": (lambda seed: random.gamma((4000,), 2.5, seed=seed), stats.gamma(2.5)),
    "beta": (lambda seed: random.beta((4000,), 2.0, 3.0, seed=seed), stats.beta(2, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWS)
def test_draws_follow_their_distribution(name):
    draw, distribution = DRAWS[name]

    assert stats.kstest(draw(3).numpy().astype(np.float64), distribution.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", DRAWS)
def test_whole_numbers_repeat_and_generators_go_on(name):
    draw, _ = DRAWS[name]
    one, other = random.SeedGenerator(3), random.SeedGenerator(3)
    first, second = draw(one).numpy(), draw(one).numpy()

    np.testing.assert_array_equal(draw(3).numpy(), draw(3).numpy())
    assert (draw(3).numpy() != draw(4).numpy()).any()
    assert (first != second).any()
    np.testing.assert_array_equal(first, draw(other).numpy())
    assert (draw(None).numpy() != draw(None).numpy()).any()


def test_the_global_seed_decides_where_there_is_none():
    found = []
    for _ in range(2):
        keras.utils.set_random_seed(7)
        found.append(random.normal((5,)).tolist())

    assert found[0] == found[1]


def test_whole_numbers_and_classes():
    numbers = random.randint((1000,), -2, 3, seed=1)
    classes = random.categorical([[0.0, np.log(3.0), -np.inf]], 4000, seed=1).numpy()

    assert (set(numbers.tolist()), numbers.dtype.name) == ({-2, -1, 0, 1, 2}, "int32")
    assert classes.shape == (1, 4000)
    assert not (classes == 2).any()
    assert abs((classes == 1).mean() - 0.75) < 0.03


@pytest.mark.parametrize("axis", [0, 1])
def test_shuffle_moves_what_lies_along_an_axis(axis):
    x = np.arange(24).reshape(4, 6)
    y = random.shuffle(x, axis=axis, seed=2).numpy()

    np.testing.assert_array_equal(np.sort(y, axis=axis), x)
    places = y[:, 0] // 6 if axis == 0 else y[0]
    np.testing.assert_array_equal(y, np.take(x, places, axis=axis))
    assert (y != x).any()


def test_dropout_keeps_the_mean():
    y = random.dropout(np.ones((200, 3), np.float32), 0.25, seed=1).numpy()
    rows = random.dropout(np.ones((200, 3), np.float32), 0.25, (200, 1), seed=1).numpy()

    assert set(np.unique(y).tolist()) == {0.0, np.float32(4 / 3).item()}
    assert abs((y == 0).mean() - 0.25) < 0.06
    assert (rows == rows[:, :1]).all()


class Noise(keras.layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = random.SeedGenerator(1)

    def call(self, inputs):
        return inputs + random.normal(keras.ops.shape(inputs), seed=self.seed_generator)


def test_checkpoints_hold_where_a_generator_stands(tmp_path):
    layer = Noise()
    model = keras.Sequential([layer, keras.layers.Dense(1)])
    x = np.zeros((2, 3), np.float32)
    model(x)
    checkpoint = tg.train.Checkpoint(model=model)
    path = checkpoint.save(tmp_path / "noise")
    expected = layer(x).numpy()
    later = layer(x).numpy()
    checkpoint.restore(path)

    np.testing.assert_array_equal(layer(x).numpy(), expected)
    assert (later != expected).any()


def test_generators_without_a_seed_differ():
    one, other = random.SeedGenerator(), random.SeedGenerator(name="mine")

    assert random.normal((3,), seed=one).tolist() != random.normal((3,), seed=other).tolist()
    assert (one.name, other.name) == ("seed_generator", "mine")
    assert one.next().shape == (2,)
    assert one.next().tolist() != one.next().tolist()
