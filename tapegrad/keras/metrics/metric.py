"""Metric: the base class of metrics, which keep their state in variables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tapegrad.core.values.variable import Variable
from tapegrad.keras.configured import Configured, Table
from tapegrad.keras.losses.loss import computing_dtype
from tapegrad.keras.naming import automatic_name
from tapegrad.ops.creation import ones, zeros, zeros_like

_INITIALIZERS = Table("initializer of a metric's variable", {"zeros": zeros, "ones": ones})


class Metric(Configured, ABC):
    """Base class of metrics: `update_state` adds a batch, `result` returns the current value.

    The state lives in variables on the device. An update copies nothing to the host and may be
    part of a `tf.function`.

    >>> from tapegrad.ops.reduction.primitives import max
    >>> from tapegrad.ops.elementwise.selection import maximum
    >>> class Largest(Metric):
    ...     def __init__(self, name=None, dtype=None):
    ...         super().__init__(name=name, dtype=dtype)
    ...         self.largest = self.add_variable((), name="largest")
    ...     def update_state(self, values):
    ...         self.largest.assign(maximum(self.largest, max(values)))
    ...     def result(self):
    ...         return self.largest.value()
    >>> metric = Largest()
    >>> metric.update_state([1.0, 5.0])
    >>> float(metric([2.0, 3.0]))
    5.0
    """

    def __init__(self, dtype: Any = None, name: str | None = None) -> None:
        self.name = name or automatic_name(type(self).__name__)
        self._dtype = computing_dtype(dtype)
        self._variables: list[Variable] = []

    @property
    def dtype(self) -> str:
        """Name of the dtype of the state."""
        return self._dtype

    @property
    def variables(self) -> list[Variable]:
        """The variables that hold the state."""
        return list(self._variables)

    def add_variable(
        self,
        shape: Any = (),
        initializer: Any = "zeros",
        dtype: Any = None,
        aggregation: str = "sum",
        name: str | None = None,
    ) -> Variable:
        """Create a state variable; `aggregation` is accepted for Keras and ignored."""
        make = _INITIALIZERS.get(initializer, zeros)
        value = make(tuple(shape), dtype=dtype or self._dtype)
        variable = Variable(value, trainable=False, name=name, dtype=dtype or self._dtype)
        self._variables.append(variable)
        return variable

    def add_weight(
        self, shape: Any = (), initializer: Any = None, dtype: Any = None, name: str | None = None
    ) -> Variable:
        """Create a state variable."""
        return self.add_variable(shape, initializer, dtype, name=name)

    @abstractmethod
    def update_state(self, *args: Any, **kwargs: Any) -> None:
        """Add a batch to the state."""

    @abstractmethod
    def result(self) -> Any:
        """Return the value of the metric for all batches so far."""

    def reset_state(self) -> None:
        """Set all state variables to 0."""
        for variable in self._variables:
            variable.assign(zeros_like(variable), read_value=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.update_state(*args, **kwargs)
        return self.result()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}>"


def add_to(variable: Variable, amount: Any) -> None:
    """Add to a state variable; unlike with a plain `assign_add`, tapes record no read.

    >>> total = Variable(1.0)
    >>> add_to(total, 2.0)
    >>> float(total)
    3.0
    """
    if isinstance(amount, float):  # avoids a copy of the number to the device
        variable.assign(variable.value() + amount, read_value=False)
    else:
        variable.assign_add(amount, read_value=False)
