"""Sample weights from class weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tapegrad.core.values import nest
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import ones_like
from tapegrad.ops.elementwise.comparison import equal
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.reduction.primitives import argmax
from tapegrad.ops.shape.functions import reshape


def check_class_weight(class_weight: Any) -> None:
    """Raise an error if `class_weight` is not valid.

    >>> check_class_weight({0: 1.0, 3: 2.5})
    """
    if not isinstance(class_weight, Mapping):
        raise ArgumentTypeError(
            "class_weight must be a dictionary from class numbers to weights, such as "
            f"{{0: 1.0, 1: 5.0}}. Got {type(class_weight).__name__}."
        )
    for number, weight in class_weight.items():
        is_class = isinstance(number, int | np.integer) and number >= 0
        if not is_class or not isinstance(weight, int | float | np.number):
            raise ArgumentTypeError(
                "class_weight must be a dictionary from class numbers to weights, such as "
                f"{{0: 1.0, 1: 5.0}}. Got {number!r}: {weight!r}."
            )


def weights_of_classes(y: Any, sample_weight: Any, class_weight: Mapping[int, float]) -> Any:
    """Return the weight of each label; classes without a weight have weight 1.

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
            "class_weight takes labels of shape (batch,) or (batch, 1), or one-hot labels of shape "
            f"(batch, classes). Got {y.shape}; use sample_weight instead."
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
