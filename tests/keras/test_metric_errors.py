"""Error messages of metrics."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad
from tapegrad.keras import Sequential, layers, metrics

REFUSED = {
    "threshold": (lambda: metrics.Precision(thresholds=[0.2, 1.5]), "number from 0 to 1"),
    "average": (lambda: metrics.F1Score(average="mean"), "'macro' or 'weighted'. Got 'mean'"),
    "beta": (lambda: metrics.FBetaScore(beta=0.0), "must be above 0. Got 0.0"),
    "one threshold": (lambda: metrics.F1Score(threshold=0.0), "above 0 and at most 1. Got 0.0"),
    "curve": (lambda: metrics.AUC(curve="DET"), "one of 'ROC', 'PR', 'PRGAIN'. Got 'DET'"),
    "method": (lambda: metrics.AUC(summation_method="mid"), "'majoring'. Got 'mid'"),
    "points": (lambda: metrics.AUC(1), "num_thresholds of 2 or more. Got 1"),
    "levels": (lambda: metrics.AUC(thresholds=[2.0]), "thresholds of AUC must be from 0 to 1"),
    "labels": (lambda: metrics.AUC(num_labels=3), "only with multi_label=True"),
    "no labels yet": (lambda: metrics.AUC(multi_label=True).result(), "before its first update"),
    "vector": (lambda: metrics.AUC(multi_label=True)([1], [0.5]), r"\(samples, labels\). Got"),
    "vectors": (lambda: metrics.F1Score()([1], [0.5]), r"\(samples, classes\). Got \(1,\)"),
    "no score yet": (lambda: metrics.F1Score().result(), "before its first update_state"),
    "class of a vector": (lambda: metrics.Recall(class_id=0)([1], [0.5]), "With top_k or class_id"),
    "class that is not there": (
        lambda: metrics.Recall(class_id=2)([[1, 0]], [[0.5, 0.2]]),
        r"class_id=2 is not among the 2 classes of predictions of shape \(1, 2\)",
    ),
    "value to hold": (
        lambda: metrics.RecallAtPrecision(1.5),
        "RecallAtPrecision takes a value from 0 to 1 .* Got 1.5 and 200",
    ),
    "no share": (lambda: metrics.PrecisionAtRecall(float("nan")), "from 0 to 1 .* Got nan"),
    "no thresholds": (
        lambda: metrics.SensitivityAtSpecificity(0.5, num_thresholds=0),
        "num_thresholds above 0. Got 0.5 and 0",
    ),
    "class of a vector of answers": (
        lambda: metrics.SpecificityAtSensitivity(0.5, class_id=0)([1], [0.5]),
        "With top_k or class_id",
    ),
    "target": (lambda: metrics.IoU(3, [0, 3]), r"target_class_ids in range\(3\). Got \[0, 3\]"),
    "target below 0": (lambda: metrics.OneHotIoU(3, [-1]), r"OneHotIoU takes .* Got \[-1\]"),
    "no target": (lambda: metrics.BinaryIoU([]), r"in range\(2\). Got \[\]"),
    "no classes": (lambda: metrics.MeanIoU(0), r"MeanIoU takes .* in range\(0\)"),
    "aggregation": (lambda: metrics.R2Score("sum"), "'variance_weighted_average'. Got 'sum'"),
    "regressors": (lambda: metrics.R2Score(num_regressors=-1), "0 or more. Got -1"),
    "outputs": (lambda: metrics.R2Score()([[1.0]], [[1.0, 2.0]]), "of the same shape"),
    "no variance yet": (lambda: metrics.R2Score().result(), "before its first update_state"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_makes_no_sense_is_refused_in_a_sentence(what):
    do, sentence = REFUSED[what]

    with pytest.raises(ValueError, match=sentence):
        do()


class Largest(metrics.Metric):
    """Forgets to call a method, in one of three ways."""

    def __init__(self, way):
        super().__init__(name="largest")
        self.v = self.add_variable((), name="v")
        self.way = way

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.v.assign(1.0)

    def result(self):
        ways = {"method": self.v.numpy, "inside": {"a": self.v.read_value}, "function": lambda: 1.0}
        return ways[self.way]


@pytest.mark.parametrize("way", ["method", "inside", "function"])
def test_a_result_that_was_not_called_is_refused(way):
    with pytest.raises(
        TypeError, match=r"result\(\) of metric 'largest' must return .* not called"
    ):
        Largest(way).result()
    with pytest.raises(TypeError, match=r"result\(\) of metric 'largest'"):
        Largest(way)([1.0], [1.0])
    model = Sequential([layers.Dense(1)])
    model.compile("sgd", "mse", metrics=[Largest(way)])
    with pytest.raises(TypeError, match=r"result\(\) of metric 'largest'"):
        model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0)


def test_a_step_that_returns_a_method_is_refused():
    class Own(Sequential):
        def train_step(self, data):
            return {"loss": tapegrad.Variable(1.0).read_value}

    model = Own([layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.raises(TypeError, match=r"The step, for 'loss', must return"):
        model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0)


RESULTS = {
    "None": lambda metric: None,
    "text": lambda metric: "good",
    "a class": lambda metric: float,
    "a generator": lambda metric: (one for one in [1.0]),
    "an object": lambda metric: object(),
    "a set": lambda metric: {1.0},
    "text in a dictionary": lambda metric: {"a": 1.0, "b": "good"},
}


def with_result(result):
    class Counted(metrics.Metric):
        def __init__(self):
            super().__init__(name="counted")
            self.total = self.add_weight(shape=(), name="total")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.total.assign_add(1.0)

        def result(self):
            return result(self)

    return Counted()


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_that_is_no_number_is_refused(name):
    with pytest.raises(TypeError, match=r"result\(\) of metric 'counted' must return"):
        with_result(RESULTS[name]).result()


@pytest.mark.parametrize("is_eager", [False, True])
def test_a_dictionary_of_results_is_merged_into_the_logs(is_eager):
    metric = with_result(lambda metric: {"a": metric.total.value(), "b": 2.0})
    model = Sequential([layers.Dense(1)])
    model.compile("sgd", "mse", metrics=[metric], run_eagerly=is_eager)

    history = model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0).history

    assert (history["a"], history["b"]) == ([1.0], [2.0])
