"""Sample weights from weights of classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tapegrad.core import nest
from tapegrad.core.tensor import Tensor
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.cast import cast
from tapegrad.ops.comparison import equal
from tapegrad.ops.creation import ones_like
from tapegrad.ops.reduction import argmax
from tapegrad.ops.selection import where
from tapegrad.ops.shape import reshape


def check_class_weight(class_weight: Any) -> None:
    """Say what is wrong with the weights of classes.

    >>> check_class_weight({0: 1.0, 3: 2.5})
    """
    if not isinstance(class_weight, Mapping):
        raise ArgumentTypeError(
            "class_weight is a dictionary from class numbers to weights, as {0: 1.0, 1: 5.0}. "
            f"Got {type(class_weight).__name__}."
        )
    for number, weight in class_weight.items():
        is_class = isinstance(number, int | np.integer) and number >= 0
        if not is_class or not isinstance(weight, int | float | np.number):
            raise ArgumentTypeError(
                "class_weight is a dictionary from class numbers to weights, as "
                f"{{0: 1.0, 1: 5.0}}. Got {number!r}: {weight!r}."
            )


def weights_of_classes(y: Any, sample_weight: Any, class_weight: Mapping[int, float]) -> Any:
    """Return the weight of each label; classes that are not named weigh 1.

    >>> weights_of_classes(np.array([0, 2]), None, {2: 5.0}).tolist()
    [1.0, 5.0]
    """
    if sample_weight is not None:
        raise ArgumentError("Give class_weight or sample_weight, not both.")
    if y is None or nest.is_nested(y):
        given = "none" if y is None else f"{len(nest.flatten(y))} arrays"
        raise ArgumentError(f"class_weight needs the labels of one output. Got {given}.")
    if len(y.shape) not in (1, 2):
        raise ShapeError(
            "class_weight takes labels of shape (batch,), (batch, 1), or (batch, classes) where "
            f"they are one-hot. Got {y.shape}; give sample_weight instead."
        )
    if isinstance(y, Tensor):
        return _on_device(y, class_weight)
    labels = np.asarray(y)
    labels = labels.argmax(-1) if labels.ndim == 2 and labels.shape[-1] > 1 else labels.reshape(-1)
    weights = np.ones(labels.shape, np.float32)
    for number, weight in class_weight.items():
        weights[labels == number] = weight
    return weights


def _on_device(y: Any, class_weight: Mapping[int, float]) -> Any:
    labels = argmax(y, -1) if len(y.shape) == 2 and y.shape[-1] > 1 else reshape(y, (-1,))
    weights = ones_like(cast(labels, "float32"))
    for number, weight in class_weight.items():
        weights = where(equal(labels, number), float(weight), weights)
    return weights
