"""Metric: the base class of metrics, which keep their state in variables."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from tapegrad.core.argument_checks import described
from tapegrad.core.commit import assign_together, restoring
from tapegrad.core.files.limits import active_limits
from tapegrad.core.update_lock import updating_alone
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentTypeError
from tapegrad.keras import initializers
from tapegrad.keras.configured import Configured
from tapegrad.keras.layers.name_first import name_first
from tapegrad.keras.losses.loss import computing_dtype
from tapegrad.keras.naming import automatic_name
from tapegrad.keras.stateless import StatelessMetric
from tapegrad.ops.creation import zeros, zeros_like


class Metric(Configured, StatelessMetric, ABC):
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

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = cls.__dict__.get("update_state")
        if isinstance(own, FunctionType):
            setattr(cls, "update_state", _all_or_nothing(own))  # noqa: B010  # mypy sees a method
        own = cls.__dict__.get("result")
        if isinstance(own, FunctionType):
            setattr(cls, "result", _without_methods(own))  # noqa: B010

    @property
    def dtype(self) -> str:
        """Name of the dtype of the state."""
        return self._dtype

    @property
    def variables(self) -> list[Variable]:
        """The variables that hold the state."""
        return list(self._variables)

    @name_first
    def add_variable(
        self,
        shape: Any = (),
        initializer: Any = "zeros",
        dtype: Any = None,
        aggregation: str = "sum",
        name: str | None = None,
    ) -> Variable:
        """Create a state variable; `aggregation` is accepted for Keras and ignored.

        Methods of Keras 2 pass the name first.
        """
        limits = active_limits()
        if limits is not None:
            limits.check_array(tuple(shape), "the state of a metric")
        make = zeros if initializer is None else initializers.get(initializer)
        value = make(tuple(shape), dtype=dtype or self._dtype)
        variable = Variable(value, trainable=False, name=name, dtype=dtype or self._dtype)
        self._variables.append(variable)
        return variable

    @name_first
    def add_weight(
        self,
        shape: Any = (),
        initializer: Any = None,
        dtype: Any = None,
        name: str | None = None,
        aggregation: Any = None,
        synchronization: Any = None,
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
        variables = self._variables
        assign_together(variables, [zeros_like(variable) for variable in variables])

    def reset_states(self) -> None:
        """Set all state variables to 0: the name of `reset_state` before Keras 3."""
        self.reset_state()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.update_state(*args, **kwargs)
        return self.result()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}>"


def _all_or_nothing(update_state: Callable[..., None]) -> Callable[..., None]:
    """Return the method such that an exception leaves the state as it was."""

    @functools.wraps(update_state)
    def update(self: Metric, *args: Any, **kwargs: Any) -> None:
        with updating_alone(), restoring(self._variables):
            update_state(self, *args, **kwargs)

    return update


def _without_methods(result: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method such that a method in place of a value is an error."""

    @functools.wraps(result)
    def checked(self: Metric, *args: Any, **kwargs: Any) -> Any:
        found = result(self, *args, **kwargs)
        if isinstance(found, MethodType) and found.__func__ is Variable.value:
            found = found()  # the method of a variable, which is a property in Keras
        _check_result(found, f"result() of metric {self.name!r}")
        return found

    return checked


def _check_result(value: Any, whose: str) -> None:
    """Raise an error unless a result is a number, an array, or a list or dictionary of them."""
    refuse_method(value, whose)
    if isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            _check_result(part, whose)
        return
    is_number = any([hasattr(type(value), name) for name in _NUMERIC])
    if isinstance(value, str | bytes) or not is_number:
        raise ArgumentTypeError(
            f"{whose} must return a number or a tensor. Got {described(value)}."
        )


_NUMERIC = ("__float__", "__complex__", "__array__", "shape")


def refuse_method(value: Any, whose: str) -> None:
    """Raise an error if a value is a function or a method, which has not been called.

    >>> refuse_method(Variable(1.0).read_value, "result()")
    Traceback (most recent call last):
    tapegrad.errors.ArgumentTypeError: result() must return a number or a tensor. Got the method \
'read_value', which was not called: write read_value().
    """
    if isinstance(value, FunctionType | MethodType | BuiltinFunctionType | functools.partial):
        name = getattr(value, "__name__", "partial")
        kind = "function" if isinstance(value, FunctionType) else "method"
        raise ArgumentTypeError(
            f"{whose} must return a number or a tensor. Got the {kind} {name!r}, which was not "
            f"called: write {name}()."
        )


def add_to(variable: Variable, amount: Any) -> None:
    """Add to a state variable; unlike with a plain `assign_add`, tapes record no read.

    >>> total = Variable(1.0)
    >>> add_to(total, 2.0)
    >>> float(total)
    3.0
    """
    if isinstance(amount, float):  # avoids a copy of the number to the device
        variable.assign(variable.read_value() + amount, read_value=False)
    else:
        variable.assign_add(amount, read_value=False)
