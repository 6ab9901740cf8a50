"""keras.Variable: the constructor of Keras for the variables of tapegrad."""

from __future__ import annotations

from typing import Any

from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable as OwnVariable
from tapegrad.errors import ArgumentError
from tapegrad.keras import initializers
from tapegrad.keras.config import floatx


class _IsVariable(type):
    """Makes each variable an instance, also the weights of layers."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, OwnVariable)


class Variable(metaclass=_IsVariable):
    """Create a variable from a value, or from an initializer and a shape.

    The result is a `tapegrad.Variable`. A layer that holds it in an attribute tracks it.
    `aggregation`, `synchronization` and `autocast` are accepted for Keras and ignored.

    >>> counter = Variable(0, trainable=False, name="counter")
    >>> int(counter.assign_add(2))
    2
    >>> Variable("ones", shape=(2,)).numpy().tolist(), isinstance(counter, Variable)
    ([1.0, 1.0], True)
    """

    def __new__(  # type: ignore[misc]  # a variable, and not an object of this class
        cls,
        initializer: Any,
        shape: Any = None,
        dtype: Any = None,
        trainable: bool = True,
        autocast: bool = True,
        aggregation: str | None = "none",
        synchronization: str | None = "auto",
        name: str | None = None,
    ) -> OwnVariable:
        if isinstance(initializer, str):
            initializer = initializers.get(initializer)
        if not callable(initializer) or isinstance(initializer, Tensor | OwnVariable):
            return OwnVariable(initializer, trainable, name or "variable", dtype)
        if shape is None:
            raise ArgumentError(
                "A Variable from an initializer needs a shape: Variable('zeros', shape=(2, 3)). "
                f"Got {initializer!r} without one."
            )
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        value = initializer(sizes, dtype=dtype or floatx())
        return OwnVariable(value, trainable, name or "variable", dtype)
