"""The optimizers SGD, Adam, AdamW, RMSprop and Adagrad, with Keras' names and defaults."""

from __future__ import annotations

from typing import Any

from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.errors import ArgumentError
from tapegrad.ops.indexing.sparse_rows import merged
from tapegrad.optimizers import updates
from tapegrad.optimizers.base import Optimizer
from tapegrad.optimizers.update_rule import Rule, Scalars


class SGD(Optimizer):
    """Gradient descent, optionally with momentum.

    >>> import tapegrad
    >>> w = tapegrad.Variable([1.0, 2.0])
    >>> _ = SGD(0.5).apply_gradients([(tapegrad.constant([1.0, 2.0]), w)])
    >>> w.numpy().tolist()
    [0.5, 1.0]
    """

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        **options: Any,
    ) -> None:
        check_shares(momentum=momentum)
        super().__init__(learning_rate, **options)
        self.momentum, self.nesterov = momentum, nesterov
        self.slots = ("momentum",) if momentum else ()

    def rule(self) -> Rule:
        if not self.momentum:
            return Rule(updates.sgd_update, {})
        params = {"momentum": self.momentum, "nesterov": self.nesterov}
        return Rule(updates.momentum_update, params)

    def update_rows(self, p: Any, rows: IndexedSlices, slots: list[Any], scalars: Scalars) -> Any:
        if self.momentum:
            return super().update_rows(p, rows, slots, scalars)
        kernel = updates.sgd_rows_update.kernel(type(p))
        return kernel(p, rows.values.array, rows.indices.array, scalars.rate)


class Adam(Optimizer):
    """Adam: steps scaled by running averages of the gradient and its square.

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
        check_shares(beta_1=beta_1, beta_2=beta_2)
        super().__init__(learning_rate, **options)
        self.beta_1, self.beta_2, self.epsilon, self.amsgrad = beta_1, beta_2, epsilon, amsgrad
        self.slots = ("momentum", "velocity", "peak") if amsgrad else ("momentum", "velocity")

    def rule(self) -> Rule:
        params = {"beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon}
        return Rule(updates.adam_update, params, reads_step=True)


class AdamW(Adam):
    """Adam with decoupled weight decay (0.004 by default).

    >>> import tapegrad
    >>> w = tapegrad.Variable(1.0)
    >>> _ = AdamW(0.1, weight_decay=0.5).apply_gradients([(tapegrad.constant(0.0), w)])
    >>> round(float(w), 4)
    0.95
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        weight_decay: float | None = 0.004,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        **options: Any,
    ) -> None:
        if weight_decay is None:
            raise ArgumentError("AdamW needs a weight_decay. Got None; use Adam for none.")
        super().__init__(
            learning_rate, beta_1, beta_2, epsilon, amsgrad, weight_decay=weight_decay, **options
        )


class RMSprop(Optimizer):
    """RMSprop: steps divided by the root of a running average of squared gradients.

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
        check_shares(rho=rho, momentum=momentum)
        super().__init__(learning_rate, **options)
        self.rho, self.momentum, self.epsilon, self.centered = rho, momentum, epsilon, centered
        further = (("mean",) if centered else ()) + (("momentum",) if momentum else ())
        self.slots = ("velocity", *further)

    def rule(self) -> Rule:
        params = {
            "rho": self.rho,
            "momentum": self.momentum,
            "epsilon": self.epsilon,
            "centered": self.centered,
        }
        return Rule(updates.rmsprop_update, params)


class Adagrad(Optimizer):
    """Adagrad: steps divided by the root of the sum of all squared gradients.

    >>> import tapegrad
    >>> w = tapegrad.Variable(1.0)
    >>> _ = Adagrad(0.1, initial_accumulator_value=0.0).apply_gradients([(w * 3.0, w)])
    >>> round(float(w), 4)
    0.9
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, **options)
        self.initial_accumulator_value = initial_accumulator_value
        self.epsilon = epsilon
        self.slots = ("accumulator",)

    def initial_slot(self, name: str) -> float:
        return self.initial_accumulator_value

    def rule(self) -> Rule:
        return Rule(updates.adagrad_update, {"epsilon": self.epsilon})

    def update_rows(self, p: Any, rows: IndexedSlices, slots: list[Any], scalars: Scalars) -> Any:
        rows = merged(rows)
        kernel = updates.adagrad_rows_update.kernel(type(p))
        return kernel(
            p, rows.values.array, rows.indices.array, scalars.rate, *slots, epsilon=self.epsilon
        )


def check_shares(**shares: float) -> None:
    """Raise for a value that is not between 0 and 1."""
    for name, value in shares.items():
        if not 0.0 <= value <= 1.0:
            raise ArgumentError(f"{name} must be between 0 and 1. Got {value}.")
