"""Every metric, loss and small object of Keras: configurations, and the state of metrics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad import keras
from tapegrad.keras import constraints, initializers, losses, metrics, regularizers
from tapegrad.keras.optimizers import schedules
from tests.compatibility.cases import Case, Outcome, fingerprint, load_configs, save_configs

_rng = np.random.default_rng(9)
SCORES = _rng.uniform(0.1, 0.9, size=(4, 3)).astype("float32")
TRUTHS = np.eye(3, dtype="float32")[[0, 2, 1, 2]]
CLASSES = np.array([0, 2, 1, 2])
CHANCES = SCORES / SCORES.sum(axis=1, keepdims=True)

ARGUMENTS: dict[str, dict[str, Any]] = {
    "AUC": {"num_thresholds": 5, "curve": "PR"},
    "BinaryIoU": {"target_class_ids": [1]},
    "F1Score": {"average": "macro"},
    "FBetaScore": {"beta": 0.5},
    "IoU": {"num_classes": 3, "target_class_ids": [0, 1]},
    "MeanIoU": {"num_classes": 3},
    "MeanMetricWrapper": {"fn": metrics.mean_squared_error, "name": "wrapped"},
    "OneHotIoU": {"num_classes": 3, "target_class_ids": [2]},
    "OneHotMeanIoU": {"num_classes": 3},
    "Precision": {"thresholds": [0.25, 0.5]},
    "PrecisionAtRecall": {"recall": 0.5, "num_thresholds": 5},
    "RecallAtPrecision": {"precision": 0.5, "num_thresholds": 5},
    "SensitivityAtSpecificity": {"specificity": 0.5, "num_thresholds": 5},
    "SparseTopKCategoricalAccuracy": {"k": 2},
    "SpecificityAtSensitivity": {"sensitivity": 0.5, "num_thresholds": 5},
    "TopKCategoricalAccuracy": {"k": 2},
}
"""Arguments of the metrics that need some, or whose defaults would make large files."""


def _given(name: str) -> tuple[Any, ...]:
    """Return what a metric or a loss is called with."""
    if name in ("Mean", "Sum"):
        return (SCORES,)
    if name in ("IoU", "MeanIoU"):
        return CLASSES, np.array([0, 1, 1, 2])
    if name.startswith("Sparse") or name in ("CategoricalGeneralizedCrossEntropy", "Circle"):
        return CLASSES, CHANCES
    return TRUTHS, CHANCES


def _classes(module: Any, base: Any, *apart: str) -> dict[str, Any]:
    """Return the public classes by name, each once: some have further names."""
    public = [getattr(module, name) for name in module.__all__]
    kinds = [one for one in public if isinstance(one, type) and issubclass(one, base)]
    return {kind.__name__: kind for kind in kinds if kind.__name__ not in apart}


# Metrics


def _write_metrics(folder: Path) -> Outcome:
    kinds = _classes(metrics, metrics.Metric, "Metric")
    made = {name: kind(**ARGUMENTS.get(name, {})) for name, kind in kinds.items()}
    save_configs(made, folder)
    _update(made)
    tf.train.Checkpoint(metrics=made).write(folder / "metrics")
    return _observe_metrics(made)


def _read_metrics(folder: Path) -> Outcome:
    made = load_configs(folder)
    _update(made)  # some metrics make their variables when they first see data
    for one in made.values():
        one.reset_state()
    tf.train.Checkpoint(metrics=made).read(folder / "metrics").assert_consumed()
    return _observe_metrics(made)


def _update(made: dict[str, Any]) -> None:
    for name, metric in made.items():
        metric.update_state(*_given(name))


def _observe_metrics(made: dict[str, Any]) -> Outcome:
    stored = {name: fingerprint(one.variables) for name, one in made.items()}
    results = {name: one.result() for name, one in made.items()}
    for name, metric in made.items():
        metric.update_state(*[value[::-1][:3] for value in _given(name)])
    later = {name: one.result() for name, one in made.items()}
    return Outcome(stored, {"results": results, "results later": later})


# Objects without state


def _rest() -> dict[str, Any]:
    plain = _classes(losses, losses.Loss, "Loss", "LossFunctionWrapper", "CTC")
    draws = _classes(
        initializers, initializers.Initializer, "Initializer", "RandomInitializer", "Constant"
    )
    unseeded = {"Identity", "Ones", "Zeros"}
    return {
        **{f"losses/{name}": kind() for name, kind in plain.items()},
        **{
            f"initializers/{name}": kind() if name in unseeded else kind(seed=3)
            for name, kind in draws.items()
        },
        "initializers/Constant": initializers.Constant(0.5),
        "regularizers/L1": regularizers.L1(0.1),
        "regularizers/L2": regularizers.L2(0.1),
        "regularizers/L1L2": regularizers.L1L2(0.1, 0.2),
        "regularizers/OrthogonalRegularizer": regularizers.OrthogonalRegularizer(0.1, "columns"),
        "constraints/MaxNorm": constraints.MaxNorm(0.5),
        "constraints/MinMaxNorm": constraints.MinMaxNorm(0.5, 0.75, rate=0.5),
        "constraints/NonNeg": constraints.NonNeg(),
        "constraints/UnitNorm": constraints.UnitNorm(1),
        "schedules/CosineDecay": schedules.CosineDecay(0.1, 10, warmup_target=0.2, warmup_steps=2),
        "schedules/CosineDecayRestarts": schedules.CosineDecayRestarts(0.1, 4),
        "schedules/ExponentialDecay": schedules.ExponentialDecay(0.1, 4, 0.5, staircase=True),
        "schedules/InverseTimeDecay": schedules.InverseTimeDecay(0.1, 4, 0.5),
        "schedules/PiecewiseConstantDecay": schedules.PiecewiseConstantDecay(
            [2, 5], [1.0, 0.5, 0.1]
        ),
        "schedules/PolynomialDecay": schedules.PolynomialDecay(0.1, 4, power=2.0),
        "activations": [getattr(keras.activations, name) for name in _activations()],
    }


def _activations() -> list[str]:
    apart = {"get", "serialize", "deserialize", "threshold"}  # the last needs more arguments
    return [name for name in keras.activations.__all__ if name not in apart]


CALLS: dict[str, Callable[[str, Any], Any]] = {
    "losses": lambda name, one: one(*_given(name)),
    "initializers": lambda name, one: one((3, 3)),
    "regularizers": lambda name, one: one(tf.constant(SCORES)),
    "constraints": lambda name, one: one(tf.constant(SCORES - 0.5)),
    "schedules": lambda name, one: [one(step) for step in (1, 3, 6)],
    "activations": lambda name, functions: [
        f(tf.constant(SCORES[:1, :2] - 0.5)) for f in functions
    ],
}


def _write_rest(folder: Path) -> Outcome:
    made = _rest()
    save_configs(made, folder)
    return _observe_rest(made)


def _read_rest(folder: Path) -> Outcome:
    return _observe_rest(load_configs(folder))


def _observe_rest(made: dict[str, Any]) -> Outcome:
    found = {}
    for path, one in made.items():
        family, _, name = path.partition("/")
        found[path] = CALLS[family](name, one)
    return Outcome({"names": list(made)}, found)


CASES = {
    "metrics": Case(_write_metrics, _read_metrics),
    "configurations": Case(_write_rest, _read_rest),
}
