"""Common to all losses: reductions, sample weights, ignored labels, names, configurations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import tapegrad as tf
from tapegrad.keras import losses

SAMPLES, CLASSES = 7, 5
EPSILON = 1e-7

random = np.random.default_rng(4)
LOGITS = random.normal(size=(SAMPLES, CLASSES))
CHANCES = special.softmax(LOGITS, axis=-1)
SIGMOIDS = special.expit(LOGITS)
REALS = random.normal(size=(SAMPLES, CLASSES))
BITS = random.integers(0, 2, (SAMPLES, CLASSES)).astype("float64")
LABELS = random.integers(0, CLASSES, SAMPLES)
SURPRISES = -np.log(CHANCES[np.arange(SAMPLES), LABELS])
WEIGHTS = random.uniform(0.0, 2.0, SAMPLES)
SQUARES = ((REALS - LOGITS) ** 2).mean(-1)


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("sum_over_batch_size", (SQUARES * WEIGHTS).sum() / SAMPLES),
        ("mean", (SQUARES * WEIGHTS).sum() / SAMPLES),
        ("mean_with_sample_weight", np.average(SQUARES, weights=WEIGHTS)),
        ("sum", (SQUARES * WEIGHTS).sum()),
        ("none", SQUARES * WEIGHTS),
        (None, SQUARES * WEIGHTS),
    ],
)
def test_weighted_losses_are_reduced(reduction, expected):
    loss = losses.MeanSquaredError(reduction=reduction, dtype="float64")

    found = loss(REALS, LOGITS, sample_weight=WEIGHTS)

    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("weight", [0.5, WEIGHTS[:, None]], ids=["one for all", "a column"])
def test_other_shapes_of_weights_fit_too(weight):
    loss = losses.MeanSquaredError(dtype="float64")

    found = loss(REALS, LOGITS, sample_weight=weight)

    expected = (SQUARES * np.broadcast_to(np.squeeze(weight), SAMPLES)).mean()
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_weights_that_are_all_zero_give_a_mean_of_zero():
    loss = losses.MeanSquaredError(reduction="mean_with_sample_weight")

    assert float(loss(REALS, LOGITS, sample_weight=np.zeros(SAMPLES))) == 0.0


def test_no_samples_have_no_losses():
    assert losses.MeanSquaredError()(np.zeros((0, 2)), np.zeros((0, 2))).shape == (0,)


def test_weights_per_step_of_a_sequence_multiply_its_losses():
    y_true, y_pred = random.normal(size=(2, 4, 3, 2))
    weight = random.uniform(size=(4, 3))

    found = losses.MeanAbsoluteError(dtype="float64")(y_true, y_pred, sample_weight=weight)

    expected = (np.abs(y_true - y_pred).mean(-1) * weight).mean()
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["MeanSquaredError", "Huber", "BinaryCrossentropy", "LogCosh"])
def test_a_vector_of_labels_meets_a_column_of_predictions_sample_by_sample(name):
    loss = getattr(losses, name)(dtype="float64")

    found = loss(BITS[:, 0], SIGMOIDS[:, :1])

    assert float(found) == float(loss(BITS[:, :1], SIGMOIDS[:, :1]))


def test_ignored_labels_neither_cost_nor_count():
    loss = losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1, dtype="float64")
    ignored = np.arange(SAMPLES) % 3 == 0

    found = loss(np.where(ignored, -1, LABELS), LOGITS)

    np.testing.assert_allclose(found.numpy(), SURPRISES[~ignored].mean(), rtol=1e-12)


def test_ignored_labels_count_in_neither_sum_of_a_weighted_mean():
    loss = losses.SparseCategoricalCrossentropy(
        ignore_class=255, reduction="mean_with_sample_weight", dtype="float64"
    )
    ignored = np.arange(SAMPLES) % 3 == 0

    found = loss(np.where(ignored, 255, LABELS).astype("uint8"), CHANCES, sample_weight=WEIGHTS)

    expected = np.average(SURPRISES[~ignored], weights=WEIGHTS[~ignored])
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9)


def test_what_is_ignored_sends_no_gradient_even_where_it_is_not_a_number():
    logits = tf.Variable([[1.0, 2.0], [np.nan, np.inf]])
    with tf.GradientTape() as tape:
        loss = losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
        value = loss([0, -1], logits)

    gradient = tape.gradient(value, logits).numpy()

    np.testing.assert_allclose(gradient[0], special.softmax([1.0, 2.0]) - [1.0, 0.0], rtol=1e-6)
    assert gradient[1].tolist() == [0.0, 0.0]


def test_probabilities_of_zero_and_one_cost_a_finite_amount():
    found = losses.binary_crossentropy([[1.0, 0.0]], np.array([[0.0, 1.0]]))

    np.testing.assert_allclose(found.numpy(), [-np.log(EPSILON)], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "loss", [losses.binary_crossentropy, losses.binary_focal_crossentropy], ids=["plain", "focal"]
)
def test_certain_predictions_in_half_precision_are_no_nan(loss, dtype):
    certain = tf.cast([[1.0, 0.0]], dtype)

    found = loss([[1.0, 0.0]], certain)

    np.testing.assert_allclose(found.numpy(), [0.0], atol=2 * EPSILON)


def test_unsigned_labels_may_come_with_a_class_to_ignore_that_they_cannot_hold():
    loss = losses.SparseCategoricalCrossentropy(ignore_class=-1, dtype="float64")

    found = loss(LABELS.astype("uint8"), CHANCES)

    np.testing.assert_allclose(found.numpy(), SURPRISES.mean(), rtol=1e-9)


def test_large_logits_stay_exact():
    found = losses.BinaryCrossentropy(from_logits=True)([[0.0]], [[200.0]])

    assert float(found) == 200.0


def test_a_user_loss_gets_labels_in_its_own_dtype():
    class Distance(losses.Loss):
        def call(self, y_true, y_pred):
            return tf.abs(y_true - y_pred)

    loss = Distance(name="far", dtype="float64")

    assert loss([1, 2], [1.5, 0.0]).numpy() == 1.25
    expected = {"name": "far", "reduction": "sum_over_batch_size", "dtype": "float64"}
    assert loss.get_config() == expected


ARROWS = REALS / np.linalg.norm(REALS, axis=-1, keepdims=True)
LONELY = np.array([0, 0, 1, 1, 2, 3, 4])  # the last three are alone in their classes
BY_NAME = {"class": losses.Circle, "function": lambda: losses.LossFunctionWrapper(losses.circle)}


@pytest.mark.parametrize("how", BY_NAME)
def test_the_mean_of_a_circle_loss_is_over_those_who_cost_something(how):
    values = losses.circle(LONELY, ARROWS).numpy()

    found = BY_NAME[how]()(LONELY, ARROWS)

    assert (values > 0).tolist() == [True] * 4 + [False] * 3
    np.testing.assert_allclose(found.numpy(), values[:4].mean(), rtol=1e-5)


def test_a_circle_loss_takes_weights_and_a_mask_beside_its_own():
    loss = losses.Circle(dtype="float64")
    mask = np.array([True, True, True, False, True, True, True])

    found = loss(LONELY, ARROWS, sample_weight=WEIGHTS, mask=mask)

    values = losses.circle(LONELY, ARROWS).numpy()
    np.testing.assert_allclose(found.numpy(), (values * WEIGHTS)[:3].mean(), rtol=1e-12)


ALONE = {"one sample": [3], "one class": [1, 1, 1], "all different": [0, 1, 2]}


@pytest.mark.parametrize("labels", ALONE)
def test_where_there_is_nothing_to_compare_a_circle_loss_and_its_gradient_are_zero(labels):
    embeddings = tf.Variable(ARROWS[: len(ALONE[labels])])

    with tf.GradientTape() as tape:
        value = losses.Circle(dtype="float64")(ALONE[labels], embeddings)

    assert float(value) == 0.0
    assert not tape.gradient(value, embeddings).numpy().any()


def test_a_circle_loss_can_compare_with_other_embeddings():
    y_true, y_pred, others = [0, 1], ARROWS[:2], ARROWS[2:5]

    found = losses.circle(
        y_true, y_pred, ref_labels=np.array([0, 1, 1]), ref_embeddings=others, gamma=4.0, margin=0.1
    )
    whole = losses.circle(
        y_true,
        y_pred,
        ref_labels=[0, 1, 1],
        ref_embeddings=others,
        remove_diagonal=False,
        gamma=4.0,
        margin=0.1,
    )

    def logit(similarity, is_same):
        if is_same:
            return -4.0 * max(1.1 - similarity, 0) * (similarity - 0.9)
        return 4.0 * max(similarity + 0.1, 0) * (similarity - 0.1)

    s = y_pred @ others.T
    first = special.logsumexp([logit(s[0, 1], False), logit(s[0, 2], False)]) + logit(s[0, 0], True)
    second = logit(s[1, 0], False) + special.logsumexp([logit(s[1, 1], True), logit(s[1, 2], True)])
    np.testing.assert_allclose(whole.numpy(), np.logaddexp(0, [first, second]), rtol=1e-12)
    # Without the pairs (0, 0) and (1, 1), the first has nothing alike, the second only one.
    second = logit(s[1, 0], False) + logit(s[1, 2], True)
    np.testing.assert_allclose(found.numpy(), [0.0, np.logaddexp(0, second)], rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_circle_loss_may_be_computed_in_half_precision(dtype):
    exact = losses.Circle(dtype="float64")(LONELY, ARROWS)

    found = losses.Circle(dtype=dtype)(LONELY, ARROWS)

    assert found.dtype == dtype
    np.testing.assert_allclose(float(found), float(exact), rtol=0.02)


def test_the_generalized_cross_entropy_lies_between_two_others():
    nearly_none = losses.categorical_generalized_cross_entropy(LABELS, CHANCES, 1e-7)
    one = losses.categorical_generalized_cross_entropy(LABELS, CHANCES, 1.0)

    np.testing.assert_allclose(nearly_none.numpy(), SURPRISES, rtol=1e-5)
    np.testing.assert_allclose(one.numpy(), 1 - np.exp(-SURPRISES), rtol=1e-12)


def test_the_generalized_cross_entropy_takes_one_class_number_per_step():
    labels = random.integers(0, CLASSES, (2, 3))
    chances = special.softmax(random.normal(size=(2, 3, CLASSES)), axis=-1)

    found = losses.CategoricalGeneralizedCrossEntropy(dtype="float64")(labels, chances)

    picked = np.take_along_axis(chances, labels[..., None], -1)
    np.testing.assert_allclose(found.numpy(), (2 - 2 * np.sqrt(picked)).mean(), rtol=1e-12)


def test_a_class_that_seems_impossible_costs_a_finite_amount_and_makes_no_nan():
    logits = tf.Variable([[0.0, 300.0], [1.0, 2.0]])
    with tf.GradientTape() as tape:
        chances = tf.nn.softmax(logits)
        values = losses.categorical_generalized_cross_entropy([0, 0], chances, 0.5)

    gradient = tape.gradient(values, logits).numpy()

    right = special.expit(-1.0)
    np.testing.assert_allclose(values.numpy(), [2.0, 2 - 2 * np.sqrt(right)], rtol=1e-6)
    slope = -np.sqrt(right) * (1 - right)  # d(-2 sqrt p) / dlogit = -sqrt(p) (1 - p)
    np.testing.assert_allclose(gradient, [[0.0, 0.0], [slope, -slope]], rtol=1e-5)


REFUSED = {
    "q of 0": (lambda: losses.CategoricalGeneralizedCrossEntropy(0.0), "between 0 and 1. Got 0.0"),
    "q of 1": (lambda: losses.CategoricalGeneralizedCrossEntropy(q=1), "between 0 and 1. Got 1"),
    "one-hot labels": (
        lambda: losses.CategoricalGeneralizedCrossEntropy()(np.eye(CLASSES), CHANCES[:CLASSES]),
        r"one class number per row of probabilities. Got \(5, 5\) and \(5, 5\)",
    ),
    "labels of too few": (
        lambda: losses.Circle()(LABELS[:3], ARROWS),
        r"circle takes embeddings .* and one label for each. Got \(7, 5\) and \(3,\)",
    ),
    "embeddings of steps": (lambda: losses.circle([0], [[[1.0, 0.0]]]), r"Got \(1, 1, 2\) and"),
    "others without labels": (
        lambda: losses.circle(LABELS, ARROWS, ref_embeddings=ARROWS[:2]),
        r"Got \(2, 5\) and \(7,\)",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_makes_no_sense_is_refused_in_a_sentence(what):
    do, sentence = REFUSED[what]

    with pytest.raises(ValueError, match=sentence):
        do()


@pytest.mark.parametrize("name", losses.CLASSES)
def test_a_loss_is_made_again_from_its_configuration(name):
    original = losses.get(name)

    again = losses.deserialize(losses.serialize(original))

    assert type(again) is type(original)
    assert again.get_config() == original.get_config()
    assert again.get_config()["reduction"] == "sum_over_batch_size"


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("mse", "mean_squared_error"),
        ("MAE", "mean_absolute_error"),
        ("mape", "mean_absolute_percentage_error"),
        ("msle", "mean_squared_logarithmic_error"),
        ("bce", "binary_crossentropy"),
        ("kld", "kl_divergence"),
        ("circle", "circle"),
        ("categorical_generalized_cross_entropy", "categorical_generalized_cross_entropy"),
        ("sparse_categorical_crossentropy", "sparse_categorical_crossentropy"),
    ],
)
def test_names_in_one_case_are_functions_of_one_number_per_sample(alias, name):
    assert losses.get(alias) is getattr(losses, name)
    assert losses.serialize(losses.get(alias)) == name


def test_objects_functions_classes_and_none_pass_through_get():
    loss = losses.Huber()

    assert losses.get(loss) is loss
    assert losses.get(losses.huber) is losses.huber
    assert isinstance(losses.get(losses.Huber), losses.Huber)
    assert losses.get(None) is None


def test_a_configuration_may_name_a_class_of_the_user():
    class Own(losses.LossFunctionWrapper):
        def __init__(self, power=1.0, name="own"):
            super().__init__(lambda y_true, y_pred: abs(y_true - y_pred) ** power, name=name)

    again = losses.deserialize(losses.serialize(Own(3.0)), custom_objects={"Own": Own})

    assert float(again([1.0], [3.0])) == 8.0


def test_an_unknown_reduction_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"one of 'sum_over_batch_size', .* Got 'average'"):
        losses.MeanSquaredError(reduction="average")


def test_an_unknown_name_gets_a_hint():
    with pytest.raises(ValueError, match="Did you mean 'mean_squared_error'"):
        losses.get("mean_square_error")
