"""What all optimizers share: slots, clipping, weight decay, averaging, and the TF interface."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.convert import to_tensor
from tapegrad.core.indexed_slices import IndexedSlices
from tapegrad.core.recorder import EMPTY, using_stack
from tapegrad.core.tensor import Tensor, wrap
from tapegrad.core.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops import clipping, creation, segment
from tapegrad.optimizers.updates import decay_update


class Optimizer:
    """Base of all optimizers; subclasses say which slots they keep and how one step goes.

    `slots` names the arrays kept per variable, `update` makes one step. `learning_rate` is a
    number, or a schedule: a function of the step count.
    """

    slots: tuple[str, ...] = ()

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
        given = [c for c in (clipnorm, clipvalue, global_clipnorm) if c is not None]
        if len(given) > 1:
            raise ArgumentError(
                "Give only one of clipnorm, clipvalue and global_clipnorm. "
                f"Got {clipnorm=}, {clipvalue=}, {global_clipnorm=}."
            )
        if any(limit <= 0 for limit in given):
            raise ArgumentError(f"A clipping limit must be positive. Got {given[0]}.")
        self.name = name or type(self).__name__.lower()
        self.weight_decay = weight_decay
        self.clipnorm, self.clipvalue, self.global_clipnorm = clipnorm, clipvalue, global_clipnorm
        self.ema_momentum = ema_momentum if use_ema else None
        self.iterations = Variable(0, trainable=False, name="iterations", dtype="int64")
        self._schedule: Callable[[Any], Any] | None = None
        self._rate = Variable(0.0, trainable=False, name="learning_rate", dtype="float32")
        self.learning_rate = learning_rate
        self._state: dict[int, dict[str, Variable]] = {}
        self._known: dict[int, Variable] = {}

    @property
    def learning_rate(self) -> Any:
        """The rate of the next step: a variable, or what the schedule gives."""
        return self._rate if self._schedule is None else self._schedule(self.iterations)

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        if callable(value) and not isinstance(value, Tensor | Variable):
            self._schedule = value
            return
        self._schedule = None
        rate = to_tensor(value, "float32")
        if tuple(rate.shape):
            raise ShapeError(f"learning_rate must be a number. Got shape {tuple(rate.shape)}.")
        self._rate.assign(rate if rate.dtype == "float32" else float(rate))

    lr = learning_rate

    @property
    def variables(self) -> list[Variable]:
        """Everything to save: the step count, the rate and all slots."""
        slots = [slot for state in self._state.values() for slot in state.values()]
        return [self.iterations, self._rate, *slots]

    def build(self, var_list: Iterable[Variable]) -> None:
        """Make the slots of the given variables now instead of at the first step."""
        for variable in var_list:
            self._slots_of(variable)

    def _slots_of(self, variable: Variable) -> dict[str, Variable]:
        state = self._state.get(variable.number)
        if state is None:
            names = (*self.slots, "average") if self.ema_momentum is not None else self.slots
            state = {name: self._new_slot(name, variable) for name in names}
            self._state[variable.number] = state
            self._known[variable.number] = variable
        return state

    def _new_slot(self, name: str, variable: Variable) -> Variable:
        start = self.initial_slot(name)
        value = variable.value() if name == "average" else creation.full_like(variable, start)
        label = f"{variable.name.removesuffix(':0')}/{name}"
        return Variable(value, trainable=False, name=label)

    def initial_slot(self, name: str) -> float:
        """The number a new slot is filled with."""
        return 0.0

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Variable]],
        name: str | None = None,
        skip_gradients_aggregation: bool = False,
    ) -> Variable:
        """Make one step from pairs of gradient and variable; return the step count.

        Pairs without a gradient are skipped with a warning; if all are, it is an error.

        >>> import tapegrad
        >>> w = tapegrad.Variable(1.0)
        >>> step = tapegrad.optimizers.SGD(0.5).apply_gradients([(tapegrad.constant(1.0), w)])
        >>> float(w)
        0.5
        """
        pairs = _checked_pairs(grads_and_vars)
        with using_stack(EMPTY):
            gradients = self._clipped([gradient for gradient, _ in pairs])
            self.iterations.assign_add(1, read_value=False)
            rate = to_tensor(self.learning_rate, "float32").array
            for gradient, (_, variable) in zip(gradients, pairs, strict=True):
                self._step(gradient, variable, rate)
        return self.iterations

    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> None:
        """Make one step; without variables, those of `build` or of the last step."""
        known = list(self._known.values()) if trainable_variables is None else trainable_variables
        self.apply_gradients(list(zip(grads, known, strict=True)))

    def minimize(self, loss: Any, var_list: Any, tape: GradientTape | None = None) -> Variable:
        """Differentiate `loss` (a function, or a tensor with the tape that saw it) and step.

        >>> import tapegrad
        >>> w = tapegrad.Variable(1.0)
        >>> _ = tapegrad.optimizers.SGD(0.25).minimize(lambda: w * w, [w])
        >>> float(w)
        0.5
        """
        if not callable(loss) and tape is None:
            raise ArgumentError("minimize() takes a function, or a loss tensor together with tape=.")
        if callable(loss) and not isinstance(loss, Tensor):
            with tape or GradientTape() as tape:
                loss = loss()
        assert tape is not None
        variables = list(var_list() if callable(var_list) else var_list)
        gradients = tape.gradient(loss, variables)
        return self.apply_gradients(list(zip(gradients, variables, strict=True)))

    def _clipped(self, gradients: list[Any]) -> list[Any]:
        if self.clipvalue is not None:
            return [clipping.clip_by_value(g, -self.clipvalue, self.clipvalue) for g in gradients]
        if self.clipnorm is not None:
            return [clipping.clip_by_norm(g, self.clipnorm) for g in gradients]
        if self.global_clipnorm is not None:
            return list(clipping.clip_by_global_norm(gradients, self.global_clipnorm)[0])
        return gradients

    def _step(self, gradient: Any, variable: Variable, rate: Any) -> None:
        state = self._slots_of(variable)
        if self.weight_decay:
            new = decay_update(variable.value(), wrap(rate), amount=self.weight_decay)[0]
            variable.array = new.array
        if isinstance(gradient, IndexedSlices):
            self.update_rows(_merged(gradient), variable, state, rate)
        else:
            self.update(gradient.array, variable, state, rate)
        if variable.constraint is not None:
            variable.assign(variable.constraint(variable.value()), read_value=False)
        if self.ema_momentum is not None:
            average = state["average"]
            average.array = average.array + (variable.array - average.array) * (
                1.0 - self.ema_momentum
            )

    def update(self, gradient: Any, variable: Variable, state: Any, rate: Any) -> None:
        """Make the step of one variable from a dense gradient array."""
        raise NotImplementedError(f"{type(self).__name__} must define update().")

    def update_rows(
        self, rows: IndexedSlices, variable: Variable, state: dict[str, Variable], rate: Any
    ) -> None:
        """Make the step from a sparse gradient whose rows are unique; dense by default."""
        self.update(rows.dense().array, variable, state, rate)

    def swap_in_averages(self) -> None:
        """Exchange each variable with its moving average (call again to go back)."""
        for number, state in self._state.items():
            variable, average = self._known[number], state["average"]
            variable.array, average.array = average.array, variable.array


def _merged(gradient: IndexedSlices) -> IndexedSlices:
    """Add up rows that occur more than once."""
    values, indices = segment.merge_rows(gradient.values, gradient.indices)
    return IndexedSlices(values, indices, gradient.dense_shape)


def _checked_pairs(grads_and_vars: Iterable[tuple[Any, Variable]]) -> list[tuple[Any, Variable]]:
    """Drop pairs without a gradient; check shapes, dtypes and types before anything changes."""
    pairs, missing = [], []
    for position, pair in enumerate(grads_and_vars):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ArgumentTypeError(f"Entry {position} must be a (gradient, variable) pair.")
        gradient, variable = pair
        if not isinstance(variable, Variable):
            raise ArgumentTypeError(
                f"Entry {position} pairs a gradient with {type(variable).__name__}; expected a "
                "Variable. The order is (gradient, variable)."
            )
        if gradient is None:
            missing.append(variable.name)
            continue
        pairs.append((_checked_gradient(gradient, variable), variable))
    if missing and not pairs:
        raise ArgumentError(f"No gradients provided for any variable: {', '.join(missing)}.")
    if missing:
        warnings.warn(
            f"Gradients do not exist for variables {', '.join(missing)}; they are not changed.",
            stacklevel=4,
        )
    return pairs


def _checked_gradient(gradient: Any, variable: Variable) -> Any:
    if not isinstance(gradient, IndexedSlices):
        gradient = to_tensor(gradient, like=variable.value())
    if tuple(gradient.shape) != tuple(variable.shape):
        raise ShapeError(
            f"The gradient of {variable.name!r} must have shape {tuple(variable.shape)}. "
            f"Got {tuple(gradient.shape)}."
        )
    return gradient
