"""Keras optimizers that update all variables of a group in one call of the backend."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.keras import optimizers
from tests import capabilities

MAKERS = {
    "adadelta": lambda **o: optimizers.Adadelta(0.5, rho=0.8, epsilon=1e-3, **o),
    "adagrad": lambda **o: optimizers.Adagrad(0.1, **o),
    "adam": lambda **o: optimizers.Adam(0.1, **o),
    "adamax": lambda **o: optimizers.Adamax(0.1, **o),
    "ftrl": lambda **o: optimizers.Ftrl(0.1, l1_regularization_strength=0.1, **o),
    "ftrl-power": lambda **o: optimizers.Ftrl(0.1, learning_rate_power=-0.7, beta=0.3, **o),
    "lion": lambda **o: optimizers.Lion(0.1, **o),
    "nadam": lambda **o: optimizers.Nadam(0.1, **o),
}
OPTIONS = [
    {},
    {"weight_decay": 0.2},
    {"use_ema": True, "ema_momentum": 0.75},
    {"global_clipnorm": 0.5, "use_ema": True, "ema_overwrite_frequency": 3},
    {"clipvalue": 0.1},
]
READING_STEP = ("adam_update", "adamax_update")
SHAPES = ((2, 3), (), (4,))


class Together:
    """A group kernel on NumPy's arrays that goes through the variables one by one."""

    def __init__(self, name, variables, averaged):
        self.name, self.variables, self.averaged = name, variables, averaged

    def __call__(
        self, arrays, gradients, rate, count, params, *, amount, decayed, share, factor, further=()
    ):
        n = self.variables
        numbers = [rate, count] if self.name in READING_STEP else [rate, *further]
        new = list(arrays)
        for k, g in enumerate(gradients):
            p, *slots = arrays[k::n]
            average = [slots.pop()] if self.averaged else []
            if k < decayed:
                (p,) = kernel("decay_update")(p, rate, amount=amount)
            g = g if factor is None else g * factor
            moved = kernel(self.name)(p, g, *numbers, *slots, **params)
            for old in average:
                average = kernel("average_update")(old, moved[0], count, share=share)
            new[k::n] = [*moved, *average]
        return new

    def factor(self, gradients, limit):
        return min(1.0, limit / np.sqrt(sum((g * g).sum() for g in gradients)))


def kernel(name):
    return PRIMITIVES[name].kernel(np.ndarray)


@pytest.fixture(autouse=True)
def on_the_cpu():
    with tf.device("cpu"):
        yield


@pytest.fixture
def calls(monkeypatch):
    """The number of variables in each call of a group, while NumPy has such a kernel."""
    sizes = []

    class Counted(Together):
        def __call__(self, arrays, *rest, **options):
            sizes.append(self.variables)
            return super().__call__(arrays, *rest, **options)

    def make(name, arrays, variables, averaged):
        return Counted(name, variables, averaged)

    capabilities.use(monkeypatch, updates=capabilities.grouped_updates(make))
    return sizes


def values(seed):
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.normal(size=shape)) for shape in SHAPES]


def trained(make, steps=4):
    variables = [tf.Variable(value) for value in values(0)]
    optimizer = make()
    optimizer.exclude_from_weight_decay(variables[:2])
    for number in range(steps):
        gradients = [tf.constant(g) for g in values(number + 1)]
        optimizer.apply_gradients(list(zip(gradients, variables)))
    return [v.numpy() for v in [*variables, *optimizer.variables]]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", MAKERS)
def test_a_step_of_all_variables_is_one_call(name, options, calls, monkeypatch):
    together = trained(lambda: MAKERS[name](**options))
    assert calls == [3] * 4

    capabilities.use(monkeypatch, updates=None)
    apart = trained(lambda: MAKERS[name](**options))

    for actual, wanted in zip(together, apart, strict=True):
        np.testing.assert_allclose(actual, wanted, 1e-12)


def test_averages_that_were_built_before_the_first_step_start_there(calls):
    w = tf.Variable(1.0)
    optimizer = optimizers.SGD(0.5, use_ema=True, ema_momentum=0.9)
    optimizer.build([w])

    optimizer.apply_gradients([(1.0, w)])
    optimizer.swap_in_averages()

    assert (float(w), calls) == (0.5, [1])


def test_nadam_multiplies_the_momenta_of_its_steps():
    w = tf.Variable([1.0, 2.0])
    optimizer = optimizers.Nadam(0.1)
    step = tf.function(lambda g: optimizer.apply_gradients([(g, w)]).value())

    for apply in (step, step, lambda g: optimizer.apply_gradients([(g, w)])):
        apply(tf.constant([1.0, -1.0]))

    product = optimizer.variables[-1]
    assert product.name == "u_product:0"
    wanted = np.prod([0.9 * (1 - 0.5 * 0.96**t) for t in (1, 2, 3)])
    np.testing.assert_allclose(product.numpy(), wanted, 1e-14)


def test_a_complex_variable_is_refused_before_anything_changes():
    w, z = tf.Variable(1.0), tf.Variable(1j, dtype="complex64")
    optimizer = optimizers.Nadam(0.1)

    with pytest.raises(TypeError, match=r"Nadam takes real variables.*use SGD"):
        optimizer.apply_gradients([(1.0, w), (tf.constant(1j, "complex64"), z)])

    assert (float(w), int(optimizer.iterations), float(optimizer.variables[-1])) == (1.0, 0, 1.0)
