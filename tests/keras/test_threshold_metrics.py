"""The best metric under a constraint on another one, against a search in NumPy."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from tapegrad.keras import metrics

SAMPLES, CLASSES = 60, 3
BATCHES = (slice(0, 25), slice(25, SAMPLES))

random = np.random.default_rng(13)
BITS = random.integers(0, 2, (SAMPLES, CLASSES))
CHANCES = np.clip(0.3 * BITS + random.uniform(0.0, 0.7, size=(SAMPLES, CLASSES)), 0, 1)
CHANCES[:2] = [[0.0, 1.0, 0.5], [1.0, 0.0, 0.25]]
WEIGHTS = random.uniform(0.1, 2.0, SAMPLES)


def divide(x, y):
    return x / y if y else 0.0


def shares(y_true, y_pred, weights, threshold):
    """Sensitivity (which is recall), specificity and precision of what is above a threshold."""
    above, ones = y_pred > threshold, y_true == 1
    tp, fp, tn, fn = (
        (weights * hit).sum()
        for hit in (above & ones, above & ~ones, ~above & ~ones, ~above & ones)
    )
    return {
        "recall": divide(tp, tp + fn),
        "sensitivity": divide(tp, tp + fn),
        "specificity": divide(tn, tn + fp),
        "precision": divide(tp, tp + fp),
    }


def best(wanted, held, value, thresholds, y_true, y_pred, weights):
    found = [shares(y_true, y_pred, weights, threshold) for threshold in thresholds]
    return max([one[wanted] for one in found if one[held] >= value], default=0.0)


# What makes the metric, what it finds the largest of, and what it holds.
KINDS = {
    "sensitivity": (metrics.SensitivityAtSpecificity, "sensitivity", "specificity"),
    "specificity": (metrics.SpecificityAtSensitivity, "specificity", "sensitivity"),
    "precision": (metrics.PrecisionAtRecall, "precision", "recall"),
    "recall": (metrics.RecallAtPrecision, "recall", "precision"),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def updated(metric, y_true, y_pred, weights=None):
    for part in BATCHES:
        weight = None if weights is None else weights[part]
        metric.update_state(y_true[part], y_pred[part], sample_weight=weight)
    return metric.result().numpy()


@every_kind
@pytest.mark.parametrize("value", [0.0, 0.3, 0.7, 0.95, 1.0])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_the_best_share_is_found_among_all_thresholds(kind, value, weights):
    make, wanted, held = KINDS[kind]
    metric = make(value, dtype="float64")

    found = updated(metric, BITS[:, 0], CHANCES[:, 0], weights)

    weights = np.ones(SAMPLES) if weights is None else weights
    thresholds = np.linspace(0, 1, 200)
    expected = best(wanted, held, value, thresholds, BITS[:, 0], CHANCES[:, 0], weights)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@every_kind
@pytest.mark.parametrize(
    ("number", "thresholds"), [(1, [0.5]), (2, [0.0, 1.0]), (3, [0.0, 0.5, 1.0])]
)
def test_there_may_be_few_thresholds(kind, number, thresholds):
    make, wanted, held = KINDS[kind]
    metric = make(0.4, num_thresholds=number, dtype="float64")

    found = updated(metric, BITS[:, 1], CHANCES[:, 1])

    expected = best(wanted, held, 0.4, thresholds, BITS[:, 1], CHANCES[:, 1], np.ones(SAMPLES))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert metric.thresholds == thresholds


@every_kind
def test_a_class_can_be_looked_at_alone(kind):
    make, wanted, held = KINDS[kind]
    metric = make(0.6, class_id=2, dtype="float64")

    found = updated(metric, BITS, CHANCES, WEIGHTS)

    thresholds = np.linspace(0, 1, 200)
    expected = best(wanted, held, 0.6, thresholds, BITS[:, 2], CHANCES[:, 2], WEIGHTS)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_all_classes_count_together_otherwise():
    found = updated(metrics.RecallAtPrecision(0.7, dtype="float64"), BITS, CHANCES, WEIGHTS)

    weights = np.repeat(WEIGHTS, CLASSES)
    thresholds = np.linspace(0, 1, 200)
    args = thresholds, BITS.ravel(), CHANCES.ravel(), weights
    np.testing.assert_allclose(found, best("recall", "precision", 0.7, *args), rtol=1e-12)


@pytest.mark.parametrize("number", [2, 3])
def test_predictions_above_one_are_not_above_the_last_threshold(number):
    metric = metrics.PrecisionAtRecall(0.0, num_thresholds=number)

    metric.update_state([1, 0], [7.0, -7.0])

    assert metric.true_positives.numpy().tolist() == [1.0] * (number - 1) + [0.0]
    assert metric.true_negatives.numpy().tolist() == [1.0] * number


@every_kind
def test_without_data_or_with_weights_of_zero_the_result_is_zero(kind):
    metric = KINDS[kind][0](0.0)
    assert float(metric.result()) == 0.0

    metric.update_state([0, 1], [0.2, 0.8], sample_weight=[0.0, 0.0])

    assert float(metric.result()) == 0.0


ONLY = {"sensitivity": (0, 0), "specificity": (0, 0), "precision": (0, 1), "recall": (0, 1)}


@every_kind
@pytest.mark.parametrize("label", [0, 1])
def test_labels_of_one_kind_leave_shares_of_the_other_at_zero(kind, label):
    found = KINDS[kind][0](0.5)([label, label], [0.3, 0.6])

    assert float(found) == ONLY[kind][label]


@every_kind
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_counts_may_be_in_half_precision(kind, dtype):
    y_true, y_pred = [0, 0, 0, 0, 1, 1], [0.0, 0.1, 0.3, 0.8, 0.3, 0.9]

    found = KINDS[kind][0](0.5, dtype=dtype)(y_true, y_pred)

    assert found.dtype == dtype
    args = np.linspace(0, 1, 200), np.array(y_true), np.array(y_pred), np.ones(6)
    np.testing.assert_allclose(float(found), best(*KINDS[kind][1:], 0.5, *args), rtol=2**-8)


@every_kind
def test_what_is_held_has_its_name_in_the_constructor_the_object_and_its_configuration(kind):
    make, _, held = KINDS[kind]

    metric = make(**{held: 0.25}, num_thresholds=5, class_id=1, name="own", dtype="float64")

    assert getattr(metric, held) == 0.25
    expected = {held: 0.25, "num_thresholds": 5, "class_id": 1, "name": "own", "dtype": "float64"}
    assert metric.get_config() == expected


def test_the_counts_are_the_state_under_their_names():
    metric = metrics.PrecisionAtRecall(0.5, num_thresholds=3)
    metric.update_state([1, 0, 1], [0.9, 0.8, 0.2])

    named = (
        metric.true_positives,
        metric.false_positives,
        metric.true_negatives,
        metric.false_negatives,
    )
    counts = [count.numpy().tolist() for count in named]
    assert counts == [[2, 1, 0], [1, 1, 0], [0, 0, 1], [0, 1, 2]]
    assert [id(count) for count in named] == [id(variable) for variable in metric.variables]


def test_a_copy_counts_for_itself():
    metric = metrics.RecallAtPrecision(0.5, num_thresholds=3)
    metric.update_state([1, 0], [0.9, 0.8])

    twin = copy.deepcopy(metric)
    twin.update_state([1, 0], [0.9, 0.8])

    assert metric.true_positives.numpy().tolist() == [1.0, 1.0, 0.0]
    assert twin.true_positives.numpy().tolist() == [2.0, 2.0, 0.0]
    assert float(twin.result()) == float(metric.result()) == 1.0


def test_precision_and_recall_keep_the_counts_that_they_need():
    precision, recall = metrics.Precision(), metrics.Recall()
    for metric in (precision, recall):
        metric.update_state([1, 0, 1, 0], [0.9, 0.8, 0.2, 0.7])

    assert (
        precision.true_positives.numpy().tolist() == recall.true_positives.numpy().tolist() == [1]
    )
    assert precision.false_positives.numpy().tolist() == [2]
    assert recall.false_negatives.numpy().tolist() == [1]
    assert [v.name for v in precision.variables] == ["true_positives:0", "false_positives:0"]
    assert [v.name for v in recall.variables] == ["true_positives:0", "false_negatives:0"]
