"""The CTC loss against the sum over all alignments, in float64."""

from __future__ import annotations

from itertools import groupby, product
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ShapeError
from tapegrad.keras import Input, Sequential, losses
from tapegrad.keras.layers import Dense

LABELS = np.array([[1, 2, 0], [2, 2, 0], [1, 0, 0], [0, 0, 0], [1, 2, 1]])
LOGITS = np.random.default_rng(0).normal(size=(5, 5, 3))


def by_alignments(labels: Any, logits: Any) -> Any:
    """-log of the sum over all sequences of classes that say the labels."""
    chances = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    wanted = [label for label in labels if label]
    total = 0.0
    for path in product(range(logits.shape[1]), repeat=len(logits)):
        if [label for label, _ in groupby(path) if label] == wanted:
            total += np.prod(chances[np.arange(len(logits)), path])
    return -np.log(total) if total else np.inf


def test_the_loss_is_the_chance_of_all_alignments() -> None:
    expected = [by_alignments(*pair) for pair in zip(LABELS, LOGITS)]

    found = losses.ctc(LABELS, LOGITS)

    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("is_recorded", [False, True])
def test_the_gradient_is_that_of_the_chance_of_all_alignments(is_recorded: bool) -> None:
    logits = tf.Variable(LOGITS)
    rule = tf.function(losses.ctc) if is_recorded else losses.ctc

    with tf.GradientTape() as tape:
        loss = rule(tf.constant(LABELS), logits)
    found = tape.gradient(loss, logits).numpy()

    step = 1e-6
    for place in [(0, 0, 1), (1, 2, 2), (2, 4, 0), (3, 1, 1), (4, 3, 2)]:
        sides = []
        for sign in (1, -1):
            moved = LOGITS.copy()
            moved[place] += sign * step
            sides.append(by_alignments(LABELS[place[0]], moved[place[0]]))
        assert found[place] == pytest.approx((sides[0] - sides[1]) / (2 * step), abs=1e-8)


def test_labels_that_do_not_fit_into_the_steps_have_no_chance_and_no_gradient() -> None:
    logits = tf.Variable(LOGITS[:1, :4])

    with tf.GradientTape() as tape:
        loss = losses.ctc([[1, 1, 1]], logits)  # needs a blank between equal labels: 5 steps

    assert np.isposinf(loss.numpy()).all()
    assert not tape.gradient(loss, logits).numpy().any()


def test_the_class_is_the_mean_and_is_found_by_name() -> None:
    mean = losses.ctc(LABELS, LOGITS).numpy().mean()

    assert float(losses.CTC(dtype="float64")(LABELS, LOGITS)) == pytest.approx(mean, rel=1e-12)
    assert isinstance(losses.get("CTC"), losses.CTC)
    assert losses.get("ctc") is losses.ctc
    assert losses.deserialize(losses.serialize(losses.CTC("sum"))).reduction == "sum"


def test_a_model_learns_to_say_labels() -> None:
    tf.random.set_seed(1)
    x = np.tile(np.eye(6, dtype="float32"), (4, 1, 1))
    y = np.tile(np.array([[2, 1, 0]]), (4, 1))
    model = Sequential([Input((6, 6)), Dense(3)])
    model.compile("adam", "ctc")
    model.optimizer.learning_rate = 0.1

    history = model.fit(x, y, epochs=60, verbose=0).history["loss"]

    assert history[-1] < 0.05 * history[0]
    best = model.predict(x)[0].argmax(-1)
    assert [label for label, _ in groupby(best) if label] == [2, 1]


@pytest.mark.parametrize(
    ("labels", "logits"), [((2,), (2, 3, 4)), ((2, 3), (2, 3)), ((1, 3), (2, 3, 4))]
)
def test_other_shapes_are_refused_in_a_sentence(labels: Any, logits: Any) -> None:
    with pytest.raises(ShapeError, match="ctc takes labels of shape"):
        losses.ctc(np.ones(labels, "int64"), np.zeros(logits))
