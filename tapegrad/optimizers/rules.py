"""The optimizers: SGD, Adam, AdamW, RMSprop, Adagrad (Keras' names and defaults)."""

from __future__ import annotations

from typing import Any

from tapegrad.core.indexed_slices import IndexedSlices
from tapegrad.core.primitive import Primitive
from tapegrad.core.variable import Variable
from tapegrad.errors import ArgumentError
from tapegrad.ops import gather, scatter
from tapegrad.optimizers import updates
from tapegrad.optimizers.base import Optimizer


def _run(update: Primitive, *arrays: Any, **params: Any) -> Any:
    return update.kernel(type(arrays[0]))(*arrays, **params)


class SGD(Optimizer):
    """Gradient descent, with momentum if wanted.

    >>> import tapegrad
    >>> w = tapegrad.Variable([1.0, 2.0])
    >>> _ = SGD(0.1).apply_gradients([(tapegrad.constant([1.0, 1.0]), w)])
    >>> w.numpy().tolist()
    [0.8999999761581421, 1.899999976158142]
    """

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        **options: Any,
    ) -> None:
        if not 0.0 <= momentum <= 1.0:
            raise ArgumentError(f"momentum must be between 0 and 1. Got {momentum}.")
        super().__init__(learning_rate, **options)
        self.momentum, self.nesterov = momentum, nesterov
        self.slots = ("momentum",) if momentum else ()

    def update(self, gradient: Any, variable: Variable, state: Any, rate: Any) -> None:
        if not self.momentum:
            (variable.array,) = _run(updates.sgd_update, variable.array, gradient, rate)
            return
        slot = state["momentum"]
        variable.array, slot.array = _run(
            updates.momentum_update,
            variable.array,
            gradient,
            slot.array,
            rate,
            momentum=self.momentum,
            nesterov=self.nesterov,
        )

    def update_rows(
        self, rows: IndexedSlices, variable: Variable, state: dict[str, Variable], rate: Any
    ) -> None:
        if self.momentum:
            super().update_rows(rows, variable, state, rate)
            return
        old = gather.gather(variable.value(), rows.indices)
        (new,) = _run(updates.sgd_update, old.array, rows.values.array, rate)
        variable.array = scatter.replace_rows(variable.array, rows.indices.array, new)


class Adam(Optimizer):
    """Adam: steps scaled by running first and second moments of the gradient.

    >>> import tapegrad
    >>> w = tapegrad.Variable(1.0)
    >>> _ = Adam(0.1).apply_gradients([(tapegrad.constant(3.0), w)])
    >>> round(float(w), 4)
    0.9
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, **options)
        self.beta_1, self.beta_2, self.epsilon, self.amsgrad = beta_1, beta_2, epsilon, amsgrad
        self.slots = ("momentum", "velocity", "peak") if amsgrad else ("momentum", "velocity")

    def update(self, gradient: Any, variable: Variable, state: Any, rate: Any) -> None:
        slots = [state[name] for name in self.slots]
        new = _run(
            updates.adam_max_update if self.amsgrad else updates.adam_update,
            variable.array,
            gradient,
            *(slot.array for slot in slots),
            rate,
            self.iterations.array,
            beta_1=self.beta_1,
            beta_2=self.beta_2,
            epsilon=self.epsilon,
        )
        variable.array = new[0]
        for slot, array in zip(slots, new[1:], strict=True):
            slot.array = array


class AdamW(Adam):
    """Adam with decoupled weight decay (0.004 by default).

    >>> import tapegrad
    >>> w = tapegrad.Variable(1.0)
    >>> _ = AdamW(0.1, weight_decay=0.5).apply_gradients([(tapegrad.constant(0.0), w)])
    >>> round(float(w), 4)
    0.95
    """

    def __init__(
        self, learning_rate: Any = 0.001, weight_decay: float = 0.004, **options: Any
    ) -> None:
        super().__init__(learning_rate, weight_decay=weight_decay, **options)


class RMSprop(Optimizer):
    """Steps divided by the root of a running mean of squared gradients.

    >>> import tapegrad
    >>> w = tapegrad.Variable(1.0)
    >>> _ = RMSprop(0.1, rho=0.0).apply_gradients([(tapegrad.constant(3.0), w)])
    >>> round(float(w), 4)
    0.9
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, **options)
        self.rho, self.momentum, self.epsilon, self.centered = rho, momentum, epsilon, centered
        self.slots = ("velocity", "mean", "momentum")

    def update(self, gradient: Any, variable: Variable, state: Any, rate: Any) -> None:
        slots = [state[name] for name in self.slots]
        variable.array, *arrays = _run(
            updates.rmsprop_update,
            variable.array,
            gradient,
            *(slot.array for slot in slots),
            rate,
            rho=self.rho,
            momentum=self.momentum,
            epsilon=self.epsilon,
            centered=self.centered,
        )
        for slot, array in zip(slots, arrays, strict=True):
            slot.array = array


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of all squared gradients so far.

    >>> import tapegrad
    >>> w = tapegrad.Variable(1.0)
    >>> _ = Adagrad(0.1, initial_accumulator_value=0.0).apply_gradients([(w * 3.0, w)])
    >>> round(float(w), 4)
    0.9
    """

    slots = ("accumulator",)

    def __init__(
        self,
        learning_rate: Any = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
        **options: Any,
    ) -> None:
        self.initial_accumulator_value = initial_accumulator_value
        super().__init__(learning_rate, **options)
        self.epsilon = epsilon

    def initial_slot(self, name: str) -> float:
        return self.initial_accumulator_value

    def update(self, gradient: Any, variable: Variable, state: Any, rate: Any) -> None:
        slot = state["accumulator"]
        variable.array, slot.array = _run(
            updates.adagrad_update, variable.array, gradient, slot.array, rate, epsilon=self.epsilon
        )

    def update_rows(
        self, rows: IndexedSlices, variable: Variable, state: dict[str, Variable], rate: Any
    ) -> None:
        slot, where = state["accumulator"], rows.indices
        old = gather.gather(variable.value(), where).array
        total = gather.gather(slot.value(), where).array
        new, total = _run(
            updates.adagrad_update, old, rows.values.array, total, rate, epsilon=self.epsilon
        )
        variable.array = scatter.replace_rows(variable.array, where.array, new)
        slot.array = scatter.replace_rows(slot.array, where.array, total)
