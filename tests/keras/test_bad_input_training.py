"""Error messages of compile, fit, evaluate and predict for wrong data and arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.errors import TapegradError
from tapegrad.keras import Input, Model, Sequential, layers

Row = tuple[str, Callable[[], Any], str]

callbacks: Any = keras.callbacks

X, Y = np.ones((10, 3), "float32"), np.zeros((10, 1), "float32")
LABELS = np.zeros(10, "int64")


def line(loss: Any = "mse", **options: Any) -> Any:
    model = Sequential([Input((3,)), layers.Dense(1, name="line")])
    model.compile("sgd", loss, **options)
    return model


def classes(loss: Any = None, **options: Any) -> Any:
    model = Sequential([Input((3,)), layers.Dense(3, name="classes")])
    rule = loss or keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", rule, **options)
    return model


def pair(loss: Any = "mse", **options: Any) -> Any:
    x = Input((3,))
    model = Model(x, [layers.Dense(1, name="p")(x), layers.Dense(1, name="q")(x)])
    model.compile("sgd", loss, **options)
    return model


def fit(model: Any, x: Any = X, y: Any = Y, **options: Any) -> Any:
    return model.fit(x, y, **{"verbose": 0, **options})


def on_cpu(call: Callable[[], Any]) -> Callable[[], Any]:
    """The call with new tensors on the CPU, whichever device the tests run on."""

    def run() -> Any:
        with tf.device("cpu"):
            return call()

    return run


def stepping(result: Any) -> Any:
    """A model whose step returns something."""

    class Own(Sequential):
        def train_step(self, data: Any) -> Any:
            return result

    model = Own([layers.Dense(1)])
    model.compile("sgd")
    return model


class Nothing(Model):
    def call(self, inputs: Any) -> Any:
        return None


def nothing() -> Any:
    model = Nothing()
    model.compile("sgd", "mse")
    return model


COMPILE: list[Row] = [
    ("a loss", lambda: line("mze"), "'mze'. Did you mean 'mse'? Known: "),
    ("a number for a loss", lambda: line(5), "A loss must be a name"),
    ("a metric", lambda: line(metrics=["acuracy"]), "Did you mean 'accuracy'? Known: "),
    ("a metric of one output", lambda: pair(metrics={"p": ["maee"]}), "Known: "),
    ("a number for a metric", lambda: line(metrics=[5]), "A metric must be a name"),
    ("an optimizer", lambda: Sequential().compile("adm"), "Did you mean 'adam'? Known: "),
    ("no steps at once", lambda: line(steps_per_execution=0), "steps_per_execution must be"),
    ("steps as text", lambda: line(steps_per_execution="auto"), "Got str: 'auto'"),
    ("too few losses", lambda: fit(pair(["mse"]), y=[Y, Y]),
     "has 2 outputs: 'p', 'q'. Got 1 losses"),
    ("too many losses", lambda: fit(line(["mse", "mae"])), "has 1 outputs: 'line'. Got 2 losses"),
    ("a loss for no output", lambda: fit(pair({"r": "mse"}), y=[Y, Y]),
     "The losses name outputs that do not exist: 'r'. The model's outputs are 'p', 'q'"),
    ("too many weights of losses", lambda: fit(pair(loss_weights=[1, 2, 3]), y=[Y, Y]),
     "has 2 outputs: 'p', 'q'. Got 3 loss weights"),
    ("text for a weight", lambda: fit(line(loss_weights="a")), "A loss weight must be a number"),
    ("too many metrics", lambda: fit(pair(metrics=["mae"] * 3), y=[Y, Y]),
     "Got 3 metrics for them"),
    ("metrics for no output", lambda: fit(pair(metrics={"r": "mae"}), y=[Y, Y]),
     "The metrics name outputs that do not exist: 'r'"),
    ("no optimizer", lambda: fit(line_without_optimizer()), "compiled with optimizer=None"),
    ("no loss", lambda: fit(line(None)), "compile the model with a loss"),
]  # fmt: skip


def line_without_optimizer() -> Any:
    model = line()
    model.compile(None, "mse")
    return model


def raw() -> Any:
    return Sequential([layers.Dense(1)])


DATA: list[Row] = [
    ("fit before compile", lambda: raw().fit(X, Y),
     "compile(optimizer=..., loss=...) before model.fit"),
    ("evaluate before compile", lambda: raw().evaluate(X, Y), "before model.evaluate"),
    ("a batch before compile", lambda: raw().train_on_batch(X, Y), "before model.train_on_batch"),
    ("features", lambda: fit(line(), np.zeros((10, 5))),
     "takes inputs of shape (None, 3). Got (10, 5)"),
    ("rank", lambda: fit(line(), np.zeros((10, 5, 3))), "Got (10, 5, 3)"),
    ("lengths", lambda: fit(line(), y=Y[:7]), "same number of examples"),
    ("no targets", lambda: fit(line(), y=None), "pass targets"),
    ("no data", lambda: fit(line(), None), "a dataset or a generator. Got None"),
    ("no examples", lambda: fit(line(), X[:0], Y[:0]), "The arrays hold no examples. Got shapes"),
    ("no batches", lambda: fit(line(), iter([]), None), "fit needs at least one batch"),
    ("no batches to evaluate", lambda: line().evaluate(iter([]), verbose=0),
     "evaluate needs at least one batch"),
    ("no batches to predict", lambda: line().predict(iter([])), "predict needs at least one batch"),
    ("no examples to predict", lambda: line().predict(X[:0]), "The arrays hold no examples"),
    ("a number", lambda: fit(line(), 5),
     "x must be arrays, tensors, a dataset or a generator. Got int"),
    ("text", lambda: fit(line(), "abc"), "Got str: 'abc'"),
    ("text in an array", lambda: fit(line(), np.array([["a", "b", "c"]] * 10)), "not numbers"),
    ("rows of different lengths", lambda: fit(line(), [[1.0, 2.0], [1.0]]),
     "must have equal lengths"),
    ("targets beside a generator", lambda: fit(line(), iter([(X, Y)])),
     "do not pass y or sample_weight"),
    ("four arrays per batch", lambda: fit(line(), iter([(X, Y, Y, Y)]), None), "Got 4 entries"),
    ("batches of two lengths", lambda: fit(line(), iter([(X, Y[:3])]), None),
     "'mean_squared_error' of output 'line' got targets of shape (3, 1) and outputs of shape (10"),
    ("targets of another rank", lambda: fit(line(), y=np.zeros((10, 3, 2))),
     "targets of shape (10, 3, 2) and outputs of shape (10, 1)"),
    ("too few targets", lambda: fit(pair()), "has 2 outputs: 'p', 'q'. Got 1 targets"),
    ("too many targets", lambda: fit(pair(), y=[Y, Y, Y]), "Got 3 targets"),
    ("targets for no output", lambda: fit(pair(), y={"p": Y, "r": Y}),
     "The targets name outputs that do not exist: 'r'"),
    ("a target that is missing", lambda: fit(pair(), y={"p": Y}),
     "are missing for the outputs 'q'"),
    # Values are looked at on the CPU alone: on another device that would be a wait in every step.
    ("a label that is too large", on_cpu(lambda: fit(classes(), y=LABELS + 7)), "Got the label 7"),
    ("a label below 0", on_cpu(lambda: fit(classes(), y=LABELS - 1)), "Got the label -1"),
    ("one-hot labels", lambda: fit(classes(), y=np.eye(3)[LABELS]),
     "targets of shape (10, 3) and outputs of shape (10, 3)"),
    ("class numbers", lambda: fit(classes("categorical_crossentropy"), y=LABELS),
     "'categorical_crossentropy' of output 'classes' got targets of shape (10,)"),
    ("too many classes", lambda: fit(classes("categorical_crossentropy"), y=np.eye(4)[LABELS]),
     "targets of shape (10, 4) and outputs of shape (10, 3)"),
    ("labels as text", lambda: fit(classes(), y=np.array(["a"] * 10)), "not numbers"),
    ("no output", lambda: fit(nothing()), "is None. Its call must return the outputs"),
    ("a step that returns nothing", lambda: fit(stepping(None)), "metrics as a dictionary by name"),
    ("a step that returns a number", lambda: fit(stepping(tf.constant(1.0))), "Got Tensor"),
    ("a step that returns numbers", lambda: fit(stepping(np.ones(2))), "Got ndarray"),
]  # fmt: skip

OPTIONS: list[Row] = [
    ("batch of 0", lambda: fit(line(), batch_size=0),
     "batch_size must be an integer of at least 1"),
    ("batch of 2.5", lambda: fit(line(), batch_size=2.5), "Got float: 2.5"),
    ("batch as text", lambda: fit(line(), batch_size="all"), "Got str: 'all'"),
    ("epochs as text", lambda: fit(line(), epochs="3"), "epochs must be an integer"),
    ("epochs below 0", lambda: fit(line(), epochs=-1),
     "epochs must be an integer of at least 0"),
    ("no steps", lambda: fit(line(), steps_per_epoch=0), "steps_per_epoch must be"),
    ("no steps of an evaluation", lambda: line().evaluate(X, Y, steps=0),
     "steps must be an integer"),
    ("split above 1", lambda: fit(line(), validation_split=1.5), "a fraction between 0 and 1"),
    ("split below 0", lambda: fit(line(), validation_split=-0.5), "a fraction between 0 and 1"),
    ("split as text", lambda: fit(line(), validation_split="a"), "Got 'a' of ndarray"),
    ("split of a generator", lambda: fit(line(), iter([]), None, validation_split=0.5),
     "in memory"),
    ("split of nothing", lambda: fit(line(), validation_split=0.99),
     "leaves no examples for training"),
    ("validation of 4", lambda: fit(line(), validation_data=(X, Y, Y, Y)), "Got 4 entries"),
    ("validation of other shape", lambda: fit(line(), validation_data=(X[:, :2], Y)),
     "Got (10, 2)"),
    ("never validated", lambda: fit(line(), validation_freq=0), "validation_freq must be"),
    ("verbose", lambda: fit(line(), verbose="loud"), "verbose must be 'auto', 0, 1 or 2"),
    ("callbacks as text", lambda: fit(line(), callbacks=["stop"]),
     "must be instances of Callback"),
    ("weights of classes as a list", lambda: fit(classes(), y=LABELS, class_weight=[1, 2]),
     "class_weight must be a dictionary from class numbers to weights"),
    ("names of classes", lambda: fit(classes(), y=LABELS, class_weight={"a": 1.0}), "Got 'a': 1.0"),
    ("classes of nothing", lambda: fit(line(), y=None, class_weight={0: 1.0}), "needs the labels"),
    ("classes of two outputs", lambda: fit(pair(), y=[Y, Y], class_weight={0: 1.0}),
     "Got 2 arrays"),
    ("classes of images", lambda: fit(line(), y=np.zeros((10, 2, 2)), class_weight={0: 1.0}),
     "use sample_weight instead"),
    ("both weights", lambda: fit(classes(), y=LABELS, class_weight={0: 1.0}, sample_weight=Y),
     "Give class_weight or sample_weight, not both"),
    ("too few weights", lambda: fit(line(), sample_weight=Y[:7]), "same number of examples"),
    ("weights of another shape", lambda: fit(line(), sample_weight=np.zeros((10, 4))),
     "weights of shape (10, 4)"),
    ("weights of three outputs", lambda: fit(pair(), y=[Y, Y], sample_weight=[Y[:, 0]] * 3),
     "Got 3 sample weights for them"),
    ("a schedule that is a number", lambda: callbacks.LearningRateScheduler(0.1),
     "a function"),
    ("a schedule of nothing", lambda: fit(line(), callbacks=[schedule(None)]),
     "must return a number"),
    ("every 0 batches", lambda: callbacks.TerminateOnNaN(0), "at least 1. Got 0"),
]  # fmt: skip


def schedule(result: Any) -> Any:
    return keras.callbacks.LearningRateScheduler(lambda epoch: result)


@pytest.mark.parametrize(
    ("act", "words"),
    [row[1:] for row in (*COMPILE, *DATA, *OPTIONS)],
    ids=[row[0] for row in (*COMPILE, *DATA, *OPTIONS)],
)
def test_what_is_wrong_is_said_in_a_sentence(act: Callable[[], Any], words: str) -> None:
    with pytest.raises(TapegradError) as caught:
        act()

    assert words in str(caught.value)


@pytest.mark.parametrize(
    "callback",
    [keras.callbacks.EarlyStopping("acuracy"), keras.callbacks.ReduceLROnPlateau("acuracy")],
)
def test_a_metric_to_watch_that_is_not_there_is_warned_of(callback: Any) -> None:
    with pytest.warns(UserWarning, match="monitors 'acuracy', which is not among the metrics"):
        fit(line(), callbacks=[callback])


def test_a_generator_that_is_used_up_ends_training_with_a_warning() -> None:
    model = line()

    with pytest.warns(UserWarning, match="no batch for epoch 2"):
        history = fit(model, iter([(X, Y)] * 2), None, epochs=3)

    assert history.epoch == [0]
    assert len(history.history["loss"]) == 1


def test_lists_of_numbers_are_arrays() -> None:
    model = line()

    history = fit(model, X.tolist(), Y.tolist(), validation_split=0.5)

    assert sorted(history.history) == ["loss", "val_loss"]
    assert model.predict_on_batch(X.tolist()).shape == (10, 1)
    assert fit(pair(), X.tolist(), {"p": Y.tolist(), "q": Y}).history["loss"]
