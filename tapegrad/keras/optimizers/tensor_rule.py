"""Base classes of the optimizers that only Keras has: real variables, and steps on tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from tapegrad.core.values.dtypes import DType, float32
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.tensor import wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import DTypeError
from tapegrad.keras.optimizers.base import Optimizer, Options
from tapegrad.ops.casting.cast import in_dtype
from tapegrad.optimizers.rules import check_shares
from tapegrad.optimizers.update_rule import Rule, Scalars
from tapegrad.optimizers.updates import decay_update


class RealOptimizer(Optimizer):
    """Base class of optimizers for real variables; `rule` names the primitive of a step."""

    def _slots_of(self, variable: Variable) -> list[Variable]:
        if variable.dtype.is_complex:
            raise DTypeError(
                f"{type(self).__name__} takes real variables. {variable.name!r} has dtype "
                f"{variable.dtype}; use SGD, Adam, RMSprop or Adagrad for it."
            )
        return super()._slots_of(variable)


class TwoMoments(RealOptimizer):
    """Base class of optimizers with running means of the gradient and of its square."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        **options: Unpack[Options],
    ) -> None:
        check_shares(beta_1=beta_1, beta_2=beta_2)
        super().__init__(learning_rate, **options)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon

    def _constants(self) -> dict[str, float]:
        return {"beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon}


class TensorRule(RealOptimizer):
    """Base class of optimizers that define `step` on tensors instead of `update`.

    For half precision, the computation and the slots are in float32.

    >>> import tapegrad
    >>> class Doubled(TensorRule):
    ...     def step(self, p, g, slots, rate, count):
    ...         return (p - tapegrad.cast(2.0 * rate, p.dtype) * g,)
    >>> w = tapegrad.Variable(1.0)
    >>> _ = Doubled(0.25).apply_gradients([(1.0, w)])
    >>> float(w)
    0.5
    """

    def step(self, p: Any, g: Any, slots: list[Any], rate: Any, count: Any) -> Sequence[Any]:
        """Return the parameter and its slots after a step, all as tensors.

        `count` is the integer number of this step, from 1 on. Cast it to float64 before you
        compute powers: in float32, 1 - beta**count has only four correct digits at first.
        """
        raise NotImplementedError(f"{type(self).__name__} must define step().")

    def update(self, p: Any, g: Any, slots: list[Any], scalars: Scalars) -> Any:
        x = wrap(p)
        dtype = wide_dtype(x.dtype)
        rate, count = wrap(scalars.rate), wrap(scalars.step)
        tensors = [wrap(slot) for slot in slots]
        p, *slots = self.step(in_dtype(x, dtype), in_dtype(wrap(g), dtype), tensors, rate, count)
        return [in_dtype(p, x.dtype).array, *[slot.array for slot in slots]]

    def _updated(
        self,
        gradient: Any,
        variable: Variable,
        slots: list[Variable],
        scalars: Scalars,
        rule: Rule | None,
    ) -> Any:
        """Return the arrays of a variable and its slots after a step, without assigning them."""
        p = in_dtype(wrap(variable.array), wide_dtype(variable.dtype))
        amount = self.decay_for(variable)
        if amount and variable.number not in self._without_decay:
            (p,) = decay_update(p, wrap(scalars.rate), amount=amount)
        arrays = [slot.array for slot in slots]
        if type(gradient) is IndexedSlices:
            new, *arrays = self.update_rows(p.array, gradient, arrays, scalars)
        else:
            new, *arrays = self.update(p.array, gradient.array, arrays, scalars)
        return [in_dtype(wrap(new), variable.dtype).array, *arrays]

    def decay_for(self, variable: Variable) -> float | None:
        """Return the weight decay of a variable that is not excluded from decay."""
        return self.weight_decay


def wide_dtype(dtype: DType) -> DType:
    """Return the dtype to compute in: float32 for half precision, otherwise the same."""
    return float32 if dtype.name in ("float16", "bfloat16") else dtype


def toward(x: Any, target: Any, share: Any) -> Any:
    """Return x + share * (target - x)."""
    return x + (target - x) * share
