"""Losses with the names and defaults of Keras: classes, functions, and a lookup by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.keras.absent import absent_name as _absent_name
from tapegrad.keras.configured import Configured, Table, described, in_small_letters, subclasses
from tapegrad.keras.losses.alignment import CTC, ctc
from tapegrad.keras.losses.crossentropy import (
    BinaryCrossentropy,
    BinaryFocalCrossentropy,
    CategoricalCrossentropy,
    CategoricalFocalCrossentropy,
    CategoricalGeneralizedCrossEntropy,
    SparseCategoricalCrossentropy,
)
from tapegrad.keras.losses.crossentropy_functions import (
    binary_crossentropy,
    binary_focal_crossentropy,
    categorical_crossentropy,
    categorical_focal_crossentropy,
    categorical_generalized_cross_entropy,
    sparse_categorical_crossentropy,
)
from tapegrad.keras.losses.loss import Loss, LossFunctionWrapper
from tapegrad.keras.losses.reduction import Reduction
from tapegrad.keras.losses.regression import (
    CategoricalHinge,
    Circle,
    CosineSimilarity,
    Dice,
    Hinge,
    Huber,
    KLDivergence,
    LogCosh,
    MeanAbsoluteError,
    MeanAbsolutePercentageError,
    MeanSquaredError,
    MeanSquaredLogarithmicError,
    Poisson,
    SquaredHinge,
    Tversky,
)
from tapegrad.keras.losses.regression_functions import (
    categorical_hinge,
    circle,
    cosine_similarity,
    dice,
    hinge,
    huber,
    kl_divergence,
    log_cosh,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_squared_error,
    mean_squared_logarithmic_error,
    poisson,
    squared_hinge,
    tversky,
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
from tapegrad.keras.registry import custom_object_scope, get_registered_name

CLASSES = Table("loss", subclasses(LossFunctionWrapper, globals()))


def get(identifier: Any) -> Any:
    """Return the loss for a name, a configuration or a class; return a loss unchanged.

    Lower-case names, and abbreviations such as "MSE", give functions, which return one value per
    sample. CamelCase names give instances of the classes.

    >>> get("mse").__name__
    'mean_squared_error'
    >>> get("MeanSquaredError")
    <MeanSquaredError name=mean_squared_error fn=mean_squared_error>
    """
    is_short = isinstance(identifier, str) and identifier.isupper() and identifier != "CTC"
    if is_short or (isinstance(identifier, str) and identifier.islower()):
        return FUNCTIONS.get(identifier)
    return CLASSES.get(identifier)


def serialize(loss: Any) -> Any:
    """Return a name or a configuration from which `deserialize` creates the same loss.

    >>> serialize(mean_squared_error)
    'mean_squared_error'
    >>> serialize(Huber(2.0))["config"]["delta"]
    2.0
    """
    if isinstance(loss, Configured):
        return described(loss)
    return None if loss is None else get_registered_name(loss)


def deserialize(config: Any, custom_objects: Mapping[str, Any] | None = None) -> Any:
    """Create a loss from the result of `serialize`; `custom_objects` are searched first.

    >>> deserialize(serialize(Huber(2.0))).get_config()["delta"]
    2.0
    """
    with custom_object_scope(custom_objects):
        return get(config)


__all__ = [
    "Loss", "LossFunctionWrapper", "CTC", "BinaryCrossentropy", "BinaryFocalCrossentropy",
    "CategoricalCrossentropy", "CategoricalFocalCrossentropy", "CategoricalGeneralizedCrossEntropy",
    "CategoricalHinge", "Circle", "CosineSimilarity", "Dice", "Hinge", "Huber", "KLDivergence",
    "LogCosh", "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanSquaredError",
    "MeanSquaredLogarithmicError", "Poisson", "SparseCategoricalCrossentropy", "SquaredHinge",
    "Tversky", "binary_crossentropy", "binary_focal_crossentropy", "categorical_crossentropy",
    "categorical_focal_crossentropy", "categorical_generalized_cross_entropy", "categorical_hinge",
    "circle", "cosine_similarity", "ctc", "dice", "hinge", "huber", "kl_divergence", "log_cosh",
    "mean_absolute_error", "mean_absolute_percentage_error", "mean_squared_error",
    "mean_squared_logarithmic_error", "poisson", "sparse_categorical_crossentropy", "squared_hinge",
    "tversky", "BCE", "KLD", "MAE", "MAPE", "MSE", "MSLE", "bce", "kld",
    "kullback_leibler_divergence", "logcosh", "mae", "mape", "mse", "msle", "deserialize", "get",
    "serialize", "Reduction",
]  # fmt: skip

FUNCTIONS = Table("loss", in_small_letters(__all__, globals()))

_check_calls(globals(), __all__)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise _absent_name("keras.losses", name, __all__)
