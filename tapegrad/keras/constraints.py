"""Weight constraints: projections that are applied after each optimizer step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError
from tapegrad.keras.configured import Configured, Table, described_or_named
from tapegrad.ops.elementwise.activations import relu
from tapegrad.ops.elementwise.selection import clip
from tapegrad.ops.reduction.squares import euclidean_norm

# Added to norms in denominators, so that vectors of zeros stay zeros.
_EPSILON = 1e-7

Axis = int | Sequence[int]


class Constraint(Configured, ABC):
    """Base class of constraints: callables that project weights onto the allowed set.

    >>> class Rounded(Constraint):
    ...     def __call__(self, w):
    ...         return tf.round(w)
    >>> import tapegrad as tf
    >>> Rounded()(tf.constant([0.9])).tolist()
    [1.0]
    """

    def __init__(self) -> None:
        # Without this, Python would accept arguments for subclasses that take none.
        super().__init__()

    @abstractmethod
    def __call__(self, w: Any) -> Any:
        """Return the projected weights."""


class MaxNorm(Constraint):
    """Scale vectors along `axis` to a norm of at most `max_value`.

    `axis=0` constrains the input weights of each unit of a dense layer. For convolution filters
    [height, width, inputs, outputs] use `axis=[0, 1, 2]`.

    >>> MaxNorm(1.0)([[3.0, 0.5], [4.0, 0.0]]).round(4).tolist()
    [[0.6000000238418579, 0.5], [0.800000011920929, 0.0]]
    """

    def __init__(self, max_value: float = 2, axis: Axis = 0) -> None:
        super().__init__()
        self.max_value, self.axis = _limit("max_value", max_value), axis

    def __call__(self, w: Any) -> Any:
        w = as_operand(w)
        norm = euclidean_norm(w, self.axis, keepdims=True)
        return w * (clip(norm, 0, self.max_value) / (norm + _EPSILON))


class MinMaxNorm(Constraint):
    """Scale norms along `axis` into an interval; a `rate` below 1 moves them only part of the way.

    >>> w = [[3.0, 0.3], [4.0, 0.4]]
    >>> MinMaxNorm(1.0, 2.5)(w).round(4).tolist()
    [[1.5, 0.6000000238418579], [2.0, 0.800000011920929]]
    """

    def __init__(
        self, min_value: float = 0.0, max_value: float = 1.0, rate: float = 1.0, axis: Axis = 0
    ) -> None:
        super().__init__()
        self.min_value = _limit("min_value", min_value)
        self.max_value = _limit("max_value", max_value)
        if min_value > max_value:
            raise ArgumentError(
                f"min_value must not be above max_value. Got {min_value} and {max_value}."
            )
        self.rate, self.axis = rate, axis

    def __call__(self, w: Any) -> Any:
        w = as_operand(w)
        norm = euclidean_norm(w, self.axis, keepdims=True)
        wanted = self.rate * clip(norm, self.min_value, self.max_value) + (1 - self.rate) * norm
        return w * (wanted / (norm + _EPSILON))


class NonNeg(Constraint):
    """Replace negative weights by 0.

    >>> NonNeg()([-1.0, 2.0]).tolist()
    [0.0, 2.0]
    """

    def __call__(self, w: Any) -> Any:
        return relu(w)


class UnitNorm(Constraint):
    """Scale vectors along `axis` to norm 1.

    >>> UnitNorm()([[3.0], [4.0]]).round(4).tolist()
    [[0.6000000238418579], [0.800000011920929]]
    """

    def __init__(self, axis: Axis = 0) -> None:
        super().__init__()
        self.axis = axis

    def __call__(self, w: Any) -> Any:
        w = as_operand(w)
        return w / (euclidean_norm(w, self.axis, keepdims=True) + _EPSILON)


def _limit(name: str, value: float) -> float:
    if not value >= 0:
        raise ArgumentError(f"{name} is a norm and must be 0 or more. Got {value!r}.")
    return value


max_norm = MaxNorm
min_max_norm = MinMaxNorm
non_neg = NonNeg
unit_norm = UnitNorm

CONSTRAINTS = Table(
    "constraint",
    {"max_norm": MaxNorm, "min_max_norm": MinMaxNorm, "non_neg": NonNeg, "unit_norm": UnitNorm},
)


def get(identifier: Any) -> Any:
    """Return the constraint for a name, a configuration or a class; return a constraint unchanged.

    >>> get("max_norm").get_config()
    {'max_value': 2, 'axis': 0}
    """
    return CONSTRAINTS.get(identifier)


def serialize(constraint: Any) -> Any:
    """Return the class name and configuration of a constraint, the name of a function, or None.

    >>> serialize(UnitNorm(axis=1))
    {'class_name': 'UnitNorm', 'config': {'axis': 1}}
    """
    return described_or_named(constraint)


def deserialize(
    config: Mapping[str, Any] | str, custom_objects: Mapping[str, Any] | None = None
) -> Any:
    """Create a constraint from the result of `serialize`; `custom_objects` adds classes by name.

    >>> deserialize({"class_name": "UnitNorm", "config": {"axis": 1}}).axis
    1
    """
    return CONSTRAINTS.with_more(custom_objects).get(config)


__all__ = [
    "Constraint",
    "MaxNorm",
    "MinMaxNorm",
    "NonNeg",
    "UnitNorm",
    "deserialize",
    "get",
    "max_norm",
    "min_max_norm",
    "non_neg",
    "serialize",
    "unit_norm",
]

_check_calls(globals(), __all__)
