"""Optimizers that use norms of whole variables: Lamb and Adafactor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from tapegrad.core.values.variable import Variable
from tapegrad.keras.optimizers.base import Options
from tapegrad.keras.optimizers.one_launch import OneLaunch
from tapegrad.keras.optimizers.tensor_rule import TensorRule, TwoMoments, toward, wide_dtype
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import zeros_for
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.elementwise.selection import maximum, minimum
from tapegrad.ops.reduction.functions import reduce_euclidean_norm, reduce_mean
from tapegrad.ops.shape.functions import expand_dims
from tapegrad.optimizers.update_rule import Rule
from tapegrad.optimizers.updates import lamb_change_update, lamb_update


class Lamb(TwoMoments, TensorRule):
    """Adam with each variable's step rescaled to the norm of the variable (LAMB).

    >>> import tapegrad
    >>> w = tapegrad.Variable([3.0, 4.0])
    >>> _ = Lamb(0.1).apply_gradients([([1.0, 0.0], w)])
    >>> w.round(4).tolist()
    [2.5, 4.0]
    """

    slots = ("momentum", "velocity")
    by_element = False

    def group_rule(self) -> Rule | None:
        is_own = type(self).step is Lamb.step and type(self).update is TensorRule.update
        return Rule(lamb_update, self._constants()) if is_own else None

    def step(self, p: Any, g: Any, slots: list[Any], rate: Any, count: Any) -> Sequence[Any]:
        change, m, v = lamb_change_update(p, g, count, *slots, **self._constants())
        size, length = reduce_euclidean_norm(p), reduce_euclidean_norm(change)
        return lamb_update(p, change, rate, size, length), m, v


class Adafactor(OneLaunch):
    """Adafactor: the second moment is stored as row and column means only.

    The last two axes are factored. Variables with fewer axes store the full moment.

    >>> import tapegrad
    >>> w = tapegrad.Variable([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    >>> optimizer = Adafactor(0.5)
    >>> _ = optimizer.apply_gradients([(w * 2.0, w)])
    >>> w.round(4).tolist()
    [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]
    >>> [tuple(slot.shape) for slot in optimizer.variables[2:]]
    [(2,), (3,)]
    """

    slots = ("row", "column", "velocity")
    by_element = False

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_2_decay: float = -0.8,
        epsilon_1: float = 1e-30,
        epsilon_2: float = 1e-3,
        clip_threshold: float = 1.0,
        relative_step: bool = True,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(learning_rate, **options)
        self.beta_2_decay, self.clip_threshold = beta_2_decay, clip_threshold
        self.epsilon_1, self.epsilon_2 = epsilon_1, epsilon_2
        # Stored but ignored: the step is at most 1/sqrt(count) either way, as in Keras.
        self.relative_step = relative_step

    def slots_for(self, variable: Variable) -> Sequence[str]:
        return ("row", "column") if variable.ndim >= 2 else ("velocity",)

    def _new_slot(self, name: str, variable: Variable) -> Variable:
        if name == "velocity":
            return super()._new_slot(name, variable)
        *batch, rows, columns = variable.shape
        shape = (*batch, rows) if name == "row" else (*batch, columns)
        value = zeros_for(variable.read_value(), shape, wide_dtype(variable.dtype))
        label = f"{variable.name.removesuffix(':0')}/{name}"
        return Variable(value, trainable=False, name=label)

    def step(self, p: Any, g: Any, slots: list[Any], rate: Any, count: Any) -> Sequence[Any]:
        count = cast(count, "float64")
        share = cast(count**self.beta_2_decay, p.dtype)
        squares = g * g + self.epsilon_1
        if len(slots) == 2:
            rows = toward(slots[0], reduce_mean(squares, axis=-1), share)
            columns = toward(slots[1], reduce_mean(squares, axis=-2), share)
            parts = rows / reduce_mean(rows, axis=-1, keepdims=True)
            v = expand_dims(parts, -1) * expand_dims(columns, -2)
            kept = [rows, columns]
        else:
            v = toward(slots[0], squares, share)
            kept = [v]
        change = g / sqrt(v)
        change = change / maximum(_rms(change) / self.clip_threshold, 1.0)
        size = cast(minimum(cast(rate, "float64"), 1.0 / sqrt(count)), p.dtype) * maximum(
            _rms(p), self.epsilon_2
        )
        return p - size * change, *kept


def _rms(x: Any) -> Any:
    return sqrt(reduce_mean(x * x))
