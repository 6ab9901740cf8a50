"""Optimizers with running moments of each element's gradient: Adadelta, Adamax, Nadam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from tapegrad.core.variable import Variable
from tapegrad.keras.optimizers.base import Options
from tapegrad.keras.optimizers.conditional import on_device
from tapegrad.keras.optimizers.tensor_rule import TensorRule, check_share, toward
from tapegrad.ops.cast import cast
from tapegrad.ops.magnitude import abs
from tapegrad.ops.powers import sqrt
from tapegrad.ops.selection import maximum


class Adadelta(TensorRule):
    """Steps as large as earlier ones were, relative to the gradients.

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
        check_share("rho", rho)
        super().__init__(learning_rate, **options)
        self.rho, self.epsilon = rho, epsilon

    def step(self, p: Any, g: Any, slots: list[Any], rate: Any, count: Any) -> Sequence[Any]:
        squares, changes = slots
        squares = toward(squares, g * g, 1.0 - self.rho)
        change = g * sqrt(changes + self.epsilon) / sqrt(squares + self.epsilon)
        changes = toward(changes, change * change, 1.0 - self.rho)
        return p - cast(rate, p.dtype) * change, squares, changes


class Adamax(TensorRule):
    """Adam with the largest recent gradient in place of the second moment.

    >>> import tapegrad
    >>> w = tapegrad.Variable(1.0)
    >>> _ = Adamax(0.5).apply_gradients([(3.0, w)])
    >>> round(float(w), 4)
    0.5
    """

    slots = ("momentum", "norm")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        **options: Unpack[Options],
    ) -> None:
        check_share("beta_1", beta_1)
        check_share("beta_2", beta_2)
        super().__init__(learning_rate, **options)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon

    def step(self, p: Any, g: Any, slots: list[Any], rate: Any, count: Any) -> Sequence[Any]:
        m, norm = slots
        m = toward(m, g, 1.0 - self.beta_1)
        norm = maximum(self.beta_2 * norm, abs(g))
        scale = cast(rate / (1.0 - self.beta_1**count), p.dtype)
        return p - scale * m / (norm + self.epsilon), m, norm


class Nadam(TensorRule):
    """Adam with Nesterov's momentum, which grows during the first steps.

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
        check_share("beta_1", beta_1)
        check_share("beta_2", beta_2)
        super().__init__(learning_rate, **options)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self._product = Variable(1.0, trainable=False, name="u_product", dtype="float64")

    @property
    def variables(self) -> list[Variable]:
        """Everything to save: as always, and the product of all momenta so far."""
        return [*super().variables, self._product]

    def before_step(self) -> None:
        count = cast(self.iterations.value() + 1, "float64")
        self._product.assign(self._product.value() * self._momentum(count), read_value=False)

    def _momentum(self, count: Any) -> Any:
        return self.beta_1 * (1.0 - 0.5 * 0.96**count)

    def step(self, p: Any, g: Any, slots: list[Any], rate: Any, count: Any) -> Sequence[Any]:
        m, v = slots
        m = toward(m, g, 1.0 - self.beta_1)
        v = toward(v, g * g, 1.0 - self.beta_2)
        product = on_device(self._product.value(), p.device)
        now, later = self._momentum(count), self._momentum(count + 1.0)
        share_of_m = cast(later / (1.0 - product * later), p.dtype)
        share_of_g = cast((1.0 - now) / (1.0 - product), p.dtype)
        root = sqrt(v / cast(1.0 - self.beta_2**count, p.dtype)) + self.epsilon
        return p - cast(rate, p.dtype) * (share_of_m * m + share_of_g * g) / root, m, v
