"""IoU metrics against counts of sets in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError
from tapegrad.keras import metrics

PIXELS, CLASSES = 40, 4

random = np.random.default_rng(12)
LABELS, GUESSES = random.integers(0, CLASSES, (2, PIXELS))
WEIGHTS = random.uniform(0.1, 2.0, PIXELS)
SCORES = random.uniform(size=(PIXELS, CLASSES))
BITS, CHANCES = random.integers(0, 2, PIXELS), random.uniform(size=PIXELS)


def overlaps(labels, guesses, wanted, weights=None):
    """Intersection over union of each wanted class that occurs."""
    weights = np.ones(len(labels)) if weights is None else weights
    both = [weights[(labels == k) & (guesses == k)].sum() for k in wanted]
    either = [weights[(labels == k) | (guesses == k)].sum() for k in wanted]
    return [a / b for a, b in zip(both, either) if b > 0]


def updated(metric, y_true, y_pred, weights=None):
    for part in (slice(0, 15), slice(15, PIXELS)):
        weight = None if weights is None else weights[part]
        metric.update_state(y_true[part], y_pred[part], sample_weight=weight)
    return metric.result().numpy()


def test_the_mean_leaves_out_classes_that_do_not_occur():
    found = updated(metrics.MeanIoU(num_classes=6), LABELS, GUESSES)

    np.testing.assert_allclose(found, np.mean(overlaps(LABELS, GUESSES, range(6))), rtol=1e-6)


@pytest.mark.parametrize("wanted", [[2], [0, 3], [1, 1, 2], [3, 5]])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_some_classes_are_looked_at(wanted, weights):
    metric = metrics.IoU(num_classes=6, target_class_ids=wanted, dtype="float64")

    found = updated(metric, LABELS, GUESSES, weights)

    expected = np.mean(overlaps(LABELS, GUESSES, wanted, weights))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_weights_and_labels_may_be_images():
    metric = metrics.MeanIoU(num_classes=CLASSES, dtype="float64")

    metric.update_state(LABELS.reshape(2, 4, 5), GUESSES.reshape(2, 4, 5), WEIGHTS.reshape(2, 4, 5))

    expected = np.mean(overlaps(LABELS, GUESSES, range(CLASSES), WEIGHTS))
    np.testing.assert_allclose(metric.result().numpy(), expected, rtol=1e-6)


ONE_HOT = {
    "by a mean that is told so": lambda: metrics.MeanIoU(
        CLASSES, ignore_class=2, sparse_y_true=False, sparse_y_pred=False
    ),
    "by one that is made for it": lambda: metrics.OneHotMeanIoU(CLASSES, ignore_class=2),
    "with all classes named": lambda: metrics.OneHotIoU(CLASSES, range(CLASSES), ignore_class=2),
}


@pytest.mark.parametrize("how", ONE_HOT)
def test_labels_may_be_one_hot_and_a_class_ignored(how):
    found = updated(ONE_HOT[how](), np.eye(CLASSES)[LABELS], SCORES)

    kept = LABELS != 2
    expected = np.mean(overlaps(LABELS[kept], SCORES.argmax(-1)[kept], range(CLASSES)))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_predictions_for_one_hot_labels_may_be_class_numbers():
    metric = metrics.OneHotIoU(CLASSES, [1, 2], sparse_y_pred=True, dtype="float32")

    found = updated(metric, np.eye(CLASSES)[LABELS], GUESSES, WEIGHTS)

    expected = np.mean(overlaps(LABELS, GUESSES, [1, 2], WEIGHTS))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_classes_may_lie_along_another_axis():
    images = np.moveaxis(np.eye(CLASSES)[LABELS.reshape(2, 4, 5)], -1, 1)
    scores = np.moveaxis(SCORES.reshape(2, 4, 5, CLASSES), -1, 1)

    found = metrics.OneHotMeanIoU(CLASSES, axis=1)(images, scores)

    expected = np.mean(overlaps(LABELS, SCORES.argmax(-1), range(CLASSES)))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("wanted", [[0], [1], [0, 1]])
@pytest.mark.parametrize("dtype", [None, "float32", "float64", "float16"])
def test_zeros_and_ones_are_told_apart_by_a_threshold(wanted, dtype):
    metric = metrics.BinaryIoU(wanted, threshold=0.3, dtype=dtype)

    found = updated(metric, BITS, CHANCES)

    expected = np.mean(overlaps(BITS, CHANCES >= 0.3, wanted))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_prediction_at_the_threshold_is_a_one():
    metric = metrics.BinaryIoU()

    metric.update_state([[True, False]], tf.constant([[0.5, 0.25]], "float16"))

    assert metric.total_cm.numpy().tolist() == [[1, 0], [0, 1]]


def test_predictions_are_compared_in_single_precision():
    metric = metrics.BinaryIoU(threshold=0.3)

    metric.update_state([1], np.array([0.3 - 1e-12]))

    assert metric.total_cm.numpy().tolist() == [[0, 0], [0, 1]]


def test_labels_outside_the_classes_do_not_count():
    found = metrics.MeanIoU(num_classes=2)([0, 1, 255, -1], [0, 0, 1, 1])

    np.testing.assert_allclose(float(found), 0.25, rtol=1e-6)


def test_unsigned_labels_may_come_with_a_class_to_ignore_that_they_cannot_hold():
    metric = metrics.IoU(CLASSES, [3], ignore_class=-1)

    found = updated(metric, LABELS.astype("uint8"), GUESSES.astype("uint8"))

    np.testing.assert_allclose(found, overlaps(LABELS, GUESSES, [3])[0], rtol=1e-6)


@pytest.mark.parametrize(
    "kind", [metrics.MeanIoU, metrics.OneHotMeanIoU, lambda n: metrics.IoU(n, [0])]
)
def test_without_data_or_with_weights_of_zero_the_result_is_zero(kind):
    metric = kind(2)
    assert float(metric.result()) == 0.0

    labels = [[1, 0], [0, 1]] if isinstance(metric, metrics.OneHotMeanIoU) else [0, 1]
    metric.update_state(labels, labels, sample_weight=[0, 0])

    assert float(metric.result()) == 0.0


def test_a_single_class_covers_itself():
    np.testing.assert_allclose(float(metrics.MeanIoU(1)([0, 0], [0, 0])), 1.0, rtol=1e-6)


@pytest.mark.parametrize("kind", [metrics.MeanIoU, lambda n: metrics.IoU(n, [1])])
def test_integers_warn_of_weights_that_they_would_truncate(kind):
    metric = kind(2)

    name = type(metric).__name__
    with pytest.warns(UserWarning, match=f"^{name} counts in int32 and truncates weights of"):
        metric.update_state([0, 1], [0, 1], sample_weight=np.array([1.0, 2.5]))

    assert metric.variables[0].numpy().tolist() == [[1, 0], [0, 2]]


def test_all_are_kinds_of_the_same_metric():
    assert issubclass(metrics.MeanIoU, metrics.IoU)
    assert issubclass(metrics.BinaryIoU, metrics.IoU)
    assert issubclass(metrics.OneHotIoU, metrics.IoU)
    assert issubclass(metrics.OneHotMeanIoU, metrics.MeanIoU)
    assert metrics.BinaryIoU().get_config() == {
        "target_class_ids": [0, 1],
        "threshold": 0.5,
        "name": None,
        "dtype": None,
    }


@pytest.mark.parametrize("count", [2**62, 2**31, np.uint64(2**64 - 1)])
def test_more_classes_than_memory_holds_are_refused_at_once(count):
    with pytest.raises((ArgumentError, MemoryError)):
        metrics.MeanIoU(num_classes=count)
    with pytest.raises((ArgumentError, MemoryError)):
        metrics.OneHotIoU(num_classes=count, target_class_ids=[0])
