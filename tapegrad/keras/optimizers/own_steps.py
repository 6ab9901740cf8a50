"""User-defined optimizers as in Keras 3: `build` creates state, `update_step` updates a variable.

Learning rates, clipping, decay, averages and gradient accumulation are applied around that step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tapegrad.core.commit import store
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.device import current_device, device
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError
from tapegrad.keras import initializers
from tapegrad.keras.optimizers.conditional import Pairs, on_device
from tapegrad.ops.casting.cast import in_dtype
from tapegrad.ops.collective.sharded_weights import any_sharded
from tapegrad.optimizers import base
from tapegrad.optimizers.sharded_pairs import clipped_together
from tapegrad.optimizers.update_rule import Scalars
from tapegrad.optimizers.updates import decay_update


class OwnSteps(base.Optimizer):
    """Base class of `Optimizer`: the methods of user-defined optimizers, and how they step."""

    _by_number = (*base.Optimizer._by_number, "_makers", "_indices")
    _has_own_step = False
    _needed = "update_step(gradient, variable, learning_rate)"

    def __init__(self, *args: Any, **options: Any) -> None:
        self._shared: dict[str, Variable] = {}
        self._makers: dict[int, Callable[[], Variable]] = {}
        self._indices: dict[int, int] = {}
        super().__init__(*args, **options)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._has_own_step = cls.update_step is not OwnSteps.update_step

    def update_step(self, gradient: Any, variable: Variable, learning_rate: Any) -> None:
        """Update a variable by its gradient; `iterations` is the number of earlier steps."""
        raise NotImplementedError(f"{type(self).__name__} must define {self._needed}.")

    # Variables

    def add_variable(
        self,
        shape: Any,
        initializer: Any = "zeros",
        dtype: Any = None,
        aggregation: str = "none",
        layout: Any = None,
        name: str | None = None,
    ) -> Variable:
        """Create an optimizer variable that is not tied to a trainable variable."""
        made = self._made(tuple(shape), initializer, dtype or "float32", name, current_device())
        self._shared[str(len(self._shared))] = made
        return made

    def add_variable_from_reference(
        self, reference_variable: Variable, name: str | None = None, initializer: Any = "zeros"
    ) -> Variable:
        """Create a variable with the shape, dtype and device of a trainable variable."""
        like = reference_variable
        label = f"{like.name.removesuffix(':0')}/{name or 'slot'}"
        made = self._made(tuple(like.shape), initializer, like.dtype.name, label, like.device)
        self._slots_of(like).append(made)
        return made

    def add_optimizer_variables(
        self, trainable_variables: Iterable[Variable], name: Any, initializer: Any = "zeros"
    ) -> Any:
        """Create one variable for each trainable variable; several names give several lists."""
        add, variables = self.add_variable_from_reference, list(trainable_variables)
        if isinstance(name, str):
            return [add(variable, name, initializer) for variable in variables]
        several = isinstance(initializer, list | tuple)
        starts = initializer if several else [initializer] * len(name)
        if len(starts) != len(name):
            raise ArgumentError(f"Got {len(starts)} initializers for {len(name)} names.")
        return tuple([add(v, *kind) for v in variables] for kind in zip(name, starts))

    def _made(self, *how: Any) -> Variable:
        made = _make(*how)
        self._makers[made.number] = partial(_make, *how)
        return made

    def _new_slots(self, variable: Variable) -> list[Variable]:
        own = [slot for slot in self._slots.get(variable.number, ()) if slot.number in self._makers]
        return [self._makers[slot.number]() for slot in own] or super()._new_slots(variable)

    def _get_variable_index(self, variable: Variable) -> int:
        """Return the index of a variable among those passed to `build`."""
        if len(self._indices) != len(self._known):
            self._indices = {number: place for place, number in enumerate(self._known)}
        if variable.number not in self._indices:
            raise ArgumentError(
                f"{type(self).__name__} was built without {variable.name!r}. Call build() with all "
                "variables before the first step. A build() of a subclass must call "
                "super().build(variables)."
            )
        return self._indices[variable.number]

    # Steps

    def assign(self, variable: Variable, value: Any) -> None:
        """Set a variable to a value, cast to the variable's dtype."""
        new = to_tensor(value, like=variable.read_value())
        variable.assign(in_dtype(new, variable.dtype), read_value=False)

    def assign_add(self, variable: Variable, value: Any) -> None:
        """Add a value to a variable, and cast the result to its dtype."""
        self.assign(variable, variable.read_value() + value)

    def assign_sub(self, variable: Variable, value: Any) -> None:
        """Subtract a value from a variable, and cast the result to its dtype."""
        self.assign(variable, variable.read_value() - value)

    def _prepare(self, variables: list[Variable]) -> None:
        if not self._has_own_step:
            super()._prepare(variables)
            return
        if variables and not self._known:
            self.build(variables)
        for variable in variables:
            self._get_variable_index(variable)

    def _make_own_step(self, pairs: Pairs) -> None:
        if any_sharded():
            pairs = clipped_together(self, [*pairs])
        gradients = self._clipped([gradient for gradient, _ in pairs])
        rate = to_tensor(self.learning_rate, "float32")
        for gradient, (_, variable) in zip(gradients, pairs):
            here = on_device(rate, variable.device)
            if self.weight_decay and variable.number not in self._without_decay:
                decay = decay_update.kernel(type(variable.array))
                (variable.array,) = decay(variable.array, here.array, amount=self.weight_decay)
            dense = gradient.dense() if isinstance(gradient, IndexedSlices) else gradient
            self.update_step(dense, variable, here)
        self.iterations.assign_add(1, read_value=False)
        count = self.iterations.read_value()
        for _, variable in pairs:
            scalars = Scalars(rate.array, on_device(count, variable.device).array)
            store(*self._finished(variable, scalars, averaged=False))


def _make(shape: Any, initializer: Any, dtype: Any, name: str | None, where: str) -> Variable:
    with device(where):
        value = initializers.get(initializer)(shape, dtype=dtype)
        return Variable(value, trainable=False, name=name)
