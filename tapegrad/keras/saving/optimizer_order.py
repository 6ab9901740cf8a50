"""The state of an optimizer in the order in which Keras stores it."""

from __future__ import annotations

from typing import Any

from tapegrad.core.values.variable import Variable

_STORED_ALONE = {"peak", "mean"}
"""Slots that Keras stores after all others, for one variable after the other."""
_FIRST = ("iterations:0", "learning_rate:0")
_UNLIKE_KERAS = {"Adafactor", "LossScaleOptimizer"}


def optimizer_variables(optimizer: Any) -> list[Variable] | None:
    """Return the state in the order of Keras, or None if Keras has other variables.

    >>> from tapegrad.optimizers import SGD
    >>> w, optimizer = Variable(1.0), SGD(0.5, momentum=0.9)
    >>> optimizer.build([w])
    >>> [variable.name for variable in optimizer_variables(optimizer)]
    ['iterations:0', 'learning_rate:0', 'Variable/momentum:0']
    """
    if type(optimizer).__name__ in _UNLIKE_KERAS or _sums_gradients(optimizer):
        return None
    is_scheduled = getattr(optimizer, "_schedule", None) is not None
    slots = {slot.number for slots in optimizer._slots.values() for slot in slots}
    first: list[Variable] = []
    usual: list[Variable] = []
    alone: list[Variable] = []
    rest: list[Variable] = []
    for variable in optimizer.variables:
        if variable.number in slots:
            (alone if _slot_name(variable) in _STORED_ALONE else usual).append(variable)
        elif variable.name not in _FIRST:
            rest.append(variable)
        elif variable.name == _FIRST[0] or not is_scheduled:
            first.append(variable)
    if type(optimizer).__name__ == "RMSprop":  # one slot after the other
        usual.sort(key=_slot_name, reverse=True)
    return [*first, *usual, *alone, *rest]


def _sums_gradients(optimizer: Any) -> bool:
    return bool(getattr(optimizer, "gradient_accumulation_steps", None))


def _slot_name(variable: Variable) -> str:
    return variable.name.removesuffix(":0").rpartition("/")[2]
