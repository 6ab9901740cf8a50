"""Optimizers by name and from configurations, copies, and error messages."""

from __future__ import annotations

import copy
import inspect
import json
import pickle

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.keras import optimizers
from tapegrad.keras.optimizers import LossScaleOptimizer, schedules


def new_variables():
    rng = np.random.default_rng(0)
    return [tf.Variable(rng.normal(size=shape), name="w") for shape in ((4, 3), (3,), ())]


def make_step(optimizer, variables, seed):
    rng = np.random.default_rng(seed)
    gradients = [tf.constant(rng.normal(size=variable.shape)) for variable in variables]
    optimizer.apply_gradients(zip(gradients, variables))


EVERY = {
    "adadelta": lambda: optimizers.Adadelta(0.1, rho=0.5, weight_decay=0.1),
    "adamax": lambda: optimizers.Adamax(schedules.ExponentialDecay(0.1, 3, 0.5), beta_1=0.5),
    "nadam": lambda: optimizers.Nadam(0.1, beta_2=0.5, gradient_accumulation_steps=2),
    "ftrl": lambda: optimizers.Ftrl(0.1, -0.7, 0.2, 0.05, 0.1, 0.03, 0.4),
    "lion": lambda: optimizers.Lion(0.1, beta_2=0.5, name="pride"),
    "lamb": lambda: optimizers.Lamb(0.1, epsilon=0.5),
    "adafactor": lambda: optimizers.Adafactor(0.1, clip_threshold=0.5, epsilon_2=0.5),
    "muon": lambda: optimizers.Muon(0.1, nesterov=False, ns_steps=2, exclude_layers=["last"]),
    "sgd": lambda: optimizers.SGD(0.1, momentum=0.5, nesterov=True, clipnorm=1.0),
    "adam": lambda: optimizers.Adam(schedules.CosineDecay(0.1, 10), amsgrad=True),
    "adamw": lambda: optimizers.AdamW(0.1, weight_decay=0.5, use_ema=True, ema_momentum=0.5),
    "rmsprop": lambda: optimizers.RMSprop(0.1, centered=True, global_clipnorm=1.0),
    "adagrad": lambda: optimizers.Adagrad(0.1, clipvalue=0.5, loss_scale_factor=2.0),
    "scaled": lambda: LossScaleOptimizer(optimizers.Adam(0.1), 8.0, 7),
    "plain": lambda: tf.optimizers.RMSprop(0.1, rho=0.5, momentum=0.5, weight_decay=0.1),
}


@pytest.mark.parametrize("name", EVERY)
def test_an_optimizer_made_from_a_configuration_makes_the_same_steps(name):
    optimizer, one, other = EVERY[name](), new_variables(), new_variables()

    config = json.loads(json.dumps(optimizers.serialize(optimizer)))
    twin = optimizers.deserialize(config)
    for seed in range(3):
        make_step(optimizer, one, seed)
        make_step(twin, other, seed)

    for a, b in zip(one, other):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize(
    "name", [n for n in optimizers.__all__ if n[0].isupper() and "Opt" not in n]
)
def test_every_optimizer_is_found_by_its_name(name):
    kind = getattr(optimizers, name)

    assert type(optimizers.get(name)) is kind
    assert type(optimizers.get(name.lower())) is kind
    assert type(optimizers.get(kind)) is kind
    assert isinstance(optimizers.get({"class_name": name, "config": {}}), tf.optimizers.Optimizer)


def test_objects_and_none_stay_what_they_are():
    plain = tf.optimizers.Adam()

    assert optimizers.get(plain) is plain
    assert optimizers.get(None) is None


def test_signatures_list_the_shared_options():
    parameters = inspect.signature(optimizers.Lion).parameters

    assert {name: p.default for name, p in parameters.items()} == {
        "learning_rate": 0.001,
        "beta_1": 0.9,
        "beta_2": 0.99,
        "weight_decay": None,
        "clipnorm": None,
        "clipvalue": None,
        "global_clipnorm": None,
        "use_ema": False,
        "ema_momentum": 0.99,
        "ema_overwrite_frequency": None,
        "loss_scale_factor": None,
        "gradient_accumulation_steps": None,
        "name": None,
    }
    assert set(optimizers.Lion().get_config()) == set(parameters)


def test_a_class_of_ones_own_is_configured_by_its_arguments():
    class Scaled(optimizers.Optimizer):
        def __init__(self, learning_rate=0.5, factor=2.0):
            super().__init__(learning_rate)
            self.factor = factor

    config = optimizers.serialize(Scaled(factor=3.0))

    assert config == {"class_name": "Scaled", "config": {"learning_rate": 0.5, "factor": 3.0}}
    assert optimizers.deserialize(config, {"Scaled": Scaled}).factor == 3.0


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_a_copy_is_like_the_original(twin_of):
    optimizer = optimizers.Adafactor(0.5, epsilon_2=0.25)

    twin = twin_of(optimizer)

    assert twin.get_config() == optimizer.get_config()


def test_weights_are_taken_over_by_set_weights():
    one, other = new_variables(), new_variables()
    optimizer, twin = optimizers.Nadam(0.1), optimizers.Nadam(0.1)
    make_step(optimizer, one, seed=1)
    make_step(optimizers.Nadam(0.1), other, seed=1)
    twin.build(other)

    twin.set_weights([place.numpy() for place in optimizer.variables])
    make_step(optimizer, one, seed=2)
    make_step(twin, other, seed=2)

    for a, b in zip(one, other):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


# Words


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optimizers.get("adm"), r"no optimizer 'adm'\. Did you mean 'adam'"),
        (lambda: optimizers.get(3), r"be a name, a configuration or an Optimizer\. Got int: 3\."),
        (lambda: optimizers.serialize("adam"), r"takes an optimizer\. Got str\."),
        (lambda: optimizers.Adadelta(rho=2.0), r"rho must be between 0 and 1\. Got 2\.0\."),
        (lambda: optimizers.Lion(beta_1=0.0), r"beta_1 must be above 0 and at most 1\. Got 0\.0"),
        (lambda: optimizers.Ftrl(learning_rate_power=1.0), r"must not be > 0\. Got 1\.0\."),
        (lambda: optimizers.Ftrl(l1_regularization_strength=-1.0), r"l1_.* not be negative"),
        (lambda: optimizers.AdamW(weight_decay=None), r"use Adam for none"),
        (lambda: optimizers.Adam(gradient_accumulation_steps=1), r"at least 2\. Got 1\."),
        (lambda: optimizers.Adam(ema_overwrite_frequency=0), r"at least 1\. Got 0\."),
        (lambda: optimizers.Adam(use_ema=True, ema_momentum=2.0), r"ema_momentum must be between"),
        (lambda: optimizers.Adam().minimize(tf.constant(1.0), []), r"together with tape="),
        (lambda: optimizers.Adam().set_weights([]), r"has 2 variables\. Got 0 values; call build"),
        (lambda: optimizers.Lion().build([tf.Variable(1j)]), r"Lion takes real variables"),
        (
            lambda: optimizers.Adam.from_config(optimizers.Adam(abs).get_config()),
            r"is the function 'abs', which cannot be found by its name",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_words(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
