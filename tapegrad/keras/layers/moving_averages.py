"""Moving averages of all layers of a pass, moved in one launch at its end.

Where a backend moves one variable at a time, and while a function is recorded, they are moved at
once.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from tapegrad.core.backend import backend_of
from tapegrad.core.variable import Variable
from tapegrad.optimizers.updates import moments_update

Array = Any

_Group = tuple[float, str, str]
"""Averages that can go together: by their share of the way, their device and their dtype."""


class MovingAverages:
    """The averages that are to follow what the layers of one pass have seen."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[_Group, dict[int, tuple[Variable, Array]]] = {}

    def follow(self, mean: Variable, variance: Variable, seen: list[Array], share: float) -> None:
        """Move two averages by `share` of their way to what was seen, when `finish` is called."""
        arrays = [mean.array, variance.array]
        one = arrays[0]
        if not _can_wait(one) or any([a.shape != one.shape or a.dtype != one.dtype for a in seen]):
            move = moments_update.kernel(type(one))
            mean.array, variance.array = move(*arrays, *seen, share=share)
            return
        if any([mean.number in waiting for waiting in self._waiting.values()]):
            self.finish()  # a layer that is called twice follows one batch after the other
        waiting = self._waiting.setdefault((share, mean.device, one.dtype.name), {})
        waiting[mean.number], waiting[variance.number] = (mean, seen[0]), (variance, seen[1])

    def finish(self, owner: object = None) -> None:
        """Move what waits; `owner` is whoever does so at each step, with the same averages."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, {}
        before = {} if owner is None else _movers.pop(owner, {})
        movers = {group: _moved(group, some, before.get(group)) for group, some in waiting.items()}
        if owner is not None:
            _movers[owner] = movers


_movers: WeakKeyDictionary[Any, dict[_Group, Any]] = WeakKeyDictionary()
"""What moved the averages of the last pass: it knows where they lie."""


def _can_wait(average: Array) -> bool:
    has_kernel = backend_of(average).kernels.get("update.group") is not None
    return has_kernel and average.dtype.name in ("float32", "float64") and average.size > 0


def _moved(group: _Group, waiting: dict[int, tuple[Variable, Array]], mover: Any) -> Any:
    """Move some averages; return what did it, with their numbers, to be the next `mover`."""
    numbers, pairs = list(waiting), waiting.values()
    arrays = [variable.array for variable, _ in pairs]
    if mover is None or mover[0] != numbers:
        make = backend_of(arrays[0]).kernels["update.group"]
        mover = numbers, make("follow_update", arrays, len(arrays), False)
    unread = arrays[0]  # in the places of a rate and a count of steps
    new = mover[1](arrays, [seen for _, seen in pairs], unread, unread, {"along": group[0]})
    if new is not arrays:
        for (variable, _), array in zip(pairs, new, strict=True):
            variable.array = array
    return mover
