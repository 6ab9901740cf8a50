"""Optimizer: the base class of Keras optimizers.

It adds configurations, a constant loss scale, gradient accumulation, and moving averages that
overwrite the variables to `tapegrad.optimizers`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, Self, TypedDict

from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.call_site import warn_outside
from tapegrad.core.commit import assign_together, restoring
from tapegrad.core.update_lock import updating_alone
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.keras.configured import Configured, keeps_objects
from tapegrad.keras.optimizers import schedules
from tapegrad.keras.optimizers.conditional import Pairs, divided, on_device, run_where
from tapegrad.keras.optimizers.own_steps import OwnSteps
from tapegrad.ops.creation import ones_like, zeros_like
from tapegrad.ops.elementwise.comparison import equal
from tapegrad.ops.elementwise.selection import where
from tapegrad.optimizers import base
from tapegrad.optimizers.base import Variables


class CommonOptions(TypedDict, total=False):
    """The keyword arguments of all optimizers."""

    clipnorm: float | None
    clipvalue: float | None
    global_clipnorm: float | None
    use_ema: bool
    ema_momentum: float
    ema_overwrite_frequency: int | None
    loss_scale_factor: float | None
    gradient_accumulation_steps: int | None
    name: str | None


class Options(CommonOptions, total=False):
    """The common options and weight decay, for optimizers that have no default decay."""

    weight_decay: float | None


DEFAULTS: Mapping[str, Any] = {
    "weight_decay": None,
    "clipnorm": None,
    "clipvalue": None,
    "global_clipnorm": None,
    "use_ema": False,
    "ema_momentum": 0.99,
    "ema_overwrite_frequency": None,
    "loss_scale_factor": None,
    "gradient_accumulation_steps": None,
    "name": None,
}


class Optimizer(OwnSteps, Configured):
    """Base class of Keras optimizers: subclasses define `update_step`, and `build` for state.

    A subclass may define `update` on raw arrays instead, which has less overhead per step; see
    `tapegrad.optimizers.Optimizer`.

    >>> import tapegrad
    >>> class Momentum(Optimizer):
    ...     def build(self, variables):
    ...         super().build(variables)
    ...         self.momentums = self.add_optimizer_variables(variables, "momentum")
    ...     def update_step(self, gradient, variable, learning_rate):
    ...         m = self.momentums[self._get_variable_index(variable)]
    ...         self.assign(m, 0.5 * m + gradient)
    ...         self.assign_sub(variable, learning_rate * m)
    >>> w, optimizer = tapegrad.Variable(1.0), Momentum(0.25)
    >>> for _ in range(2):
    ...     _ = optimizer.apply_gradients([(1.0, w)])
    >>> float(w)
    0.375
    >>> class Halved(Optimizer):
    ...     def update(self, p, g, slots, scalars):
    ...         return (p - scalars.rate * g * 0.5,)
    >>> w = tapegrad.Variable(1.0)
    >>> optimizer = Halved(1.0, gradient_accumulation_steps=2)
    >>> for gradient in (3.0, -1.0):
    ...     _ = optimizer.apply_gradients([(gradient, w)])
    >>> float(w), optimizer.get_config()["gradient_accumulation_steps"]
    (0.5, 2)
    """

    __signature__: ClassVar[inspect.Signature]
    _by_number = (*OwnSteps._by_number, "_sums")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        *,
        use_ema: bool = False,
        ema_momentum: float = 0.99,
        ema_overwrite_frequency: int | None = None,
        loss_scale_factor: float | None = None,
        gradient_accumulation_steps: int | None = None,
        **others: Any,
    ) -> None:
        _check_count("gradient_accumulation_steps", gradient_accumulation_steps, 2)
        _check_count("ema_overwrite_frequency", ema_overwrite_frequency, 1)
        if not 0.0 <= ema_momentum <= 1.0:
            raise ArgumentError(f"ema_momentum must be between 0 and 1. Got {ema_momentum}.")
        self.gradient_accumulation_steps = gradient_accumulation_steps
        self._calls = Variable(0, trainable=False, name="calls", dtype="int64")
        self._sums: dict[int, Variable] = {}
        # The older name of the rate; and a decay that Keras 3 ignores with a warning as well.
        learning_rate = others.pop("lr", learning_rate)
        if others.pop("decay", None):
            warn_outside(
                "The argument decay is ignored. Use a schedule of keras.optimizers.schedules as "
                "the learning rate, such as InverseTimeDecay."
            )
        super().__init__(learning_rate, use_ema=use_ema, ema_momentum=ema_momentum, **others)
        self.use_ema = use_ema
        self.ema_overwrite_frequency = ema_overwrite_frequency
        self.loss_scale_factor = loss_scale_factor

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__signature__ = _full_signature(cls)

    @property
    def learning_rate(self) -> Any:
        """The learning rate of the next step: a variable, or the value of the schedule.

        With gradient accumulation, schedules count calls instead of steps, as in Keras.
        """
        if self._schedule is None:
            return self._rate
        return self._schedule(self._calls if self.gradient_accumulation_steps else self.iterations)

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        _set_learning_rate(self, value)

    lr = learning_rate

    @property
    def built(self) -> bool:
        """Whether the optimizer has slots for variables."""
        return bool(self._known)

    @property
    def variables(self) -> Variables:
        """The variables to save: counts, the rate, slots, averages and accumulated gradients."""
        counts = [self._calls] if self.gradient_accumulation_steps else []
        shared = self._shared.values()
        return Variables([*super().variables, *shared, *counts, *self._sums.values()])

    def build(self, var_list: Iterable[Variable]) -> None:
        """Create the state for the given variables now instead of at the first step."""
        variables = list(var_list)
        super().build(variables)
        make_averages(self, variables)
        if self.gradient_accumulation_steps:
            for variable in variables:
                self._sum_of(variable)

    def scale_loss(self, loss: Any) -> Any:
        """Return the scaled loss to differentiate; a step divides the gradients by the scale.

        >>> Optimizer(0.5, loss_scale_factor=4.0).scale_loss(3.0)
        12.0
        """
        return loss if self.loss_scale_factor is None else loss * self.loss_scale_factor

    def minimize(self, loss: Any, var_list: Any, tape: GradientTape | None = None) -> Variable:
        """Differentiate the scaled `loss`, a function or a tensor with its tape, and step."""
        if callable(loss):
            return super().minimize(lambda: self.scale_loss(loss()), var_list, tape)
        if tape is None:
            raise ArgumentError(
                "minimize() takes a function, or a loss tensor together with tape=."
            )
        variables = list(var_list() if callable(var_list) else var_list)
        weight = self.scale_loss(ones_like(loss))
        gradients = tape.gradient(loss, variables, output_gradients=weight)
        return self.apply_gradients(list(zip(gradients, variables)))

    def _apply_together(self, pairs: list[tuple[Any, Variable]]) -> None:
        """Make a step with the gradients of all replicas.

        Accumulated gradients are combined when a step is due, so that other calls send nothing.
        """
        steps = self.gradient_accumulation_steps
        if steps:
            self._accumulate(self._unscaled(pairs), steps, self._combined)
        else:
            super()._apply_together(pairs)

    def _apply(self, pairs: list[tuple[Any, Variable]]) -> None:
        if self.gradient_accumulation_steps:
            self._accumulate(self._unscaled(pairs), self.gradient_accumulation_steps)
        else:
            self._make_step(self._unscaled(pairs))

    def _unscaled(self, pairs: list[tuple[Any, Variable]]) -> list[tuple[Any, Variable]]:
        if self.loss_scale_factor is None:
            return pairs
        factor = float(self.loss_scale_factor)
        return [(divided(gradient, factor), variable) for gradient, variable in pairs]

    def _make_step(self, pairs: list[tuple[Any, Variable]]) -> None:
        variables = [variable for _, variable in pairs]
        if self._has_own_step:
            self._prepare(variables)
        make_averages(self, variables)
        overwrites = self.use_ema and self.ema_overwrite_frequency
        if not self._has_own_step and not overwrites:
            super()._apply(pairs)
            return
        with updating_alone(), restoring([*variables, *self.variables]):
            if self._has_own_step:
                self._make_own_step(pairs)
            else:
                super()._apply(pairs)
            if not overwrites:
                return
            is_due = equal(self.iterations.read_value() % self.ema_overwrite_frequency, 0)
            run_where(is_due, variables, partial(self.finalize_variable_values, variables))

    def _accumulate(
        self, pairs: Pairs, steps: int, combine: Callable[..., Any] | None = None
    ) -> None:
        """Accumulate the gradients, and apply their mean at every `steps`-th call.

        `combine` returns the pairs of all replicas together, perhaps of other variables, if its
        second argument is true.
        """
        variables = [variable for _, variable in pairs]
        self._prepare(variables)
        sums = [self._sum_of(variable) for variable in variables]
        with updating_alone(), restoring([*variables, *self.variables]):
            self._accumulate_in(sums, pairs, steps, combine)

    def _accumulate_in(
        self, sums: list[Variable], pairs: Pairs, steps: int, combine: Callable[..., Any] | None
    ) -> None:
        variables = [variable for _, variable in pairs]
        is_due = equal((self._calls.read_value() + 1) % steps, 0)
        for total, (gradient, _) in zip(sums, pairs, strict=True):
            dense = gradient.dense() if isinstance(gradient, IndexedSlices) else gradient
            total.assign_add(dense, read_value=False)
        totals = [(total.read_value(), v) for total, v in zip(sums, variables)]
        if combine is not None:
            totals = combine(totals, is_due)
        means = [(total / float(steps), v) for total, v in totals]
        places = [*variables, *[v for _, v in totals], *self.variables]
        run_where(is_due, places, partial(self._make_step, means))
        for total in sums:
            here = on_device(is_due, total.device)
            value = total.read_value()
            total.assign(where(here, zeros_like(value), value), read_value=False)
        self._calls.assign_add(1, read_value=False)

    def _sum_of(self, variable: Variable) -> Variable:
        total = self._sums.get(variable.number)
        if total is None:
            label = f"{variable.name.removesuffix(':0')}/gradient_accumulator"
            total = Variable(zeros_like(variable.read_value()), trainable=False, name=label)
            self._sums[variable.number] = total
        return total

    def finalize_variable_values(self, var_list: Iterable[Variable]) -> None:
        """Set variables to their moving averages, if the optimizer keeps any."""
        known = [v for v in var_list if v.number in self._averages]
        assign_together(known, [self._averages[v.number] for v in known])

    def set_weights(self, weights: Iterable[Any]) -> None:
        """Assign values to `variables`, in their order."""
        values = list(weights)
        if len(values) != len(self.variables):
            raise ShapeError(
                f"{type(self).__name__} has {len(self.variables)} variables. Got {len(values)} "
                "values; call build(variables) first if the optimizer has not made a step yet."
            )
        assign_together(self.variables, values)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor arguments of this optimizer."""
        given = super().get_config()
        given.pop("learning_rate", None)
        shared = {name: getattr(self, name) for name in DEFAULTS if name != "ema_momentum"}
        shared["ema_momentum"] = given.get("ema_momentum", DEFAULTS["ema_momentum"])
        config = {**given, **shared, "learning_rate": rate_config(self)}
        accepted = type(self).__signature__.parameters
        return {name: value for name, value in config.items() if name in accepted}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Any = None) -> Self:
        """Create an optimizer from the result of `get_config`."""
        return cls(**with_rate(config, custom_objects))


_set_learning_rate: Any = base.Optimizer.learning_rate.fset  # type: ignore[attr-defined]  # a property


def make_averages(optimizer: base.Optimizer, variables: Iterable[Variable]) -> None:
    """Create missing moving averages of the variables, if the optimizer keeps averages."""
    if optimizer.ema_momentum is None:
        return
    for variable in variables:
        if variable.number not in optimizer._averages:
            optimizer._slots_of(variable)
            optimizer._average_of(variable)


def rate_config(optimizer: base.Optimizer) -> Any:
    """Return the learning rate as a number, a schedule's configuration, or a function's name."""
    schedule = optimizer._schedule
    if schedule is None:
        return float(optimizer._rate)
    if isinstance(schedule, schedules.LearningRateSchedule):
        return schedules.serialize(schedule)
    if keeps_objects.get():
        return schedule
    return getattr(schedule, "__name__", type(schedule).__name__)


def with_rate(config: Mapping[str, Any], custom_objects: Any = None) -> dict[str, Any]:
    """Return a configuration with the learning rate deserialized."""
    rate = config.get("learning_rate")
    if isinstance(rate, str):
        raise ArgumentTypeError(
            f"The learning rate of this configuration is the function {rate!r}, which cannot be "
            "found by its name. Put the function itself into the configuration."
        )
    if isinstance(rate, Mapping):
        return {**config, "learning_rate": schedules.deserialize(rate, custom_objects)}
    return dict(config)


def _full_signature(cls: type) -> inspect.Signature:
    """Return the constructor's signature with the common options, for help() and editors."""
    parameters = list(
        inspect.signature(inspect.getattr_static(cls, "__init__")).parameters.values()
    )
    own = [p for p in parameters[1:] if p.kind is not inspect.Parameter.VAR_KEYWORD]
    if len(own) == len(parameters) - 1:
        return inspect.Signature(own)
    names = {p.name for p in own}
    kind = inspect.Parameter.KEYWORD_ONLY
    shared = [inspect.Parameter(n, kind, default=d) for n, d in DEFAULTS.items() if n not in names]
    return inspect.Signature([*own, *shared])


def _check_count(name: str, value: Any, least: int) -> None:
    if value is not None and (not isinstance(value, int) or value < least):
        raise ArgumentError(f"{name} must be an integer of at least {least}. Got {value!r}.")
