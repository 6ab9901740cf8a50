"""Regularizers: penalties on weights and activities."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from numbers import Real
from typing import Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.configured import Configured, Table, described_or_named
from tapegrad.ops.creation import zeros_for
from tapegrad.ops.elementwise.magnitude import abs as absolute
from tapegrad.ops.linalg.norms import l2_normalize
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.reduction.functions import reduce_sum
from tapegrad.ops.reduction.squares import sum_of_squares
from tapegrad.ops.shape.diagonal import triu


class Regularizer(Configured, ABC):
    """Base class of regularizers: callables that return the penalty of a tensor.

    >>> class Mean(Regularizer):
    ...     def __call__(self, x):
    ...         return 0.1 * reduce_sum(x) / x.size
    >>> import tapegrad as tf
    >>> f"{float(Mean()(tf.constant([1.0, 3.0]))):.2f}"
    '0.20'
    """

    def __init__(self) -> None:
        # Without this, Python would accept arguments for subclasses that take none.
        super().__init__()

    @abstractmethod
    def __call__(self, x: Any) -> Any:
        """Return the penalty of a tensor."""


def _factor(name: str, value: Any, default: float | None = None) -> float:
    value = default if value is None else value
    if not isinstance(value, Real) or not 0 <= float(value) < math.inf:
        raise ArgumentError(f"{name} must be a finite number of 0 or more. Got {value!r}.")
    return float(value)


class L1(Regularizer):
    """Sum of absolute values: `l1 * sum(|x|)`.

    >>> float(L1(0.5)([-1.0, 3.0]))
    2.0
    """

    def __init__(self, l1: Any = 0.01) -> None:
        super().__init__()
        self.l1 = _factor("l1", l1, 0.01)

    def __call__(self, x: Any) -> Any:
        return self.l1 * reduce_sum(absolute(x))


class L2(Regularizer):
    """Sum of squares: `l2 * sum(x²)`.

    >>> float(L2(0.5)([-1.0, 3.0]))
    5.0
    """

    def __init__(self, l2: Any = 0.01) -> None:
        super().__init__()
        self.l2 = _factor("l2", l2, 0.01)

    def __call__(self, x: Any) -> Any:
        return self.l2 * sum_of_squares(x)


class L1L2(Regularizer):
    """Sum of absolute values and squares: `l1 * sum(|x|) + l2 * sum(x²)`.

    >>> float(L1L2(l1=1.0, l2=0.5)([-1.0, 3.0]))
    9.0
    """

    def __init__(self, l1: Any = 0.0, l2: Any = 0.0) -> None:
        super().__init__()
        self.l1, self.l2 = _factor("l1", l1, 0.0), _factor("l2", l2, 0.0)

    def __call__(self, x: Any) -> Any:
        x = as_operand(x)
        penalty = zeros_for(x, (), x.dtype)
        if self.l1:
            penalty = penalty + self.l1 * reduce_sum(absolute(x))
        if self.l2:
            penalty = penalty + self.l2 * sum_of_squares(x)
        return penalty


class OrthogonalRegularizer(Regularizer):
    """Penalize rows or columns of a matrix that are not orthogonal to each other.

    The penalty is `factor` times the mean of |cos(angle)| over all pairs.

    >>> float(OrthogonalRegularizer(factor=1.0)([[1.0, 0.0], [3.0, 4.0]]))
    0.6000000238418579
    """

    def __init__(self, factor: Any = 0.01, mode: str = "rows") -> None:
        super().__init__()
        if mode not in ("rows", "columns"):
            raise ArgumentError(f"mode must be 'rows' or 'columns'. Got {mode!r}.")
        self.factor, self.mode = _factor("factor", factor), mode

    def __call__(self, x: Any) -> Any:
        x = as_operand(x)
        if len(x.shape) != 2:
            raise ShapeError(f"OrthogonalRegularizer takes a matrix. Got shape {x.shape}.")
        by_rows = self.mode == "rows"
        unit = l2_normalize(x, axis=1 if by_rows else 0)
        cosines = matmul(unit, unit, transpose_a=not by_rows, transpose_b=by_rows)
        vectors = cosines.shape[0]
        pairs = max(1, vectors * (vectors - 1) // 2)
        return self.factor / pairs * reduce_sum(absolute(triu(cosines, 1)))


l1 = L1
l2 = L2
l1_l2 = L1L2
orthogonal_regularizer = OrthogonalRegularizer

REGULARIZERS = Table(
    "regularizer",
    {"l1": L1, "l2": L2, "l1_l2": L1L2, "orthogonal_regularizer": OrthogonalRegularizer},
)


def get(identifier: Any) -> Any:
    """Return the regularizer for a name, a configuration or a class; return an object unchanged.

    >>> get("l2").get_config()
    {'l2': 0.01}
    """
    return REGULARIZERS.get(identifier)


def serialize(regularizer: Any) -> Any:
    """Return the class name and configuration of a regularizer, the name of a function, or None.

    >>> serialize(L1(0.5))
    {'class_name': 'L1', 'config': {'l1': 0.5}}
    """
    return described_or_named(regularizer)


def deserialize(
    config: Mapping[str, Any] | str, custom_objects: Mapping[str, Any] | None = None
) -> Any:
    """Create a regularizer from the result of `serialize`; `custom_objects` adds classes by name.

    >>> deserialize({"class_name": "L1", "config": {"l1": 0.5}}).l1
    0.5
    """
    return REGULARIZERS.with_more(custom_objects).get(config)


__all__ = [
    "L1",
    "L1L2",
    "L2",
    "OrthogonalRegularizer",
    "Regularizer",
    "deserialize",
    "get",
    "l1",
    "l1_l2",
    "l2",
    "orthogonal_regularizer",
    "serialize",
]

_check_calls(globals(), __all__)
