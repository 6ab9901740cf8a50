"""What all losses share: reductions, sample weights, labels to ignore, names, configurations."""

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
