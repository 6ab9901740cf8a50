"""Calls that change no variable: `stateless_call` of layers, `stateless_update_state` of metrics.

They take the values of variables as arguments and return the new values. The variables have these
values during the call, and their own before and after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tapegrad.core.commit import assign_together
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ShapeError


@contextmanager
def with_values(variables: Sequence[Variable], values: Any, what: str) -> Iterator[None]:
    """Give variables other values inside a block.

    >>> v = Variable(1.0)
    >>> with with_values([v], [2.0], "variables"):
    ...     float(v)
    2.0
    >>> float(v)
    1.0
    """
    given = list(values)
    if len(given) != len(variables):
        raise ShapeError(f"There are {len(variables)} {what}. Got {len(given)} values.")
    if any(isinstance(value, Tensor) and value.node is not None for value in given):
        raise ArgumentError(
            f"A tape records the values that are passed as {what}, but a stateless call does not "
            "pass gradients to them. Differentiate with respect to the variables themselves."
        )
    before = values_of(variables)
    assign_together(variables, given)
    try:
        yield
    finally:
        assign_together(variables, before)


def values_of(variables: Sequence[Variable]) -> list[Any]:
    """Return the values of variables as tensors.

    >>> [float(value) for value in values_of([Variable(1.0)])]
    [1.0]
    """
    return [variable.read_value() for variable in variables]


class StatelessLayer:
    """The calls of layers and models that change no variable."""

    @property
    def trainable_variables(self) -> list[Variable]:
        raise NotImplementedError

    @property
    def non_trainable_variables(self) -> list[Variable]:
        raise NotImplementedError

    def stateless_call(
        self,
        trainable_variables: Any,
        non_trainable_variables: Any,
        *args: Any,
        return_losses: bool = False,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Call the layer with other values of its variables, which do not change.

        Return the outputs and the new values of `non_trainable_variables`; with `return_losses`
        also the losses.
        """
        layer: Any = self
        if not layer.built:
            raise ArgumentError(
                f"{layer._title} has no variables yet. Call it or build it before stateless_call."
            )
        trained, others = self.trainable_variables, self.non_trainable_variables
        with (
            with_values(trained, trainable_variables, "trainable variables"),
            with_values(others, non_trainable_variables, "non-trainable variables"),
        ):
            outputs = layer(*args, **kwargs)
            after = values_of(others)
            losses = [layer.losses] if return_losses else []
        return (outputs, after, *losses)


class StatelessMetric:
    """The calls of metrics that change no variable."""

    @property
    def variables(self) -> list[Variable]:
        raise NotImplementedError

    def stateless_update_state(self, metric_variables: Any, *args: Any, **kwargs: Any) -> list[Any]:
        """Return the values of the variables after an update from these values."""
        metric: Any = self
        with with_values(self.variables, metric_variables, "metric variables"):
            metric.update_state(*args, **kwargs)
            return values_of(self.variables)

    def stateless_result(self, metric_variables: Any) -> Any:
        """Return the result for these values of the variables."""
        metric: Any = self
        with with_values(self.variables, metric_variables, "metric variables"):
            return metric.result()

    def stateless_reset_state(self) -> list[Any]:
        """Return the values of the variables after a reset."""
        metric: Any = self
        with with_values(self.variables, values_of(self.variables), "metric variables"):
            metric.reset_state()
            return values_of(self.variables)
