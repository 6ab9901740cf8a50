"""Loss functions of labels and predictions under Keras' names.

The classes are those of `tapegrad.keras.losses`.
"""

from importlib import import_module
from typing import Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.ops.nn.regression_losses import (
    categorical_hinge,
    cosine_similarity,
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
)

__all__ = [
    "categorical_hinge",
    "cosine_similarity",
    "hinge",
    "huber",
    "kl_divergence",
    "log_cosh",
    "mean_absolute_error",
    "mean_absolute_percentage_error",
    "mean_squared_error",
    "mean_squared_logarithmic_error",
    "poisson",
    "squared_hinge",
]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imports Keras, which the functions do not need.
    return getattr(import_module("tapegrad.keras.losses"), name)


_check_calls(globals(), __all__)
