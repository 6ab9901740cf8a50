"""Metrics with the names and defaults of Keras: classes, functions, and a lookup by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.keras.absent import absent_name as _absent_name
from tapegrad.keras.configured import Table, described, subclasses
from tapegrad.keras.losses import (
    binary_crossentropy,
    binary_focal_crossentropy,
    categorical_crossentropy,
    categorical_focal_crossentropy,
    categorical_hinge,
    hinge,
    huber,
    kl_divergence,
    log_cosh,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_squared_error,
    mean_squared_logarithmic_error,
    poisson,
    sparse_categorical_crossentropy,
    squared_hinge,
)
from tapegrad.keras.losses.short_names import (
    BCE,
    KLD,
    MAE,
    MAPE,
    MSE,
    MSLE,
    bce,
    kld,
    kullback_leibler_divergence,
    logcosh,
    mae,
    mape,
    mse,
    msle,
)
from tapegrad.keras.metrics.accuracy import (
    Accuracy,
    BinaryAccuracy,
    CategoricalAccuracy,
    SparseCategoricalAccuracy,
    SparseTopKCategoricalAccuracy,
    TopKCategoricalAccuracy,
    accuracy_for,
)
from tapegrad.keras.metrics.confusion import (
    F1Score,
    FalseNegatives,
    FalsePositives,
    FBetaScore,
    Precision,
    Recall,
    TrueNegatives,
    TruePositives,
)
from tapegrad.keras.metrics.crossentropy import (
    BinaryCrossentropy,
    CategoricalCrossentropy,
    SparseCategoricalCrossentropy,
)
from tapegrad.keras.metrics.curves import (
    AUC,
    PrecisionAtRecall,
    RecallAtPrecision,
    SensitivityAtSpecificity,
    SpecificityAtSensitivity,
)
from tapegrad.keras.metrics.explained import R2Score
from tapegrad.keras.metrics.functions import (
    binary_accuracy,
    categorical_accuracy,
    concordance_correlation,
    pearson_correlation,
    sparse_categorical_accuracy,
    sparse_top_k_categorical_accuracy,
    top_k_categorical_accuracy,
)
from tapegrad.keras.metrics.metric import Metric
from tapegrad.keras.metrics.overlap import BinaryIoU, IoU, MeanIoU, OneHotIoU, OneHotMeanIoU
from tapegrad.keras.metrics.reduction import Mean, MeanMetricWrapper, Sum
from tapegrad.keras.metrics.regression import (
    CategoricalHinge,
    ConcordanceCorrelation,
    CosineSimilarity,
    Hinge,
    KLDivergence,
    LogCoshError,
    MeanAbsoluteError,
    MeanAbsolutePercentageError,
    MeanSquaredError,
    MeanSquaredLogarithmicError,
    PearsonCorrelation,
    Poisson,
    RootMeanSquaredError,
    SquaredHinge,
)
from tapegrad.keras.registry import custom_object_scope, get_registered_name

CLASSES = Table(
    "metric",
    {
        **subclasses(Metric, globals()),
        "bce": BinaryCrossentropy,
        "mae": MeanAbsoluteError,
        "mape": MeanAbsolutePercentageError,
        "mse": MeanSquaredError,
        "msle": MeanSquaredLogarithmicError,
    },
)


def get(identifier: Any) -> Any:
    """Return the metric for a name, a configuration or a class; return a metric unchanged.

    "accuracy" is the fraction of predictions that equal their labels. `accuracy_for` chooses the
    accuracy for a model by the shapes of labels and predictions.

    >>> get("mse"), get("top_k_categorical_accuracy").name
    (<MeanSquaredError name=mean_squared_error>, 'top_k_categorical_accuracy')
    """
    return CLASSES.get(identifier)


def serialize(metric: Any) -> Any:
    """Return a name or a configuration from which `deserialize` creates the same metric.

    The state is not included.

    >>> serialize(BinaryAccuracy(threshold=0.7))["config"]["threshold"]
    0.7
    """
    if isinstance(metric, Metric):
        return described(metric)
    return None if metric is None else get_registered_name(metric)


def deserialize(config: Any, custom_objects: Mapping[str, Any] | None = None) -> Any:
    """Create a metric from the result of `serialize`; `custom_objects` are searched first.

    >>> deserialize(serialize(BinaryAccuracy(threshold=0.7))).get_config()["threshold"]
    0.7
    """
    with custom_object_scope(custom_objects):
        return get(config)


__all__ = [
    "Metric", "AUC", "Accuracy", "BinaryAccuracy", "BinaryCrossentropy", "BinaryIoU",
    "CategoricalAccuracy", "CategoricalCrossentropy", "CategoricalHinge", "ConcordanceCorrelation",
    "CosineSimilarity", "F1Score", "FBetaScore", "FalseNegatives", "FalsePositives", "Hinge", "IoU",
    "KLDivergence", "LogCoshError", "Mean", "MeanAbsoluteError", "MeanAbsolutePercentageError",
    "MeanIoU", "MeanMetricWrapper", "MeanSquaredError", "MeanSquaredLogarithmicError", "OneHotIoU",
    "OneHotMeanIoU", "PearsonCorrelation", "Poisson", "Precision", "PrecisionAtRecall", "R2Score",
    "Recall", "RecallAtPrecision", "RootMeanSquaredError", "SensitivityAtSpecificity",
    "SparseCategoricalAccuracy", "SparseCategoricalCrossentropy", "SparseTopKCategoricalAccuracy",
    "SpecificityAtSensitivity", "SquaredHinge", "Sum", "TopKCategoricalAccuracy", "TrueNegatives",
    "TruePositives", "binary_accuracy", "binary_crossentropy", "binary_focal_crossentropy",
    "categorical_accuracy", "categorical_crossentropy", "categorical_focal_crossentropy",
    "categorical_hinge", "concordance_correlation", "hinge", "huber", "kl_divergence", "log_cosh",
    "mean_absolute_error", "mean_absolute_percentage_error", "mean_squared_error",
    "mean_squared_logarithmic_error", "pearson_correlation", "poisson",
    "sparse_categorical_accuracy", "sparse_categorical_crossentropy",
    "sparse_top_k_categorical_accuracy", "squared_hinge", "top_k_categorical_accuracy",
    "BCE", "KLD", "MAE", "MAPE", "MSE", "MSLE", "bce", "kld", "kullback_leibler_divergence",
    "logcosh", "mae", "mape", "mse", "msle", "accuracy_for", "deserialize", "get", "serialize",
]  # fmt: skip

_check_calls(globals(), __all__)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise _absent_name("keras.metrics", name, __all__)
