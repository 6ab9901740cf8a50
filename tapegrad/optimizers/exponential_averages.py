"""TensorFlow's `tf.train.ExponentialMovingAverage`: averages of variables beside a training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise.selection import minimum
from tapegrad.program.graph_mode import init_scope


class ExponentialMovingAverage:
    """Keep exponentially decaying averages of variables: `decay * average + (1 - decay) * value`.

    With `num_updates`, which may be a variable, the decay is at most `(1 + n) / (10 + n)`, so that
    averages move faster at the start. Averages of variables begin with their values. Those of
    tensors begin with zeros, and `zero_debias=True` corrects for that.

    >>> w, averages = Variable(1.0), ExponentialMovingAverage(0.9)
    >>> averages.apply([w])
    >>> _ = w.assign(2.0)
    >>> averages.apply([w])
    >>> f"{float(averages.average(w)):.2f}"
    '1.10'
    """

    def __init__(
        self,
        decay: Any,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        self.name = name
        self._decay = to_tensor(decay)
        if self._decay.dtype.is_complex or self._decay.shape:
            raise ArgumentError(f"decay must be a real number. Got {decay!r}.")
        self._num_updates = num_updates
        self._zero_debias = zero_debias
        self._held: dict[int, _Average] = {}

    def apply(self, var_list: Sequence[Any] | None = None) -> None:
        """Move the averages of these variables or tensors towards their values."""
        if var_list is None:
            raise ArgumentError(
                "apply needs the variables: pass a list, such as model.trainable_variables."
            )
        values = list(_checked(var_list))
        decay = self._decay_now()
        for value in values:
            if id(value) not in self._held:
                with init_scope():  # the variables outlive the function that is recorded
                    self._held[id(value)] = _Average(value, self._name_of(value), self._zero_debias)
            self._held[id(value)].move(decay)

    def _decay_now(self) -> Tensor:
        if self._num_updates is None:
            return self._decay
        number = cast(to_tensor(self._num_updates), "float32")
        early = (1.0 + number) / (10.0 + number)
        least: Tensor = minimum(cast(self._decay, "float32"), early)
        return least

    def _name_of(self, value: Any) -> str:
        own = value.name if isinstance(value, Variable) else "Tensor"
        return f"{str(own).partition(':')[0]}/{self.name}"

    def average(self, var: Any) -> Variable | None:
        """Return the variable with the average, or None before the first `apply`."""
        held = self._held.get(id(var))
        return None if held is None else held.variable

    def average_name(self, var: Any) -> str:
        """Return the name of the variable with the average.

        >>> ExponentialMovingAverage(0.9).average_name(Variable(1.0, name="w"))
        'w/ExponentialMovingAverage'
        """
        return self._name_of(var)

    def variables_to_restore(
        self, moving_avg_variables: Iterable[Variable] | None = None
    ) -> dict[str, Variable]:
        """Return variables by the names under which their averages are stored.

        Without an argument these are the variables that have averages.
        """
        chosen: Iterable[Any] = [held.value for held in self._held.values()]
        if moving_avg_variables is not None:
            chosen = moving_avg_variables
        return {self.average_name(one): one for one in chosen if isinstance(one, Variable)}


class _Average:
    """One average, and what corrects it for a start at zero."""

    def __init__(self, value: Any, name: str, zero_debias: bool) -> None:
        self.value = value  # also keeps the object alive, whose id is the key
        is_variable = isinstance(value, Variable)
        start = value.read_value() if is_variable else value * 0
        self.variable = Variable(start, trainable=False, name=name)
        # The weight that zeros still have in the average.
        is_biased = zero_debias and not is_variable
        self.left = Variable(1.0, trainable=False, dtype=value.dtype) if is_biased else None

    def move(self, decay: Tensor) -> None:
        """Make the average `decay * average + (1 - decay) * value`."""
        decay = cast(decay, self.value.dtype)
        value = to_tensor(self.value)
        if self.left is None:
            self.variable.assign_sub((1.0 - decay) * (self.variable - value), read_value=False)
            return
        before = self.left.read_value()
        after = before * decay
        biased = (1.0 - before) * self.variable * decay + (1.0 - decay) * value
        self.left.assign(after, read_value=False)
        self.variable.assign(biased / (1.0 - after), read_value=False)


def _checked(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if not isinstance(value, Variable | Tensor):
            raise ArgumentTypeError(
                f"apply takes variables and tensors. Got {type(value).__name__}."
            )
        if not value.dtype.is_floating:
            raise ArgumentTypeError(
                f"Averages are of floating numbers. Got a value of dtype {value.dtype.name}."
            )
        yield value
