"""The base class of optimizers: slots, clipping, weight decay, averages, and TF's interface."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.absent_attributes import add_absent
from tapegrad.core.argument_checks import check_flag
from tapegrad.core.call_site import warn_outside
from tapegrad.core.commit import (
    Part,
    Progress,
    apply_parts,
    deferring_signals,
    note_overwriting,
    restoring,
    store,
)
from tapegrad.core.observed import Observed
from tapegrad.core.out_of_memory import attempt, recover
from tapegrad.core.recorder import EMPTY, using_stack
from tapegrad.core.update_lock import other_threads, updating
from tapegrad.core.values import host
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable, live_variables
from tapegrad.engine.grouped_updates import Batch, Group, UpdatePlan, key_of, make_plan
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops import creation
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.collective.replicas import replicas_in_sync
from tapegrad.ops.collective.sharded_weights import any_sharded
from tapegrad.ops.indexing.sparse_rows import merged
from tapegrad.ops.nn import clipping
from tapegrad.optimizers.pairs import checked_pairs, summed_pairs
from tapegrad.optimizers.sharded_pairs import clipped_together
from tapegrad.optimizers.update_rule import Rule, Scalars
from tapegrad.optimizers.updates import average_update, count_update, decay_update


class Variables(list[Variable]):
    """A list of variables; the call of older versions of Keras, `variables()`, returns it, too."""

    def __call__(self) -> Variables:
        return self


class Optimizer(Observed):
    """Base class of optimizers. A subclass defines `slots` and either `rule` or `update`.

    `slots` names the arrays that are kept per variable; `update` makes one step. `learning_rate` is
    a number, or a schedule: a function of the number of steps so far.

    >>> class Signs(Optimizer):
    ...     def update(self, p, g, slots, scalars):
    ...         return (p - scalars.rate * ((g > 0) * 2.0 - 1.0),)
    >>> w = Variable(1.0)
    >>> _ = Signs(0.5).minimize(lambda: w * w, [w])
    >>> float(w)
    0.5
    """

    slots: tuple[str, ...] = ()
    _needed = "update()"
    _replicas = 1
    """How many replicas the strategy had in whose scope the optimizer was made."""
    _is_joint = False
    """Whether gradients of all processes are combined without a strategy, too."""
    by_element = True
    """Whether the step of an element reads no other element, so that parts may be updated."""
    unobserved = frozenset({"_plan", "_slots", "_known", "_averages"})
    assigned_on_change = frozenset({"_words_without_decay", "_without_decay"})
    _by_number: tuple[str, ...] = ("_slots", "_averages", "_known", "_without_decay")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        weight_decay: float | None = None,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
        use_ema: bool = False,
        ema_momentum: float = 0.99,
        name: str | None = None,
    ) -> None:
        _check_limits(clipnorm=clipnorm, clipvalue=clipvalue, global_clipnorm=global_clipnorm)
        self.name = name or type(self).__name__.lower()
        self.weight_decay = weight_decay
        self.clipnorm, self.clipvalue, self.global_clipnorm = clipnorm, clipvalue, global_clipnorm
        self.ema_momentum = ema_momentum if use_ema else None
        self.iterations = Variable(0, trainable=False, name="iterations", dtype="int64")
        self._schedule: Callable[[Any], Any] | None = None
        self._rate = Variable(0.0, trainable=False, name="learning_rate", dtype="float32")
        self.learning_rate = learning_rate
        self._slots: dict[int, list[Variable]] = {}
        self._averages: dict[int, Variable] = {}
        self._known: dict[int, Variable] = {}
        self._without_decay: dict[int, None] = {}
        self._words_without_decay: list[str] = []
        self._plan: UpdatePlan | None = None
        if replicas_in_sync() > 1:
            self._replicas = replicas_in_sync()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}>"

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, with variables instead of their numbers in this process."""
        live = {variable.number: variable for variable in live_variables()}
        state = {**self.__dict__, "_plan": None}  # a plan refers to the memory of this process
        for name in self._by_number:
            state[name] = [(live[n], kept) for n, kept in state[name].items() if n in live]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in self._by_number:
            setattr(self, name, {variable.number: kept for variable, kept in state[name]})

    @property
    def learning_rate(self) -> Any:
        """The learning rate of the next step: a variable, or the value of the schedule."""
        return self._rate if self._schedule is None else self._schedule(self.iterations)

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        if callable(value) and not isinstance(value, Tensor | Variable):
            self._schedule = value
            return
        rate = to_tensor(value, "float32")
        if tuple(rate.shape):
            raise ShapeError(f"learning_rate must be a number. Got shape {rate.shape}.")
        self._schedule = None
        rate = rate if rate.dtype == "float32" else cast(rate, "float32")
        self._rate.assign(rate, read_value=False)

    lr = learning_rate

    @property
    def variables(self) -> Variables:
        """All state to save: the step count, the learning rate, slots and averages."""
        slots = [slot for slots in self._slots.values() for slot in slots]
        averages = [self._averages[number] for number in self._known if number in self._averages]
        return Variables([self.iterations, self._rate, *slots, *averages])

    def build(self, var_list: Iterable[Variable]) -> None:
        """Create the slots of the given variables now instead of at the first step."""
        for variable in var_list:
            self._slots_of(variable)

    def _prepare(self, variables: list[Variable]) -> None:
        """Create slots; a step may have created some of them."""
        self.build(variables)

    def exclude_from_weight_decay(
        self, var_list: Iterable[Variable] | None = None, var_names: Iterable[str] | None = None
    ) -> None:
        """Exclude variables, given or with one of the words in their name, from weight decay.

        >>> import tapegrad
        >>> w, bias = tapegrad.Variable(1.0), tapegrad.Variable(1.0)
        >>> optimizer = tapegrad.optimizers.SGD(0.5, weight_decay=0.5)
        >>> optimizer.exclude_from_weight_decay([bias])
        >>> step = optimizer.apply_gradients([(0.0, w), (0.0, bias)])
        >>> float(w), float(bias)
        (0.75, 1.0)
        """
        self._words_without_decay += var_names or ()
        self._without_decay |= dict.fromkeys([variable.number for variable in var_list or ()])
        for variable in self._known.values():
            self._note_decay(variable)
        self._plan = None

    def _note_decay(self, variable: Variable) -> None:
        if any(word in variable.name for word in self._words_without_decay):
            self._without_decay[variable.number] = None

    def _slots_of(self, variable: Variable) -> list[Variable]:
        slots = self._slots.get(variable.number)
        if slots is None:
            # Registered last, so that an interrupt leaves a variable that is not known yet.
            slots = self._new_slots(variable)
            self._note_decay(variable)
            self._known[variable.number] = variable
            self._slots[variable.number] = slots
        return slots

    def _new_slots(self, variable: Variable) -> list[Variable]:
        """Create the slots of a variable."""
        return [self._new_slot(name, variable) for name in self.slots_for(variable)]

    def slots_for(self, variable: Variable) -> Sequence[str]:
        """Return the names of the slots of a variable, by default `slots`."""
        return self.slots

    def _new_slot(self, name: str, variable: Variable) -> Variable:
        dtype = _slot_dtype(name, variable)
        value = creation.full_like(variable.read_value(), self.initial_slot(name), dtype)
        label = f"{variable.name.removesuffix(':0')}/{name}"
        return Variable(value, trainable=False, name=label)

    def initial_slot(self, name: str) -> float:
        """Return the initial value of a slot."""
        return 0.0

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Variable]],
        name: str | None = None,
        skip_gradients_aggregation: bool = False,
    ) -> Variable:
        """Make one step from pairs of gradient and variable; return the step count.

        Pairs whose gradient is None are skipped with a warning; if all are None, that is an error.
        If a pair is invalid, nothing changes. Tapes do not record the step. In a strategy with
        several replicas, the gradients of all replicas are added first.

        >>> import tapegrad
        >>> w = tapegrad.Variable(1.0)
        >>> step = tapegrad.optimizers.SGD(0.5).apply_gradients([(tapegrad.constant(1.0), w)])
        >>> float(w)
        0.5
        """
        check_flag("skip_gradients_aggregation", skip_gradients_aggregation, "apply_gradients")
        with using_stack(EMPTY):
            pairs, missing = checked_pairs(grads_and_vars)
            if missing:
                warn_outside(f"Gradients do not exist for variables {missing}")
            if pairs:
                has_others = self._is_joint or max(self._replicas, replicas_in_sync()) > 1
                if has_others and not skip_gradients_aggregation:
                    self._apply_together(pairs)
                else:
                    self._apply(pairs)
        return self.iterations

    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> None:
        """Make one step; by default for the variables of `build` or of earlier steps.

        >>> import tapegrad
        >>> w = tapegrad.Variable(1.0)
        >>> tapegrad.optimizers.SGD(0.5).apply([tapegrad.constant(1.0)], [w])
        >>> float(w)
        0.5
        """
        known = self._known.values() if trainable_variables is None else trainable_variables
        variables = list(known)
        if len(grads) != len(variables):
            raise ArgumentError(
                f"apply() got {len(grads)} gradients for {len(variables)} variables."
            )
        self.apply_gradients(list(zip(grads, variables)))

    def minimize(self, loss: Any, var_list: Any, tape: GradientTape | None = None) -> Variable:
        """Differentiate `loss` (a function, or a tensor with the tape that recorded it) and step.

        >>> import tapegrad
        >>> w = tapegrad.Variable(1.0)
        >>> _ = tapegrad.optimizers.SGD(0.25).minimize(lambda: w * w, [w])
        >>> float(w)
        0.5
        """
        if not callable(loss):
            if tape is None:
                raise ArgumentError(
                    "minimize() takes a function, or a loss tensor together with tape=."
                )
        else:
            with tape or GradientTape() as tape:
                loss = loss()
        variables = list(var_list() if callable(var_list) else var_list)
        gradients = tape.gradient(loss, variables)
        return self.apply_gradients(list(zip(gradients, variables)))

    def _apply_together(self, pairs: list[tuple[Any, Variable]]) -> None:
        """Make a step with the gradients of all replicas."""
        self._apply(self._combined(pairs))

    def _combined(
        self, pairs: list[tuple[Any, Variable]], when: Any = None
    ) -> list[tuple[Any, Variable]]:
        """Return the pairs with sums over all replicas, if `when` is true or None."""
        return summed_pairs(pairs, when)

    def _apply(self, pairs: list[tuple[Any, Variable]]) -> None:
        if any_sharded():
            pairs = clipped_together(self, pairs)
        rule = self.group_rule()
        plan = self._plan
        if plan is None or plan.key != key_of(pairs):
            # Drop the old plan first, so that it does not hold the arrays of the variables.
            plan = self._plan = None
            plan = self._plan = self._make_plan(pairs, rule)
        gradients, factor = [gradient for gradient, _ in pairs], None
        if self.global_clipnorm is not None and plan.is_one_group:
            factor = plan.groups[0].factor(gradients, self.global_clipnorm)
        else:
            gradients = self._clipped(gradients)
        rate = self._rate if self._schedule is None else to_tensor(self.learning_rate, "float32")
        if not (plan.groups or plan.can_fail or other_threads()):
            self._apply_plan(plan, rule, pairs, gradients, factor, rate)
            return
        places = [variable for _, variable in pairs] + self.variables if plan.can_fail else []
        # Python code launches the kernels of a group, which write in place.
        with updating, restoring(places), deferring_signals() if plan.groups else nullcontext():
            self._apply_plan(plan, rule, pairs, gradients, factor, rate)
            if other_threads():
                for group in plan.groups:
                    note_overwriting(group.places)

    def _apply_plan(
        self,
        plan: UpdatePlan,
        rule: Rule | None,
        pairs: list[tuple[Any, Variable]],
        gradients: list[Any],
        factor: Any,
        rate: Any,
    ) -> None:
        """Make the step from checked and clipped gradients."""
        counts = self._counts()
        before = [variable.array for variable in counts]
        parts: list[Part] = []
        progress = Progress()
        try:
            count = self.iterations.array
            self.iterations.array = count_update.kernel(type(count))(count)
            here = Scalars(rate.array, self.iterations.array, self.further_scalars())
            scalars = {self.iterations.device: here}
            for device in plan.devices:
                if device not in scalars:
                    scalars[device] = _scalars_on(here, device)
            for group in plan.groups:
                assert rule is not None
                parts += self._group_parts(group, gradients, scalars[group.device], rule, factor)
            for batch in plan.batches:
                parts.append((self._batch_part, (batch, pairs, gradients, scalars, rule)))
            apply_parts(parts, progress)
        except BaseException:
            if not progress.stored:
                store(counts, before)
            raise

    def _counts(self) -> list[Variable]:
        """Return the variables that change before the first parameter does."""
        return [self.iterations]

    def _make_plan(self, pairs: list[tuple[Any, Variable]], rule: Rule | None) -> UpdatePlan:
        for _, variable in pairs:
            self._slots_of(variable)
        name = None if rule is None else rule.primitive.name
        plan = make_plan(pairs, name, self._slots_of, self._averages, self._without_decay)
        kinds = [type(self), *[type(v.constraint) for _, v in pairs if v.constraint is not None]]
        plan.can_fail = not all(kind.__module__.startswith("tapegrad.") for kind in kinds)
        return plan

    def _group_parts(
        self, group: Group, gradients: list[Any], scalars: Scalars, rule: Rule, factor: Any
    ) -> list[Part]:
        """Return the step of a group, then constraints and averages of single variables."""
        share = 0.0 if self.ema_momentum is None else 1.0 - self.ema_momentum
        amount = self.weight_decay or 0.0
        arguments = (gradients, scalars, rule.params, amount, share, factor)
        what = f"The step of {len(group.variables)} variables"
        step = partial(attempt, what, group.updated, on=scalars.rate)
        finished = group.variables_to_finish(self.ema_momentum is not None)
        rest: list[Part] = [(self._finished, (v, scalars, group.averaged)) for v in finished]
        return [(step, arguments), *rest]

    def further_scalars(self) -> tuple[Any, ...]:
        """Return other numbers that the rule reads, as arrays. `iterations` includes this step."""
        return ()

    def _clipped(self, gradients: list[Any]) -> list[Any]:
        if self.clipvalue is not None:
            return [_clip_by_value(gradient, self.clipvalue) for gradient in gradients]
        if self.clipnorm is not None:
            return [clipping.clip_by_norm(gradient, self.clipnorm) for gradient in gradients]
        if self.global_clipnorm is not None:
            return clipping.clip_by_global_norm(gradients, self.global_clipnorm)[0]
        return gradients

    def _batch_part(
        self,
        batch: Batch,
        pairs: list[tuple[Any, Variable]],
        gradients: list[Any],
        scalars: dict[str, Scalars],
        rule: Rule | None,
    ) -> tuple[list[Variable], list[Any]]:
        """Return variables with their slots and averages, and their arrays after a step."""
        arrays: list[Any] = []
        if batch.places is not None and rule is not None and self.ema_momentum is None:
            try:
                for k, device in batch.singles:
                    variable = pairs[k][1]
                    slots = self._slots[variable.number]
                    arrays += self._updated(gradients[k], variable, slots, scalars[device], rule)
                return batch.places, arrays
            except MemoryError:  # the way below frees memory and tries again
                arrays.clear()
        places: list[Variable] = []
        for k, device in batch.singles:
            one, new = self._single_part(gradients[k], pairs[k][1], scalars[device], rule)
            places += one
            arrays += new
        return places, arrays

    def _single_part(
        self, gradient: Any, variable: Variable, scalars: Scalars, rule: Rule | None
    ) -> tuple[list[Variable], Sequence[Any]]:
        """Return a variable with its slots and average, and their arrays after a step."""
        slots = self._slots.get(variable.number) or self._slots_of(variable)
        try:
            arrays = self._updated(gradient, variable, slots, scalars, rule)
        except MemoryError as error:
            again = partial(self._updated, gradient, variable, slots, scalars, rule)
            what = f"The step of {variable.name!r}"
            arrays = recover(what, (variable.array,), again, error)
        if variable.constraint is None and self.ema_momentum is None:
            return [variable, *slots], arrays
        p, *others = arrays
        places, finished = self._finished(variable, scalars, False, p)
        return [*places, *slots], [*finished, *others]

    def _finished(
        self, variable: Variable, scalars: Scalars, averaged: bool, p: Any = None
    ) -> tuple[list[Variable], list[Any]]:
        """Return a variable and its average, unless that is done (`averaged`), and their arrays.

        The constraint is applied to `p`, by default the array of the variable.
        """
        p = variable.array if p is None else p
        if variable.constraint is not None:
            p = variable.fitted(variable.constraint(wrap(p)))
        if self.ema_momentum is None or averaged:
            return [variable], [p]
        average = self._averages.get(variable.number)
        if average is None:
            average = self._average_of(variable, p)
        move = average_update.kernel(type(average.array))
        (new,) = move(average.array, p, scalars.step, share=1.0 - self.ema_momentum)
        return [variable, average], [p, new]

    def _updated(
        self,
        gradient: Any,
        variable: Variable,
        slots: list[Variable],
        scalars: Scalars,
        rule: Rule | None,
    ) -> Any:
        """Return the arrays of a variable and its slots after a step; nothing has changed yet."""
        arrays = [slot.array for slot in slots]
        p = variable.array
        if self.weight_decay and variable.number not in self._without_decay:
            decay = decay_update.kernel(type(p))
            (p,) = decay(p, scalars.rate, amount=self.weight_decay)
        if type(gradient) is IndexedSlices:
            return self.update_rows(p, gradient, arrays, scalars)
        if rule is not None:
            return rule.apply(p, gradient.array, arrays, scalars)
        return self.update(p, gradient.array, arrays, scalars)

    def _average_of(self, variable: Variable, start: Any = None) -> Variable:
        """Return the average of a variable; a new one starts at `start` or its value."""
        average = self._averages.get(variable.number)
        if average is None:
            label = f"{variable.name.removesuffix(':0')}/average"
            value = variable.read_value() if start is None else wrap(start)
            average = Variable(value, trainable=False, name=label)
            self._averages[variable.number] = average
            self._plan = None
        return average

    def rule(self) -> Rule:
        """Return the update rule; a class that defines `update` needs none."""
        raise NotImplementedError(f"{type(self).__name__} must define {self._needed}.")

    def group_rule(self) -> Rule | None:
        """Return the rule by which a backend may update variables together, or None."""
        return self.rule() if type(self).update is Optimizer.update else None

    def update(self, p: Any, g: Any, slots: list[Any], scalars: Scalars) -> Any:
        """Return the new parameter and slots from a dense gradient, all as raw arrays.

        Raw arrays, because tapes must not record a step, and to wrap each array would cost as much
        as the arithmetic of a small variable. By default, `rule` makes the step.
        """
        return self.rule().apply(p, g, slots, scalars)

    def update_rows(self, p: Any, rows: IndexedSlices, slots: list[Any], scalars: Scalars) -> Any:
        """Do the same from a sparse gradient, whose rows may repeat; by default make it dense."""
        return self.update(p, rows.dense().array, slots, scalars)

    def swap_in_averages(self) -> None:
        """Exchange each variable with its moving average; a second call restores them.

        >>> import tapegrad
        >>> w = tapegrad.Variable(1.0)
        >>> optimizer = tapegrad.optimizers.SGD(0.5, use_ema=True, ema_momentum=0.5)
        >>> for _ in range(2):
        ...     step = optimizer.apply_gradients([(1.0, w)])
        >>> optimizer.swap_in_averages()
        >>> float(w)
        0.25
        """
        averages = list(self._averages.values())
        variables = [self._known[number] for number in self._averages]
        with updating:
            places = [*variables, *averages]
            store(places, [place.array for place in (*averages, *variables)])


add_absent(
    Optimizer,
    {
        "step": "Use optimizer.apply_gradients(zip(gradients, variables)), or "
        "optimizer.minimize(loss_function, variables).",
        "zero_grad": "A tape returns new gradients, which are not added to older ones.",
    },
)


def _scalars_on(scalars: Scalars, device: str) -> Scalars:
    rate, step, *further = [
        host.move(array, device) for array in (scalars.rate, scalars.step, *scalars.further)
    ]
    return Scalars(rate, step, tuple(further))


def _slot_dtype(name: str, variable: Variable) -> str:
    """Return the dtype of a slot: single precision for half, real for squared gradients."""
    dtype = variable.dtype.name
    if dtype in ("float16", "bfloat16"):
        return "float32"
    if name in ("velocity", "peak", "accumulator"):
        return {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
    return dtype


def _clip_by_value(gradient: Any, limit: float) -> Any:
    """Clip to ±limit; rows that a sparse gradient does not have stay 0."""
    if not isinstance(gradient, IndexedSlices):
        return clipping.clip_by_value(gradient, -limit, limit)
    gradient = merged(gradient)
    values = clipping.clip_by_value(gradient.values, -limit, limit)
    return IndexedSlices(values, gradient.indices, gradient.dense_shape)


def _check_limits(**limits: float | None) -> None:
    given = {name: limit for name, limit in limits.items() if limit is not None}
    if len(given) > 1:
        raise ArgumentError(f"Give only one of {', '.join(limits)}. Got {given}.")
    for name, limit in given.items():
        if not isinstance(limit, int | float):
            raise ArgumentTypeError(f"{name} must be a number. Got {type(limit).__name__}.")
        if not limit > 0:
            raise ArgumentError(f"{name} must be positive. Got {limit}.")
