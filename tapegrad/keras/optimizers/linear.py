"""Ftrl and Lion."""

from __future__ import annotations

from typing import Any, Unpack

from tapegrad.errors import ArgumentError
from tapegrad.keras.optimizers.base import Options
from tapegrad.keras.optimizers.tensor_rule import RealOptimizer
from tapegrad.optimizers import updates
from tapegrad.optimizers.rules import check_shares
from tapegrad.optimizers.update_rule import Rule


class Ftrl(RealOptimizer):
    """FTRL (follow the regularized leader), which gives sparse models with L1 regularization.

    >>> import tapegrad
    >>> w = tapegrad.Variable(0.25)
    >>> _ = Ftrl(0.5, l1_regularization_strength=9.0).apply_gradients([(1.0, w)])
    >>> float(w)
    0.0
    """

    slots = ("accumulator", "linear")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float = 0.0,
        **options: Unpack[Options],
    ) -> None:
        _check_not_negative(
            initial_accumulator_value=initial_accumulator_value,
            l1_regularization_strength=l1_regularization_strength,
            l2_regularization_strength=l2_regularization_strength,
            l2_shrinkage_regularization_strength=l2_shrinkage_regularization_strength,
        )
        if learning_rate_power > 0.0:
            raise ArgumentError(f"learning_rate_power must not be > 0. Got {learning_rate_power}.")
        super().__init__(learning_rate, **options)
        self.learning_rate_power = learning_rate_power
        self.initial_accumulator_value = initial_accumulator_value
        self.l1_regularization_strength = l1_regularization_strength
        self.l2_regularization_strength = l2_regularization_strength
        self.l2_shrinkage_regularization_strength = l2_shrinkage_regularization_strength
        self.beta = beta

    def initial_slot(self, name: str) -> float:
        return self.initial_accumulator_value if name == "accumulator" else 0.0

    def rule(self) -> Rule:
        params = {
            "power": -self.learning_rate_power,
            "beta": self.beta,
            "l1": self.l1_regularization_strength,
            "l2": self.l2_regularization_strength,
            "shrinkage": self.l2_shrinkage_regularization_strength,
        }
        return Rule(updates.ftrl_update, params)


class Lion(RealOptimizer):
    """Lion: steps of constant size against the sign of the momentum.

    >>> import tapegrad
    >>> w = tapegrad.Variable([1.0, 1.0])
    >>> _ = Lion(0.5).apply_gradients([([3.0, -0.1], w)])
    >>> w.numpy().tolist()
    [0.5, 1.5]
    """

    slots = ("momentum",)

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.99,
        **options: Unpack[Options],
    ) -> None:
        if not 0.0 < beta_1 <= 1.0:
            raise ArgumentError(f"beta_1 must be above 0 and at most 1. Got {beta_1}.")
        check_shares(beta_2=beta_2)
        super().__init__(learning_rate, **options)
        self.beta_1, self.beta_2 = beta_1, beta_2

    def rule(self) -> Rule:
        return Rule(updates.lion_update, {"beta_1": self.beta_1, "beta_2": self.beta_2})


def _check_not_negative(**values: float) -> None:
    for name, value in values.items():
        if value < 0.0:
            raise ArgumentError(f"{name} must not be negative. Got {value}.")
