"""LossScaleOptimizer: dynamic loss scaling for half precision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Self

from tapegrad.core.commit import assign_together, restoring
from tapegrad.core.update_lock import updating_alone
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras.optimizers.base import Optimizer, make_averages
from tapegrad.keras.optimizers.conditional import (
    are_finite,
    divided,
    on_device,
    run_where,
    zero_unless,
)
from tapegrad.keras.optimizers.table import OPTIMIZERS, deserialize, serialize
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.collective.functions import all_reduce
from tapegrad.ops.collective.sharded_weights import is_sharded
from tapegrad.ops.elementwise.comparison import equal, logical_and
from tapegrad.ops.elementwise.selection import where
from tapegrad.optimizers import base
from tapegrad.optimizers.base import Variables


class LossScaleOptimizer(Optimizer):
    """Wrap an optimizer with dynamic loss scaling.

    A step with a gradient that is not finite is skipped and halves the scale. The scale doubles
    after `dynamic_growth_steps` finite steps in a row. All decisions are made on the device.

    >>> import tapegrad
    >>> from tapegrad.keras.optimizers import SGD
    >>> w = tapegrad.Variable(1.0)
    >>> optimizer = LossScaleOptimizer(SGD(0.25), initial_scale=8.0)
    >>> _ = optimizer.minimize(lambda: w * w, [w])
    >>> float(w)
    0.5
    >>> _ = optimizer.apply_gradients([(float("inf"), w)])
    >>> float(w), float(optimizer.dynamic_scale)
    (0.5, 4.0)
    """

    def __init__(
        self,
        inner_optimizer: base.Optimizer,
        initial_scale: float = 2.0**15,
        dynamic_growth_steps: int = 2000,
        name: str | None = None,
    ) -> None:
        _check(inner_optimizer, initial_scale, dynamic_growth_steps)
        self.inner_optimizer = inner_optimizer
        # Share the learning rate with the inner optimizer.
        super().__init__(inner_optimizer._schedule or inner_optimizer._rate, name=name)
        self.iterations = inner_optimizer.iterations
        self.initial_scale = initial_scale
        self.dynamic_growth_steps = dynamic_growth_steps
        self.dynamic_scale = Variable(
            float(initial_scale), trainable=False, name="dynamic_scale", dtype="float32"
        )
        self.step_counter = Variable(0, trainable=False, name="step_counter", dtype="int64")
        if isinstance(inner_optimizer, Optimizer):
            inner_optimizer.loss_scale_factor = None  # gradients must not be unscaled twice

    @property
    def learning_rate(self) -> Any:
        """The learning rate of the inner optimizer."""
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        self.inner_optimizer.learning_rate = value

    lr = learning_rate

    @property
    def built(self) -> bool:
        """Whether the inner optimizer has slots for variables."""
        return bool(self.inner_optimizer._known)

    @property
    def variables(self) -> Variables:
        """The variables to save: the scale, the count of finite steps, and the inner variables."""
        return Variables([self.step_counter, self.dynamic_scale, *self.inner_optimizer.variables])

    def build(self, var_list: Iterable[Variable]) -> None:
        """Create the state of the inner optimizer for the given variables."""
        variables = list(var_list)
        self.inner_optimizer._prepare(variables)
        make_averages(self.inner_optimizer, variables)
        self._known.update((variable.number, variable) for variable in variables)

    def scale_loss(self, loss: Any) -> Any:
        """Return the loss times the current scale as a tensor."""
        loss = to_tensor(loss)
        return loss * cast(on_device(self.dynamic_scale.read_value(), loss.device), loss.dtype)

    def _apply(self, pairs: list[tuple[Any, Variable]]) -> None:
        variables = [variable for _, variable in pairs]
        self.build(variables)
        with updating_alone(), restoring([*variables, *self.variables]):
            self._apply_scaled(pairs, variables)

    def _apply_scaled(self, pairs: list[tuple[Any, Variable]], variables: list[Variable]) -> None:
        finite = are_finite([gradient for gradient, _ in pairs], self.dynamic_scale.device)
        if any(is_sharded(v) for v in variables):  # each process sees its parts only
            finite = equal(all_reduce(cast(finite, "float32"), "min"), 1.0)
        scale = self.dynamic_scale.read_value()
        # Zeros instead of gradients that are not finite avoid warnings from the skipped step.
        unscaled = [(zero_unless(finite, divided(g, scale)), v) for g, v in pairs]
        places = [*variables, *self.inner_optimizer.variables]
        run_where(finite, places, partial(self.inner_optimizer._apply, unscaled))
        self._adapt_scale(finite)

    def _adapt_scale(self, finite: Any) -> None:
        scale, count = self.dynamic_scale.read_value(), self.step_counter.read_value()
        grows = logical_and(finite, equal(count, self.dynamic_growth_steps - 1))
        new = where(finite, where(grows, scale * 2.0, scale), scale * 0.5)
        self.dynamic_scale.assign(new, read_value=False)
        goes_on = cast(where(grows, False, finite), "int64")
        self.step_counter.assign((count + 1) * goes_on, read_value=False)

    def finalize_variable_values(self, var_list: Iterable[Variable]) -> None:
        """Set variables to the moving averages that the inner optimizer keeps."""
        averages = self.inner_optimizer._averages
        known = [v for v in var_list if v.number in averages]
        assign_together(known, [averages[v.number] for v in known])

    def swap_in_averages(self) -> None:
        """Exchange each variable with its moving average in the inner optimizer."""
        self.inner_optimizer.swap_in_averages()

    def exclude_from_weight_decay(
        self, var_list: Iterable[Variable] | None = None, var_names: Iterable[str] | None = None
    ) -> None:
        """Exclude variables from the weight decay of the inner optimizer."""
        self.inner_optimizer.exclude_from_weight_decay(var_list, var_names)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor arguments of this optimizer."""
        return {
            "name": self.name,
            "inner_optimizer": serialize(self.inner_optimizer),
            "initial_scale": self.initial_scale,
            "dynamic_growth_steps": self.dynamic_growth_steps,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Any = None) -> Self:
        """Create an optimizer from the result of `get_config`."""
        inner = deserialize(config["inner_optimizer"], custom_objects)
        return cls(**{**config, "inner_optimizer": inner})


def _check(inner: Any, scale: float, steps: int) -> None:
    if not isinstance(inner, base.Optimizer):
        raise ArgumentTypeError(
            f"LossScaleOptimizer wraps an optimizer. Got {type(inner).__name__}: {inner!r}."
        )
    if not scale > 0:
        raise ArgumentError(f"initial_scale must be positive. Got {scale}.")
    if steps < 1:
        raise ArgumentError(f"dynamic_growth_steps must be at least 1. Got {steps}.")


OPTIMIZERS.add("lossscaleoptimizer", LossScaleOptimizer)
