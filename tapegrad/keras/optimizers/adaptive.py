"""Optimizers with elementwise running moments of the gradient: Adadelta, Adamax, Nadam."""

from __future__ import annotations

from typing import Any, Unpack

from tapegrad.core.values.variable import Variable
from tapegrad.keras.optimizers.base import Options
from tapegrad.keras.optimizers.tensor_rule import RealOptimizer, TwoMoments
from tapegrad.optimizers import updates
from tapegrad.optimizers.base import Variables
from tapegrad.optimizers.rules import check_shares
from tapegrad.optimizers.update_rule import Rule


class Adadelta(RealOptimizer):
    """Adadelta: gradients scaled by the ratio of running RMS values of updates and gradients.

    >>> import tapegrad
    >>> w = tapegrad.Variable(1.0)
    >>> _ = Adadelta(1.0, rho=0.0, epsilon=0.25).apply_gradients([(0.0, w)])
    >>> float(w)
    1.0
    """

    slots = ("accumulated_grad", "accumulated_delta_var")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.95,
        epsilon: float = 1e-7,
        **options: Unpack[Options],
    ) -> None:
        check_shares(rho=rho)
        super().__init__(learning_rate, **options)
        self.rho, self.epsilon = rho, epsilon

    def rule(self) -> Rule:
        return Rule(updates.adadelta_update, {"rho": self.rho, "epsilon": self.epsilon})


class Adamax(TwoMoments):
    """Adam with a decaying maximum of the gradient instead of the second moment.

    >>> import tapegrad
    >>> w = tapegrad.Variable(1.0)
    >>> _ = Adamax(0.5).apply_gradients([(3.0, w)])
    >>> round(float(w), 4)
    0.5
    """

    slots = ("momentum", "norm")

    def rule(self) -> Rule:
        return Rule(updates.adamax_update, self._constants(), reads_step=True)


class Nadam(TwoMoments):
    """Adam with Nesterov momentum, whose coefficient grows during the first steps.

    >>> import tapegrad
    >>> w = tapegrad.Variable(1.0)
    >>> _ = Nadam(0.5).apply_gradients([(3.0, w)])
    >>> float(w) < 1.0
    True
    """

    slots = ("momentum", "velocity")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(learning_rate, beta_1, beta_2, epsilon, **options)
        self._product = Variable(1.0, trainable=False, name="u_product", dtype="float64")

    @property
    def variables(self) -> Variables:
        """The variables to save: those of the base class, and the product of all momenta."""
        return Variables([*super().variables, self._product])

    def _counts(self) -> list[Variable]:
        return [*super()._counts(), self._product]

    def further_scalars(self) -> tuple[Any, ...]:
        product = self._product.array
        multiply = updates.nadam_product_update.kernel(type(product))
        betas = {"beta_1": self.beta_1, "beta_2": self.beta_2}
        self._product.array, *numbers = multiply(product, self.iterations.array, **betas)
        return tuple(numbers)

    def rule(self) -> Rule:
        return Rule(updates.nadam_update, self._constants())
