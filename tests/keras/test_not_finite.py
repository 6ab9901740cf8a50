"""TerminateOnNaN: finding the layer that causes values that are not finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.keras import Input, Model, Sequential
from tapegrad.keras.callbacks import TerminateOnNaN
from tapegrad.keras.layers import Dense, Lambda, Layer
from tapegrad.keras.optimizers import SGD, Adam

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3)).astype("float32")
Y = RNG.normal(size=(20, 1)).astype("float32")


def trained(model: Any, x: Any = X, y: Any = Y, **options: Any) -> Any:
    """The callback after a training in batches of 5, in order."""
    callback = TerminateOnNaN(**options.pop("callback", {}))
    epochs = options.pop("epochs", 3)
    model.compile(options.pop("optimizer", SGD(0.01)), options.pop("loss", "mse"), **options)
    with np.errstate(all="ignore"):
        fitting = {"batch_size": 5, "epochs": epochs, "shuffle": False, "verbose": 0}
        history = model.fit(x, y, callbacks=[callback], **fitting)
    assert history.epoch == [0] or epochs > 3
    return callback


def first() -> Any:
    return Dense(4, name="first")


def last() -> Any:
    return Dense(1, name="last")


def logarithm() -> Any:
    """A layer whose output is -inf."""
    return Lambda(lambda x: tf.math.log(tf.abs(x) * 0.0), name="logarithm")


def root() -> Any:
    """A layer whose output is 0 and whose gradient is NaN."""
    return Lambda(lambda x: tf.sqrt(x * x * 0.0), name="root")


def stack(middle: Any) -> Any:
    return Sequential([first(), middle, last()])


def graph(middle: Any) -> Any:
    x = Input((3,))
    hidden = first()(x)
    return Model(x, last()(hidden + middle(hidden)))


def nested(middle: Any) -> Any:
    return Sequential([first(), Sequential([Dense(4, name="inner"), middle]), last()])


class Subclass(Model):
    def __init__(self, middle: Any) -> None:
        super().__init__(name="subclass")
        self.layers_of_mine = {"first": first(), "middle": middle, "last": last()}

    def call(self, inputs: Any) -> Any:
        mine = self.layers_of_mine
        return mine["last"](mine["middle"](mine["first"](inputs)))


class OwnStep(Sequential):
    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": loss}


def own_step(middle: Any) -> Any:
    return OwnStep([first(), middle, last()])


@pytest.mark.parametrize("run_eagerly", [False, True])
@pytest.mark.parametrize("make", [stack, graph, nested, Subclass, own_step])
def test_the_layer_whose_output_is_not_finite_is_named(
    make: Any, run_eagerly: bool, capsys: Any
) -> None:
    callback = trained(make(logarithm()), run_eagerly=run_eagerly)

    assert callback.origin[:2] == ("logarithm", "output")
    said = capsys.readouterr().out
    assert said.startswith("Batch 0: the loss is ")
    assert "The cause is the output of layer 'logarithm' (Lambda)" in said


@pytest.mark.parametrize("run_eagerly", [False, True])
@pytest.mark.parametrize("make", [stack, graph, nested, Subclass])
def test_the_layer_whose_gradient_is_not_finite_is_named(make: Any, run_eagerly: bool) -> None:
    callback = trained(make(root()), run_eagerly=run_eagerly)

    assert callback.origin[:2] == ("root", "gradient")
    assert "output is finite, the gradient of its input is not" in callback.origin.sentence


def test_a_step_of_ones_own_names_the_last_layer_with_such_a_gradient() -> None:
    callback = trained(own_step(root()), optimizer=Adam())

    assert callback.origin[:2] == ("first", "gradient")
    assert "Weight 'kernel' of layer 'first' (Dense)" in callback.origin.sentence


@pytest.mark.parametrize("where", ["input", "target"])
@pytest.mark.parametrize("steps", [1, 3])
def test_data_that_is_not_finite_is_told_from_a_model(where: str, steps: int) -> None:
    x, y = X.copy(), Y.copy()
    (x if where == "input" else y)[13, 0] = np.nan

    callback = trained(stack(Dense(4)), x, y, steps_per_execution=steps, optimizer=Adam())

    assert callback.origin[:2] == (None, where)


def test_weights_that_are_not_finite_from_the_beginning_are_named() -> None:
    model = Sequential([Input((3,)), first(), last()])
    model.layers[1].kernel.assign(np.full((4, 1), np.inf, "float32"))

    callback = trained(model)

    assert callback.origin[:2] == ("last", "weight")


def test_a_diverging_training_names_the_layer_that_overflows_first() -> None:
    callback = trained(Sequential([first(), last()]), optimizer=SGD(1e20), epochs=9)

    assert callback.origin[:2] == ("last", "output")


def test_what_a_model_computes_between_its_layers_is_told_from_the_layers() -> None:
    class Between(Subclass):
        def call(self, inputs: Any) -> Any:
            hidden = self.layers_of_mine["first"](inputs)
            return self.layers_of_mine["last"](tf.math.log(tf.abs(hidden) * 0.0))

    callback = trained(Between(Dense(4)))

    assert callback.origin[:2] == ("subclass", "output")
    assert "before its layer 'last' (Dense)" in callback.origin.sentence


def test_the_loss_itself_is_told_from_the_model() -> None:
    def own(y_true: Any, y_pred: Any) -> Any:
        return tf.math.log(tf.abs(y_pred) * 0.0)

    assert trained(Sequential([first(), last()]), loss=own).origin[:2] == (None, "loss")


def test_a_loss_that_a_layer_adds_names_the_layer() -> None:
    class Penalty(Layer):
        def call(self, inputs: Any) -> Any:
            self.add_loss(tf.math.log(tf.reduce_sum(inputs) * 0.0))
            return inputs

    callback = trained(Sequential([first(), Penalty(name="penalty"), last()]))

    assert callback.origin[:2] == ("penalty", "loss")


@pytest.mark.parametrize("make", [root, logarithm])
def test_several_steps_at_once_are_gone_through_again(make: Any) -> None:
    callback = trained(stack(make()), steps_per_execution=3, optimizer=Adam())

    assert callback.origin.layer == make().name


def test_the_search_changes_neither_weights_nor_metrics() -> None:
    model = stack(root())
    seen: dict[str, Any] = {}

    class After(TerminateOnNaN):
        def _found(self) -> Any:
            before = [v.numpy() for v in (*model.variables, *model.metrics[0].variables)]
            found = super()._found()
            after = [v.numpy() for v in (*model.variables, *model.metrics[0].variables)]
            seen["pairs"] = list(zip(before, after))
            return found

    model.compile(Adam(), "mse")
    with np.errstate(all="ignore"):
        model.fit(X, Y, batch_size=5, verbose=0, callbacks=[After()])

    assert seen["pairs"]
    for before, after in seen["pairs"]:
        np.testing.assert_array_equal(before, after)


def test_batches_are_looked_at_every_so_often_and_without_a_search_if_wanted() -> None:
    model = stack(logarithm())

    callback = trained(model, callback={"every": 3, "locate": False})

    assert callback.origin is None
    assert model.stop_training
    assert int(model.optimizer.iterations) == 1


def test_a_training_that_stays_finite_is_not_changed() -> None:
    def weights(callbacks: list[Any]) -> Any:
        tf.random.set_seed(4)
        model = stack(Dense(4, "tanh"))
        model.compile(Adam(0.01), "mse")
        model.fit(X, Y, batch_size=5, epochs=3, verbose=0, callbacks=callbacks)
        return model.get_weights()

    for one, other in zip(weights([]), weights([TerminateOnNaN()])):
        np.testing.assert_array_equal(one, other)


def test_the_callback_raises_if_it_is_told_to() -> None:
    model = Sequential([Input((3,)), last()])

    with pytest.raises(RuntimeError, match="Batch 0: the loss is nan"):
        trained(model, np.full_like(X, np.nan), callback={"raise_error": True})
