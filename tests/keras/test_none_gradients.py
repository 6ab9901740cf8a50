"""Variables without gradients: one warning, or an error if no variable has a gradient."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.errors import ArgumentError

X, Y = np.ones((8, 3), "float32"), np.ones((8, 1), "float32")


class Partly(keras.Model):
    """A model with a layer that its output does not depend on."""

    def __init__(self, is_cut: bool = False) -> None:
        super().__init__()
        self.used = keras.layers.Dense(1, name="used")
        self.unused = keras.layers.Dense(1, name="unused")
        self.is_cut = is_cut

    def call(self, inputs: Any) -> Any:
        self.unused(inputs)
        output = self.used(inputs)
        return tf.stop_gradient(output) if self.is_cut else output


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "of tapegrad": lambda: tf.optimizers.SGD(0.1),
    "of keras": lambda: keras.optimizers.SGD(0.1),
    "with scaled losses": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)),
    "with summed gradients": lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2),
}


def warned(act: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("run_eagerly", [False, True])
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_fit_warns_once_by_path_and_trains_the_others(
    optimizer: Any, steps: int, run_eagerly: bool
) -> None:
    model = Partly()
    model.compile(optimizer(), "mse", run_eagerly=run_eagerly, steps_per_execution=steps)
    model(X)
    before = [variable.numpy() for variable in model.variables]

    said = warned(lambda: model.fit(X, Y, batch_size=4, epochs=2, verbose=0))

    assert len(said) == 1
    assert "'unused/kernel', 'unused/bias'" in said[0]
    assert "'used/kernel'" not in said[0]
    changed = [not np.array_equal(a, v.numpy()) for a, v in zip(before, model.variables)]
    assert changed == [True, True, False, False]


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_fit_without_any_gradient_is_an_error_that_names_the_variables(run_eagerly: bool) -> None:
    model = Partly(is_cut=True)
    model.compile("sgd", "mse", run_eagerly=run_eagerly)

    with pytest.raises(ArgumentError, match=r"depends on none of the trainable .* 'used/kernel'"):
        model.fit(X, Y, verbose=0)


@pytest.mark.parametrize("is_recorded", [False, True])
@pytest.mark.parametrize("way", ["apply_gradients", "minimize", "minimize with a tape"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_step_by_hand_warns_of_missing_gradients(
    optimizer: Any, way: str, is_recorded: bool
) -> None:
    first, second = tf.Variable(1.0, name="first"), tf.Variable(2.0, name="second")
    rule = optimizer()

    def step() -> None:
        if way == "minimize":
            rule.minimize(lambda: first * first, [first, second])
            return
        with tf.GradientTape() as tape:
            loss = first * first
        if way == "apply_gradients":
            gradients = tape.gradient(loss, [first, second])
            rule.apply_gradients(zip(gradients, [first, second]))
        else:
            rule.minimize(loss, [first, second], tape=tape)

    run = tf.function(step) if is_recorded else step
    said = warned(run) + (warned(run) if is_recorded else [])

    assert len(said) == 1
    assert "second:0" in said[0]
    assert "first:0" not in said[0]
    assert float(second) == 2.0


@pytest.mark.parametrize("is_recorded", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_step_by_hand_without_any_gradient_is_an_error(optimizer: Any, is_recorded: bool) -> None:
    first, second = tf.Variable(1.0, name="first"), tf.Variable(2.0, name="second")
    rule = optimizer()

    def step() -> None:
        rule.minimize(lambda: tf.constant(1.0), [first, second])

    with pytest.raises(ArgumentError, match=r"No gradients provided .* first:0, second:0"):
        (tf.function(step) if is_recorded else step)()
