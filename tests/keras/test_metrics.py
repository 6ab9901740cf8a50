"""Metrics that are means against NumPy in float64: recordings, devices, names."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.keras import losses, metrics

SAMPLES, CLASSES = 9, 4
BATCHES = (slice(0, 4), slice(4, 9))

random = np.random.default_rng(7)
LOGITS = random.normal(size=(SAMPLES, CLASSES))
CHANCES = special.softmax(LOGITS, axis=-1)
SIGMOIDS = special.expit(LOGITS)
REALS = random.normal(size=(SAMPLES, CLASSES))
BITS = random.integers(0, 2, (SAMPLES, CLASSES)).astype("float64")
LABELS = random.integers(0, CLASSES, SAMPLES)
ONE_HOT = np.eye(CLASSES)[LABELS]
SHARES = special.softmax(random.normal(size=(SAMPLES, CLASSES)), axis=-1)
WEIGHTS = random.uniform(0.1, 2.0, SAMPLES)


def cross(y, p):
    return -special.xlogy(y, p)


def rank_of_label():
    return (LOGITS[np.arange(SAMPLES), LABELS][:, None] < LOGITS).sum(-1)


def cosine(y, p):
    return (y * p).sum(-1) / np.linalg.norm(y, axis=-1) / np.linalg.norm(p, axis=-1)


def pearson(y, p):
    return np.array([stats.pearsonr(*pair).statistic for pair in zip(y, p)])


def concordance(y, p):
    """Lin's coefficient: Pearson's, times how far scales and places agree."""
    spread = y.var(-1) + p.var(-1) + (y.mean(-1) - p.mean(-1)) ** 2
    return pearson(y, p) * 2 * y.std(-1) * p.std(-1) / (spread + 1e-7)


def margins(y, p):
    return np.maximum(1 - y * p, 0)


# What makes the metric, labels, predictions, and what it is the mean of.
CASES = {
    "accuracy": (metrics.Accuracy, LABELS, rank_of_label(), rank_of_label() == LABELS),
    "binary accuracy": (
        lambda **more: metrics.BinaryAccuracy(threshold=0.4, **more),
        BITS,
        SIGMOIDS,
        ((SIGMOIDS > 0.4) == (BITS == 1)).mean(-1),
    ),
    "categorical accuracy": (
        metrics.CategoricalAccuracy,
        ONE_HOT,
        LOGITS,
        LOGITS.argmax(-1) == LABELS,
    ),
    "sparse accuracy": (
        metrics.SparseCategoricalAccuracy,
        LABELS,
        LOGITS,
        LOGITS.argmax(-1) == LABELS,
    ),
    "sparse accuracy, labels in a column": (
        metrics.SparseCategoricalAccuracy,
        LABELS[:, None],
        LOGITS,
        LOGITS.argmax(-1) == LABELS,
    ),
    "top 2": (
        lambda **more: metrics.TopKCategoricalAccuracy(k=2, **more),
        ONE_HOT,
        LOGITS,
        rank_of_label() < 2,
    ),
    "sparse top 2": (
        lambda **more: metrics.SparseTopKCategoricalAccuracy(k=2, **more),
        LABELS,
        LOGITS,
        rank_of_label() < 2,
    ),
    "sparse top 2 of sorted classes": (
        lambda **more: metrics.SparseTopKCategoricalAccuracy(k=2, from_sorted_ids=True, **more),
        LABELS,
        np.argsort(-LOGITS, axis=-1),
        rank_of_label() < 2,
    ),
    "squares": (metrics.MeanSquaredError, REALS, LOGITS, ((REALS - LOGITS) ** 2).mean(-1)),
    "sizes": (metrics.MeanAbsoluteError, REALS, LOGITS, np.abs(REALS - LOGITS).mean(-1)),
    "percentage": (
        metrics.MeanAbsolutePercentageError,
        REALS,
        LOGITS,
        100 * np.abs(1 - LOGITS / REALS).mean(-1),
    ),
    "logarithms": (
        metrics.MeanSquaredLogarithmicError,
        SHARES,
        CHANCES,
        ((np.log1p(SHARES) - np.log1p(CHANCES)) ** 2).mean(-1),
    ),
    "cosine": (metrics.CosineSimilarity, REALS, LOGITS, cosine(REALS, LOGITS)),
    "pearson": (metrics.PearsonCorrelation, REALS, LOGITS, pearson(REALS, LOGITS)),
    "pearson, labels in another dtype": (
        metrics.PearsonCorrelation,
        LABELS[:, None] - np.arange(CLASSES),
        LOGITS,
        -pearson(np.arange(CLASSES) + np.zeros((SAMPLES, 1)), LOGITS),
    ),
    "concordance": (metrics.ConcordanceCorrelation, REALS, LOGITS, concordance(REALS, LOGITS)),
    "log cosh": (metrics.LogCoshError, REALS, LOGITS, np.log(np.cosh(REALS - LOGITS)).mean(-1)),
    "hinge": (metrics.Hinge, 2 * BITS - 1, LOGITS, margins(2 * BITS - 1, LOGITS).mean(-1)),
    "squared hinge": (
        metrics.SquaredHinge,
        2 * BITS - 1,
        LOGITS,
        (margins(2 * BITS - 1, LOGITS) ** 2).mean(-1),
    ),
    "categorical hinge": (
        metrics.CategoricalHinge,
        ONE_HOT,
        LOGITS,
        np.maximum(1 + ((1 - ONE_HOT) * LOGITS).max(-1) - (ONE_HOT * LOGITS).sum(-1), 0),
    ),
    "divergence": (
        metrics.KLDivergence,
        SHARES,
        CHANCES,
        special.rel_entr(SHARES, CHANCES).sum(-1),
    ),
    "poisson": (
        metrics.Poisson,
        SHARES,
        SIGMOIDS,
        (SIGMOIDS - SHARES * np.log(SIGMOIDS + 1e-7)).mean(-1),
    ),
    "binary cross entropy of logits": (
        lambda **more: metrics.BinaryCrossentropy(from_logits=True, **more),
        BITS,
        LOGITS,
        (cross(BITS, SIGMOIDS) + cross(1 - BITS, 1 - SIGMOIDS)).mean(-1),
    ),
    "categorical cross entropy": (
        metrics.CategoricalCrossentropy,
        ONE_HOT,
        CHANCES,
        cross(ONE_HOT, CHANCES).sum(-1),
    ),
    "sparse cross entropy": (
        metrics.SparseCategoricalCrossentropy,
        LABELS,
        CHANCES,
        cross(ONE_HOT, CHANCES).sum(-1),
    ),
}
every_case = pytest.mark.parametrize("case", CASES)


@every_case
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_a_metric_is_the_mean_over_all_batches(case, weights):
    make, y_true, y_pred, values = CASES[case]
    metric = make(dtype="float64")

    for part in BATCHES:
        weight = None if weights is None else weights[part]
        metric.update_state(y_true[part], y_pred[part], sample_weight=weight)

    expected = np.average(values, weights=weights)
    np.testing.assert_allclose(metric.result().numpy(), expected, rtol=1e-9)


@every_case
def test_updates_in_a_recorded_step_equal_plain_ones(case):
    make, y_true, y_pred, values = CASES[case]
    metric = make(dtype="float64")
    step = tf.function(metric)

    for part in (slice(0, 3), slice(3, 6), slice(6, 9)):
        found = step(tf.constant(y_true[part]), tf.constant(y_pred[part]))

    np.testing.assert_allclose(found.numpy(), np.mean(values), rtol=1e-9)


@pytest.fixture
def strict_device():
    register_backend(strict.StrictBackend())
    yield "strict:0"
    unregister_backend("strict")


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
@every_case
def test_an_update_reads_nothing_from_the_device(case, strict_device):
    make, y_true, y_pred, values = CASES[case]
    with tf.device(strict_device):
        metric = make(dtype="float64")
        arguments = tf.constant(y_true), tf.constant(y_pred)
        with strict.forbidding_reads():
            metric.update_state(*arguments, sample_weight=tf.constant(WEIGHTS))
            result = metric.result()

    expected = np.average(values, weights=WEIGHTS)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-9)
    assert {variable.device for variable in metric.variables} == {strict_device}


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_the_root_is_taken_of_the_mean_over_all_batches(weights):
    metric = metrics.RootMeanSquaredError(dtype="float64")

    for part in BATCHES:
        weight = None if weights is None else weights[part]
        metric.update_state(REALS[part], LOGITS[part], sample_weight=weight)

    squares = ((REALS - LOGITS) ** 2).mean(-1)
    expected = np.sqrt(np.average(squares, weights=weights))
    np.testing.assert_allclose(metric.result().numpy(), expected, rtol=1e-12)


def test_a_mean_counts_samples_by_their_weights():
    metric = metrics.Mean()

    metric.update_state([1.0, 3.0], sample_weight=[1.0, 0.0])
    metric.update_state(5.0)

    assert float(metric.result()) == 3.0


def test_a_mean_of_sequences_takes_weights_per_sample_and_per_step():
    values, per_step = random.normal(size=(4, 3)), random.uniform(size=(4, 3))
    by_sample, by_step = metrics.Mean(dtype="float64"), metrics.Mean(dtype="float64")

    by_sample.update_state(values, WEIGHTS[:4])
    by_step.update_state(values, per_step)

    expected = np.average(values.mean(-1), weights=WEIGHTS[:4])
    np.testing.assert_allclose(by_sample.result().numpy(), expected, rtol=1e-12)
    expected = np.average(values, weights=per_step)
    np.testing.assert_allclose(by_step.result().numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_single_numbers_count_by_their_weights(dtype, recorded):
    one_by_one, at_once = metrics.Mean(), metrics.Mean()
    add = tf.function(one_by_one.add_one) if recorded else one_by_one.add_one
    numbers = [0.5, -2.0, 3.25]

    for number, weight in zip(numbers, [2.0, 2.0, 4.0]):
        add(tf.constant(number, dtype), weight)
    at_once.update_state(numbers, [2.0, 2.0, 4.0])

    assert float(one_by_one.result()) == float(at_once.result()) == 1.25
    assert [v.numpy().dtype for v in one_by_one.variables] == [np.dtype("float32")] * 2


def test_a_sum_adds_weighted_values():
    metric = metrics.Sum(dtype="float64")

    metric.update_state(REALS, sample_weight=WEIGHTS)
    metric.update_state(2.0)

    expected = (REALS * WEIGHTS[:, None]).sum() + 2.0
    np.testing.assert_allclose(metric.result().numpy(), expected, rtol=1e-12)


def test_a_metric_before_its_first_update_is_zero():
    assert float(metrics.Mean().result()) == 0.0


def test_a_reset_metric_begins_anew():
    metric = metrics.MeanSquaredError()
    metric.update_state([[1.0]], [[3.0]])

    metric.reset_state()

    assert float(metric.result()) == 0.0
    assert float(metric([[1.0]], [[2.0]])) == 1.0


def test_ignored_labels_do_not_count_where_samples_have_weights():
    metric = metrics.SparseCategoricalCrossentropy(ignore_class=-1, dtype="float64")
    ignored = np.arange(SAMPLES) % 3 == 0

    metric.update_state(np.where(ignored, -1, LABELS), CHANCES, sample_weight=WEIGHTS)

    values = cross(ONE_HOT, CHANCES).sum(-1)
    expected = np.average(values[~ignored], weights=WEIGHTS[~ignored])
    np.testing.assert_allclose(metric.result().numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("kind", [metrics.PearsonCorrelation, metrics.ConcordanceCorrelation])
@pytest.mark.parametrize("axis", [0, (0, 1)])
def test_a_correlation_may_be_along_other_axes(kind, axis):
    metric = metrics.deserialize(metrics.serialize(kind(dtype="float64", axis=axis)))

    found = metric(REALS, LOGITS)

    formula = pearson if kind is metrics.PearsonCorrelation else concordance
    lines = (REALS.T, LOGITS.T) if axis == 0 else (REALS.reshape(1, -1), LOGITS.reshape(1, -1))
    np.testing.assert_allclose(found.numpy(), formula(*lines).mean(), rtol=1e-9)


def test_integer_predictions_do_not_cut_labels():
    found = metrics.pearson_correlation([0.5, 1.75, 2.0], [1, 3, 2])

    expected = stats.pearsonr([0.5, 1.75, 2.0], [1, 3, 2]).statistic
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_squares_of_predictions_in_half_precision_do_not_overflow():
    found = metrics.concordance_correlation([[1.0, 900.0]], tf.constant([[1.0, 900.0]], "float16"))

    np.testing.assert_allclose(found.numpy(), [1.0], rtol=1e-6)


@pytest.mark.filterwarnings("ignore:invalid value encountered")  # of NumPy, about 0 / 0
def test_what_does_not_vary_has_no_correlation_and_a_concordance_of_zero():
    constant, varied = tf.constant([[2.0, 2.0]]), tf.constant([[1.0, 4.0]])

    assert np.isnan(metrics.pearson_correlation(constant, varied).numpy()).tolist() == [True]
    assert metrics.concordance_correlation(constant, varied).numpy().tolist() == [0.0]


def test_state_is_no_part_of_what_is_trained():
    metric = metrics.Mean()

    with tf.GradientTape() as tape:
        metric.update_state(tf.Variable([1.0, 2.0]))
        metric.result()

    assert [variable.trainable for variable in metric.variables] == [False, False]
    assert all(
        not variable.name.startswith(("total", "count")) for variable in tape.watched_variables()
    )


def test_a_function_with_options_is_a_metric():
    metric = metrics.MeanMetricWrapper(losses.huber, name="robust", dtype="float64", delta=0.5)

    metric.update_state([[0.0, 0.0]], [[0.5, 2.0]])

    np.testing.assert_allclose(metric.result().numpy(), (0.125 + 0.875) / 2, rtol=1e-12)
    assert metric.get_config() == {
        "fn": "huber",
        "name": "robust",
        "dtype": "float64",
        "delta": 0.5,
    }
    assert float(metrics.deserialize(metrics.serialize(metric))([[0.0]], [[0.5]])) == 0.125


def test_a_user_metric_has_variables_that_begin_as_told():
    class Product(metrics.Metric):
        def __init__(self, name="product"):
            super().__init__(name=name)
            self.product = self.add_variable((2,), initializer="ones", name="product")

        def update_state(self, values):
            self.product.assign(self.product * values)

        def result(self):
            return self.product.value()

    metric = Product()

    assert metric([2.0, 3.0]).numpy().tolist() == [2.0, 3.0]
    assert metric([2.0, 3.0]).numpy().tolist() == [4.0, 9.0]
    assert [variable.name for variable in metric.variables] == ["product:0"]


@pytest.mark.parametrize(
    ("y_true", "y_pred", "kind"),
    [
        ((8, 1), (8, 1), metrics.BinaryAccuracy),
        ((8,), (8, 1), metrics.BinaryAccuracy),
        ((8,), (8,), metrics.BinaryAccuracy),
        ((8, 10), (8, 10), metrics.CategoricalAccuracy),
        ((8,), (8, 10), metrics.SparseCategoricalAccuracy),
        ((8, 1), (8, 10), metrics.SparseCategoricalAccuracy),
        ((8, 5), (8, 5, 10), metrics.SparseCategoricalAccuracy),
        ((None, 5, 10), (None, 5, 10), metrics.CategoricalAccuracy),
    ],
)
def test_the_accuracy_of_a_model_is_told_by_the_shapes(y_true, y_pred, kind):
    metric = metrics.accuracy_for(y_true, y_pred, name="acc")

    assert type(metric) is kind
    assert metric.name == "acc"


def test_an_accuracy_without_a_batch_is_refused():
    with pytest.raises(ValueError, match=r"at least a batch axis. Got labels of shape \(\)"):
        metrics.accuracy_for((), ())


NEEDS = {
    "IoU": {"num_classes": 3, "target_class_ids": (0, 2), "ignore_class": -1},
    "MeanIoU": {"num_classes": 3},
    "MeanMetricWrapper": {"fn": losses.huber},
    "OneHotIoU": {"num_classes": 3, "target_class_ids": [1], "axis": 1},
    "OneHotMeanIoU": {"num_classes": 3, "sparse_y_pred": True},
    "PrecisionAtRecall": {"recall": 0.5},
    "RecallAtPrecision": {"precision": 0.5, "class_id": 1},
    "SensitivityAtSpecificity": {"specificity": 0.5, "num_thresholds": 3},
    "SpecificityAtSensitivity": {"sensitivity": 0.5, "name": "told"},
}


@pytest.mark.parametrize("name", [name for name in metrics.CLASSES if name[0].isupper()])
def test_a_metric_is_made_again_from_its_configuration(name):
    original = metrics.CLASSES[name](**NEEDS.get(name, {}))

    again = metrics.deserialize(metrics.serialize(original))

    assert type(again) is type(original)
    assert again.get_config() == original.get_config()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mse", metrics.MeanSquaredError),
        ("MAE", metrics.MeanAbsoluteError),
        ("mape", metrics.MeanAbsolutePercentageError),
        ("msle", metrics.MeanSquaredLogarithmicError),
        ("bce", metrics.BinaryCrossentropy),
        ("accuracy", metrics.Accuracy),
        ("auc", metrics.AUC),
        ("sparse_categorical_accuracy", metrics.SparseCategoricalAccuracy),
        ("RootMeanSquaredError", metrics.RootMeanSquaredError),
        ("pearson_correlation", metrics.PearsonCorrelation),
        ("concordance_correlation", metrics.ConcordanceCorrelation),
        ("binary_io_u", metrics.BinaryIoU),
    ],
)
def test_a_name_gives_a_new_metric(name, kind):
    assert type(metrics.get(name)) is kind
    assert metrics.get(name) is not metrics.get(name)


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="There is no metric 'accurracy'"):
        metrics.get("accurracy")
