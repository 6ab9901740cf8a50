"""Counts at thresholds, precision, recall, F scores, AUC and R²."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.keras import metrics

SAMPLES, CLASSES = 40, 3
BATCHES = (slice(0, 15), slice(15, 40))
EPSILON = 1e-7

random = np.random.default_rng(11)
BITS = random.integers(0, 2, (SAMPLES, CLASSES))
CHANCES = random.uniform(size=(SAMPLES, CLASSES))
CHANCES[:2] = [[0.0, 1.0, 0.5], [1.0, 0.0, 0.25]]
WEIGHTS = random.uniform(0.1, 2.0, SAMPLES)
every_weighting = pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])


def updated(metric, y_true, y_pred, weights=None):
    for part in BATCHES:
        weight = None if weights is None else weights[part]
        metric.update_state(y_true[part], y_pred[part], sample_weight=weight)
    return metric.result().numpy()


def count(kind, threshold, weights, y_true=BITS, y_pred=CHANCES):
    above, ones = y_pred > threshold, y_true == 1
    hit = {"tp": above & ones, "fp": above & ~ones, "tn": ~above & ~ones, "fn": ~above & ones}
    weights = np.ones(len(y_true)) if weights is None else weights
    return (hit[kind] * weights.reshape(-1, *[1] * (hit[kind].ndim - 1))).sum()


KINDS = {
    "tp": metrics.TruePositives,
    "fp": metrics.FalsePositives,
    "tn": metrics.TrueNegatives,
    "fn": metrics.FalseNegatives,
}
LEVELS = {
    "one": [0.3],
    "several": [0.1, 0.5, 0.7],
    "in equal steps": [0.0, 0.25, 0.5, 0.75, 1.0],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("levels", LEVELS)
@every_weighting
def test_answers_are_counted_at_each_threshold(kind, levels, weights):
    metric = KINDS[kind](thresholds=LEVELS[levels], dtype="float64")

    found = updated(metric, BITS, CHANCES, weights)

    expected = [count(kind, level, weights) for level in LEVELS[levels]]
    np.testing.assert_allclose(np.atleast_1d(found), expected, rtol=1e-12)


@every_weighting
def test_precision_and_recall_are_shares_of_the_counts(weights):
    precision = updated(metrics.Precision(thresholds=0.4, dtype="float64"), BITS, CHANCES, weights)
    recall = updated(metrics.Recall(thresholds=0.4, dtype="float64"), BITS, CHANCES, weights)

    tp, fp, fn = (count(kind, 0.4, weights) for kind in ("tp", "fp", "fn"))
    np.testing.assert_allclose(precision, tp / (tp + fp), rtol=1e-12)
    np.testing.assert_allclose(recall, tp / (tp + fn), rtol=1e-12)


def test_of_the_largest_predictions_all_count_as_positive():
    found = updated(metrics.Precision(top_k=2, dtype="float64"), BITS, CHANCES)

    chosen = np.argsort(np.argsort(-CHANCES, -1), -1) < 2
    np.testing.assert_allclose(found, BITS[chosen].mean(), rtol=1e-12)


@every_weighting
def test_a_class_can_be_looked_at_alone(weights):
    found = updated(metrics.Recall(class_id=1, dtype="float64"), BITS, CHANCES, weights)

    tp, fn = (count(k, 0.5, weights, BITS[:, 1], CHANCES[:, 1]) for k in ("tp", "fn"))
    np.testing.assert_allclose(found, tp / (tp + fn), rtol=1e-12)


def test_precision_without_positives_is_zero():
    assert float(metrics.Precision()([1, 0], [0.1, 0.2])) == 0.0


def f_scores(beta, weights, axis=0):
    weights = np.ones(SAMPLES) if weights is None else weights
    above, ones = CHANCES > 0.5, BITS == 1
    tp, fp, fn = (
        (hit * weights[:, None]).sum(axis) for hit in (above & ones, above & ~ones, ~above & ones)
    )
    return (1 + beta**2) * tp / ((1 + beta**2) * tp + beta**2 * fn + fp)


@every_weighting
@pytest.mark.parametrize("average", [None, "micro", "macro", "weighted"])
def test_f_scores_are_averaged(average, weights):
    metric = metrics.FBetaScore(average=average, beta=2.0, threshold=0.5, dtype="float64")

    found = updated(metric, BITS, CHANCES, weights)

    by_class = f_scores(2.0, weights)
    of_class = (BITS * (1 if weights is None else weights[:, None])).sum(0)
    expected = {
        None: by_class,
        "micro": f_scores(2.0, weights, None),
        "macro": by_class.mean(),
        "weighted": np.average(by_class, weights=of_class),
    }
    np.testing.assert_allclose(found, expected[average], rtol=1e-6)


def test_an_f_score_without_a_threshold_takes_the_largest_prediction():
    found = updated(metrics.F1Score(average="micro", dtype="float64"), BITS, CHANCES)

    chosen = np.eye(CLASSES)[CHANCES.argmax(-1)]
    tp = (chosen * BITS).sum()
    np.testing.assert_allclose(found, 2 * tp / (chosen.sum() + BITS.sum()), rtol=1e-6)


def test_the_area_under_roc_is_the_chance_that_a_one_is_above_a_zero():
    y_true, y_pred = BITS[2:, 0], np.round(CHANCES[2:, 0], 2) + 0.005
    metric = metrics.AUC(num_thresholds=101, dtype="float64")

    metric.update_state(y_true, y_pred)

    ones, zeros = y_pred[y_true == 1], y_pred[y_true == 0]
    wins = stats.mannwhitneyu(ones, zeros).statistic
    np.testing.assert_allclose(float(metric.result()), wins / (len(ones) * len(zeros)), rtol=1e-12)


def curve(name, thresholds, weights):
    table = {
        kind: np.array([count(kind, t, weights, BITS[:, 0], CHANCES[:, 0]) for t in thresholds])
        for kind in KINDS
    }
    tp, fp, tn, fn = table["tp"], table["fp"], table["tn"], table["fn"]
    recall = tp / (tp + fn)
    if name == "ROC":
        return fp / (fp + tn), recall
    return recall, np.divide(tp, tp + fp, out=np.zeros_like(tp), where=tp + fp > 0)


@every_weighting
@pytest.mark.parametrize("name", ["ROC", "PR"])
@pytest.mark.parametrize("method", ["minoring", "majoring", "interpolation"])
@pytest.mark.parametrize("inner", [[0.2, 0.3, 0.9], [0.25, 0.5, 0.75]], ids=["any", "even"])
def test_the_area_lies_under_the_drawn_points(name, method, inner, weights):
    metric = metrics.AUC(curve=name, summation_method=method, thresholds=inner, dtype="float64")

    found = updated(metric, BITS[:, 0], CHANCES[:, 0], weights)

    x, y = curve(name, [-EPSILON, *inner, 1 + EPSILON], weights)
    choose = {"minoring": np.minimum, "majoring": np.maximum}
    if name == "PR" and method == "interpolation":
        expected = interpolated(inner, weights)
    elif method == "interpolation":
        expected = np.trapezoid(y[::-1], x[::-1])
    else:
        expected = ((x[:-1] - x[1:]) * choose[method](y[:-1], y[1:])).sum()
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def interpolated(inner, weights):
    """Precision over recall with true positives linear between thresholds, by quadrature."""
    levels = [1 + EPSILON, *reversed(inner), -EPSILON]
    ones, zeros = (
        [count(k, t, weights, BITS[:, 0], CHANCES[:, 0]) for t in levels] for k in ("tp", "fp")
    )
    area = 0.0
    for k in range(len(levels) - 1):
        tp, fp = np.diff(ones)[k], np.diff(zeros)[k]

        def precision(way, k=k, tp=tp, fp=fp):
            hits = ones[k] + way * tp
            return hits / (hits + zeros[k] + way * fp)

        area += integrate.quad(precision, 0, 1)[0] * tp
    return area / ones[-1]


def test_labels_of_several_kinds_have_areas_of_their_own():
    shares = [1.0, 0.0, 3.0]
    plain = metrics.AUC(multi_label=True, num_thresholds=50, dtype="float64")
    weighted = metrics.AUC(
        multi_label=True,
        num_labels=CLASSES,
        num_thresholds=50,
        label_weights=shares,
        dtype="float64",
    )

    found = updated(plain, BITS, CHANCES), updated(weighted, BITS, CHANCES)

    single = [
        updated(metrics.AUC(50, dtype="float64"), BITS[:, k], CHANCES[:, k]) for k in range(CLASSES)
    ]
    expected = np.mean(single), np.average(single, weights=shares)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_labels_of_several_kinds_together_may_have_weights():
    metric = metrics.AUC(50, label_weights=[1.0, 0.0, 0.0], dtype="float64")

    found = updated(metric, BITS, CHANCES)

    expected = updated(metrics.AUC(50, dtype="float64"), BITS[:, 0], CHANCES[:, 0])
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_area_of_logits_is_that_of_their_probabilities():
    inner = slice(2, None)
    logits = np.log(CHANCES[inner, 0] / (1 - CHANCES[inner, 0]))

    found = metrics.AUC(from_logits=True, dtype="float64")(BITS[inner, 0], logits)

    expected = metrics.AUC(dtype="float64")(BITS[inner, 0], CHANCES[inner, 0])
    assert float(found) == float(expected)


LABELS, GUESSES = random.integers(0, 4, (2, SAMPLES))
REALS = random.normal(size=(SAMPLES, CLASSES))
FITS = REALS + random.normal(0.2, 0.4, size=(SAMPLES, CLASSES))


def explained(weights):
    weights = np.ones(SAMPLES) if weights is None else weights
    centre = np.average(REALS, axis=0, weights=weights)
    left = (weights[:, None] * (REALS - FITS) ** 2).sum(0)
    spread = (weights[:, None] * (REALS - centre) ** 2).sum(0)
    return 1 - left / spread, spread


@every_weighting
@pytest.mark.parametrize("how", [None, "uniform_average", "variance_weighted_average"])
def test_explained_variance_is_averaged_over_outputs(how, weights):
    found = updated(metrics.R2Score(class_aggregation=how, dtype="float64"), REALS, FITS, weights)

    scores, spread = explained(weights)
    expected = {
        None: scores,
        "uniform_average": scores.mean(),
        "variance_weighted_average": np.average(scores, weights=spread),
    }
    np.testing.assert_allclose(found, expected[how], rtol=1e-10)


@pytest.mark.parametrize(("regressors", "is_adjusted"), [(3, True), (39, False), (60, False)])
def test_explained_variance_is_adjusted_where_there_are_samples_enough(regressors, is_adjusted):
    metric = metrics.R2Score(num_regressors=regressors, dtype="float64")

    found = updated(metric, REALS[:, :1], FITS[:, :1])

    score = explained(None)[0][0]
    adjusted = 1 - (1 - score) * (SAMPLES - 1) / (SAMPLES - regressors - 1 or np.nan)
    np.testing.assert_allclose(found, adjusted if is_adjusted else score, rtol=1e-10)


def test_an_output_that_does_not_vary_explains_nothing():
    assert float(metrics.R2Score()([[2.0], [2.0]], [[1.0], [3.0]])) == 0.0


# Scores that make their state at the first update are among them.
SCORES = {
    "counts": (lambda: metrics.FalsePositives([0.2, 0.5]), BITS, CHANCES),
    "precision of the largest": (lambda: metrics.Precision(top_k=1), BITS, CHANCES),
    "recall of a class": (lambda: metrics.Recall(class_id=1), BITS, CHANCES),
    "f score": (lambda: metrics.F1Score(average="macro"), BITS, CHANCES),
    "area": (lambda: metrics.AUC(curve="PR"), BITS, CHANCES),
    "areas of labels": (lambda: metrics.AUC(multi_label=True), BITS, CHANCES),
    "areas by gain": (lambda: metrics.AUC(curve="PRGAIN", thresholds=[0.3, 0.4]), BITS, CHANCES),
    "best precision": (lambda: metrics.PrecisionAtRecall(0.6), BITS, CHANCES),
    "best recall of a class": (
        lambda: metrics.RecallAtPrecision(0.5, class_id=1),
        BITS,
        CHANCES,
    ),
    "best sensitivity": (lambda: metrics.SensitivityAtSpecificity(0.5, 1), BITS, CHANCES),
    "best specificity": (lambda: metrics.SpecificityAtSensitivity(0.5, 2), BITS, CHANCES),
    "intersection": (lambda: metrics.MeanIoU(4), LABELS, GUESSES),
    "intersection of some": (lambda: metrics.IoU(4, [1, 3], ignore_class=0), LABELS, GUESSES),
    "intersection of ones": (lambda: metrics.BinaryIoU([1]), BITS, CHANCES),
    "intersection of one-hot labels": (lambda: metrics.OneHotIoU(3, [0]), BITS, CHANCES),
    "mean of one-hot labels": (lambda: metrics.OneHotMeanIoU(3), BITS, CHANCES),
    "explained variance": (lambda: metrics.R2Score(num_regressors=2), REALS, FITS),
}
every_score = pytest.mark.parametrize("score", SCORES)


@every_score
def test_updates_in_a_recorded_step_equal_plain_ones(score):
    make, y_true, y_pred = SCORES[score]
    metric, plain = make(), make()
    step = tf.function(metric.update_state)

    for part in (slice(0, 20), slice(20, 40)):
        step(tf.constant(y_true[part]), tf.constant(y_pred[part]))
        plain.update_state(y_true[part], y_pred[part])

    np.testing.assert_allclose(metric.result().numpy(), plain.result().numpy(), rtol=1e-6)


@pytest.fixture
def strict_device():
    register_backend(strict.StrictBackend())
    yield "strict:0"
    unregister_backend("strict")


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
@every_score
def test_neither_update_nor_result_reads_from_the_device(score, strict_device):
    make, y_true, y_pred = SCORES[score]
    with tf.device(strict_device):
        metric = make()
        arguments = tf.constant(y_true), tf.constant(y_pred)
        with strict.forbidding_reads():
            result = metric(*arguments)

    expected = make()(y_true, y_pred)
    np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-6)
    assert {variable.device for variable in metric.variables} == {strict_device}


@every_score
def test_a_reset_score_begins_anew(score):
    make, y_true, y_pred = SCORES[score]
    metric = make()
    first = metric(y_true, y_pred).numpy()

    metric.reset_state()

    np.testing.assert_array_equal(metric(y_true, y_pred).numpy(), first)
