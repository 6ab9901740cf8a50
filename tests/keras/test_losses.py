"""Losses against their formulas in float64: values, gradients, recordings, devices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.errors import ShapeError
from tapegrad.keras import losses

SAMPLES, CLASSES = 7, 5
EPSILON = 1e-7

random = np.random.default_rng(3)
LOGITS = random.normal(size=(SAMPLES, CLASSES))
CHANCES = special.softmax(LOGITS, axis=-1)
SIGMOIDS = special.expit(LOGITS)
REALS = random.normal(size=(SAMPLES, CLASSES))
BITS = random.integers(0, 2, (SAMPLES, CLASSES)).astype("float64")
LABELS = random.integers(0, CLASSES, SAMPLES)
ONE_HOT = np.eye(CLASSES)[LABELS]
SHARES = special.softmax(random.normal(size=(SAMPLES, CLASSES)), axis=-1)
KINDS = np.array([0, 1, 0, 2, 2, 1, 0])
ARROWS = REALS / np.linalg.norm(REALS, axis=-1, keepdims=True)
SHORT = 0.99 * ARROWS  # none is at a distance of 0 from itself, where there is no gradient


def smooth(y, amount, classes):
    return y * (1 - amount) + amount / classes


def binary(y, p):
    return special.xlogy(-y, p) - special.xlogy(1 - y, 1 - p)


def binary_focal(y, p, gamma=2.0, balance=None):
    right = np.where(y == 1, p, 1 - p)
    factor = 1.0 if balance is None else np.where(y == 1, balance, 1 - balance)
    return (factor * (1 - right) ** gamma * binary(y, p)).mean(-1)


def focal(y, p, alpha=0.25, gamma=2.0):
    return -(alpha * (1 - p) ** gamma * y * np.log(p)).sum(-1)


def picked(p):
    return -np.log(p[np.arange(SAMPLES), LABELS])


def huber(error, delta):
    size = np.abs(error)
    return np.where(size <= delta, size**2 / 2, delta * (size - delta / 2)).mean(-1)


def msle(y, p):
    return ((np.log1p(np.maximum(y, EPSILON)) - np.log1p(np.maximum(p, EPSILON))) ** 2).mean(-1)


def cosine(y, p, axis=-1):
    lengths = np.linalg.norm(y, axis=axis) * np.linalg.norm(p, axis=axis)
    return -(y * p).sum(axis) / lengths


def best_wrong(y, p):
    return np.maximum(((1 - y) * p).max(-1) - (y * p).sum(-1) + 1, 0)


def overlap(y, p, alpha, beta, axis):
    both = (y * p).sum(axis)
    missed, alarms = (y * (1 - p)).sum(axis), (p * (1 - y)).sum(axis)
    return 1 - both / (both + alpha * missed + beta * alarms + EPSILON)


def circle(gamma=80.0, margin=0.4, arrows=ARROWS, with_itself=False):
    """log(1 + sum of exp(gamma * ...)) over all pairs of an alike and an unlike, by the paper."""
    found = []
    for i, arrow in enumerate(arrows):
        alike = [j for j in range(SAMPLES) if KINDS[j] == KINDS[i] and (j != i or with_itself)]
        unlike = [k for k in range(SAMPLES) if KINDS[k] != KINDS[i]]
        terms = [0.0]
        for near, far in np.ndindex(len(alike), len(unlike)):
            s_p, s_n = arrows[alike[near]] @ arrow, arrows[unlike[far]] @ arrow
            pull = max(1 + margin - s_p, 0) * (s_p - (1 - margin))
            push = max(s_n + margin, 0) * (s_n - margin)
            terms.append(gamma * (push - pull))
        found.append(special.logsumexp(terms))
    return np.array(found)


def by_name(name, **options):
    return lambda **more: getattr(losses, name)(**options, **more)


# What makes the loss, labels, predictions, and the losses of the samples by the formula.
CASES = {
    "binary": (by_name("BinaryCrossentropy"), BITS, SIGMOIDS, binary(BITS, SIGMOIDS).mean(-1)),
    "binary of logits": (
        by_name("BinaryCrossentropy", from_logits=True),
        BITS,
        LOGITS,
        binary(BITS, SIGMOIDS).mean(-1),
    ),
    "binary, smooth, over samples": (
        by_name("BinaryCrossentropy", label_smoothing=0.2, axis=0),
        BITS,
        SIGMOIDS,
        binary(smooth(BITS, 0.2, 2), SIGMOIDS).mean(0),
    ),
    "categorical": (
        by_name("CategoricalCrossentropy"),
        ONE_HOT,
        3.0 * CHANCES,  # predictions are brought to a sum of 1
        picked(CHANCES),
    ),
    "categorical of logits, smooth": (
        by_name("CategoricalCrossentropy", from_logits=True, label_smoothing=0.1),
        ONE_HOT,
        LOGITS,
        -(smooth(ONE_HOT, 0.1, CLASSES) * np.log(CHANCES)).sum(-1),
    ),
    "categorical along the first axis": (
        by_name("CategoricalCrossentropy", from_logits=True, axis=0),
        ONE_HOT.T,
        LOGITS.T,
        picked(CHANCES),
    ),
    "sparse": (by_name("SparseCategoricalCrossentropy"), LABELS, CHANCES, picked(CHANCES)),
    "sparse of logits, labels in a column": (
        by_name("SparseCategoricalCrossentropy", from_logits=True),
        LABELS[:, None].astype("float64"),
        LOGITS,
        picked(CHANCES),
    ),
    "sparse along the first axis": (
        by_name("SparseCategoricalCrossentropy", from_logits=True, axis=0),
        LABELS.astype("uint8"),
        LOGITS.T,
        picked(CHANCES),
    ),
    "binary focal": (
        by_name("BinaryFocalCrossentropy"),
        BITS,
        SIGMOIDS,
        binary_focal(BITS, SIGMOIDS),
    ),
    "binary focal of logits, balanced": (
        by_name(
            "BinaryFocalCrossentropy",
            from_logits=True,
            apply_class_balancing=True,
            alpha=0.3,
            gamma=1.5,
        ),
        BITS,
        LOGITS,
        binary_focal(BITS, SIGMOIDS, 1.5, 0.3),
    ),
    "categorical focal": (
        by_name("CategoricalFocalCrossentropy"),
        ONE_HOT,
        CHANCES,
        focal(ONE_HOT, CHANCES),
    ),
    "categorical focal of logits": (
        by_name("CategoricalFocalCrossentropy", from_logits=True, alpha=0.4, gamma=3.0),
        ONE_HOT,
        LOGITS,
        focal(ONE_HOT, CHANCES, 0.4, 3.0),
    ),
    "squares": (by_name("MeanSquaredError"), REALS, LOGITS, ((REALS - LOGITS) ** 2).mean(-1)),
    "sizes": (by_name("MeanAbsoluteError"), REALS, LOGITS, np.abs(REALS - LOGITS).mean(-1)),
    "percentage": (
        by_name("MeanAbsolutePercentageError"),
        REALS,
        LOGITS,
        100 * np.abs((REALS - LOGITS) / REALS).mean(-1),
    ),
    "logarithms": (by_name("MeanSquaredLogarithmicError"), REALS, LOGITS, msle(REALS, LOGITS)),
    "huber": (by_name("Huber", delta=0.3), REALS, LOGITS, huber(REALS - LOGITS, 0.3)),
    "log cosh": (by_name("LogCosh"), REALS, LOGITS, np.log(np.cosh(REALS - LOGITS)).mean(-1)),
    "hinge": (
        by_name("Hinge"),
        BITS,
        LOGITS,
        np.maximum(1 - (2 * BITS - 1) * LOGITS, 0).mean(-1),
    ),
    "squared hinge": (
        by_name("SquaredHinge"),
        2 * BITS - 1,
        LOGITS,
        (np.maximum(1 - (2 * BITS - 1) * LOGITS, 0) ** 2).mean(-1),
    ),
    "categorical hinge": (
        by_name("CategoricalHinge"),
        ONE_HOT,
        LOGITS,
        best_wrong(ONE_HOT, LOGITS),
    ),
    "divergence": (
        by_name("KLDivergence"),
        SHARES,
        CHANCES,
        special.rel_entr(SHARES, CHANCES).sum(-1),
    ),
    "poisson": (
        by_name("Poisson"),
        SHARES,
        SIGMOIDS,
        (SIGMOIDS - SHARES * np.log(SIGMOIDS + EPSILON)).mean(-1),
    ),
    "cosine": (by_name("CosineSimilarity"), REALS, LOGITS, cosine(REALS, LOGITS)),
    "cosine over samples": (
        by_name("CosineSimilarity", axis=0),
        REALS,
        LOGITS,
        cosine(REALS, LOGITS, 0),
    ),
    "dice": (
        by_name("Dice", axis=1),
        BITS,
        SIGMOIDS,
        1 - 2 * (BITS * SIGMOIDS).sum(1) / (BITS.sum(1) + SIGMOIDS.sum(1) + EPSILON),
    ),
    "dice of everything": (
        by_name("Dice"),
        BITS,
        SIGMOIDS,
        1 - 2 * (BITS * SIGMOIDS).sum() / (BITS.sum() + SIGMOIDS.sum() + EPSILON),
    ),
    "generalized": (
        by_name("CategoricalGeneralizedCrossEntropy"),
        LABELS,
        CHANCES,
        2 * (1 - np.sqrt((CHANCES * ONE_HOT).sum(-1))),
    ),
    "generalized, labels in a column": (
        by_name("CategoricalGeneralizedCrossEntropy", q=0.8),
        LABELS[:, None].astype("float64"),
        CHANCES,
        (1 - (CHANCES * ONE_HOT).sum(-1) ** 0.8) / 0.8,
    ),
    "circle": (by_name("Circle"), KINDS, ARROWS, circle()),
    "circle, wide and soft": (
        by_name("Circle", gamma=3.0, margin=0.25),
        KINDS[:, None].astype("uint8"),
        ARROWS,
        circle(3.0, 0.25),
    ),
    "circle, each with itself": (
        by_name("Circle", gamma=5.0, remove_diagonal=False),
        KINDS.astype("float32"),
        SHORT,
        circle(5.0, arrows=SHORT, with_itself=True),
    ),
    "tversky": (
        by_name("Tversky", alpha=0.3, beta=0.8, axis=-1),
        BITS,
        SIGMOIDS,
        overlap(BITS, SIGMOIDS, 0.3, 0.8, -1),
    ),
}
every_case = pytest.mark.parametrize("case", CASES)


@every_case
def test_the_losses_of_samples_are_those_of_the_formula(case):
    make, y_true, y_pred, expected = CASES[case]

    found = make(reduction=None, dtype="float64")(y_true, y_pred)

    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-12)


@every_case
def test_a_loss_is_the_mean_in_single_precision_by_default(case):
    make, y_true, y_pred, expected = CASES[case]

    found = make()(y_true, y_pred)

    assert found.dtype == tf.float32
    np.testing.assert_allclose(found.numpy(), expected.mean(), rtol=1e-5)


@every_case
def test_the_gradient_is_that_of_finite_differences(case):
    make, y_true, y_pred, _ = CASES[case]
    loss = make(dtype="float64")
    direction = np.random.default_rng(5).normal(size=y_pred.shape)
    step = 1e-6

    predictions = tf.Variable(y_pred)
    with tf.GradientTape() as tape:
        value = loss(y_true, predictions)
    found = (tape.gradient(value, predictions).numpy() * direction).sum()

    ahead = loss(y_true, y_pred + step * direction).numpy()
    behind = loss(y_true, y_pred - step * direction).numpy()
    np.testing.assert_allclose(found, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-8)


@every_case
def test_a_recorded_loss_equals_the_plain_one(case):
    make, y_true, y_pred, _ = CASES[case]
    loss = make()
    recorded = tf.function(loss)
    arguments = tf.constant(y_true), tf.constant(y_pred)

    found = [recorded(*arguments).numpy() for _ in range(2)]

    np.testing.assert_allclose(found, [loss(*arguments).numpy()] * 2, rtol=1e-6)


@pytest.fixture
def strict_device():
    register_backend(strict.StrictBackend())
    yield "strict:0"
    unregister_backend("strict")


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
@every_case
def test_a_loss_and_its_gradient_read_nothing_from_the_device(case, strict_device):
    make, y_true, y_pred, expected = CASES[case]
    with tf.device(strict_device):
        labels, predictions = tf.constant(y_true), tf.Variable(y_pred)
        with strict.forbidding_reads(), tf.GradientTape() as tape:
            value = make(dtype="float64")(labels, predictions)
        gradient = tape.gradient(value, predictions)

    np.testing.assert_allclose(value.numpy(), expected.mean(), rtol=1e-9)
    assert gradient.device == strict_device


@pytest.mark.parametrize(
    "loss", [losses.categorical_crossentropy, losses.categorical_focal_crossentropy]
)
@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.parametrize("labels", [LABELS, LABELS[:, None], ONE_HOT[:, :2]])
def test_categorical_losses_refuse_labels_that_are_not_one_per_class(loss, from_logits, labels):
    with pytest.raises(ShapeError, match="Use sparse_categorical_crossentropy for class indices"):
        loss(labels, CHANCES, from_logits=from_logits)
    loss(ONE_HOT, CHANCES, from_logits=from_logits)
