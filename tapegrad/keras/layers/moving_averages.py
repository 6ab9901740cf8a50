"""Moving averages of all layers of a pass, moved in one launch at its end.

Where a backend moves one variable at a time, and while a function is recorded, they are moved at
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from tapegrad.core.backend import backend_of, find_backend
from tapegrad.core.variable import Variable
from tapegrad.optimizers.updates import moments_update

Array = Any
_Group = tuple[float, Any]
"""The share of their way that averages go together, and their dtype."""


class MovingAverages:
    """The averages that are to follow what the layers of one pass have seen."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[_Group, dict[int, tuple[Variable, Array]]] = {}

    def follow(
        self, averages: Sequence[Variable], seen: Sequence[Array], shape: Any, share: float
    ) -> None:
        """Move a mean and a variance by `share` of their way to what was seen, in `finish`.

        All have that shape. Averages in half precision, and none at all, are moved now.
        """
        mean, variance = averages
        array = mean.array
        kind: Any = type(array)
        dtype = array.dtype
        if not _can_wait(kind) or seen[0].dtype != dtype or 0 in shape:
            move = moments_update.kernel(kind)
            mean.array, variance.array = move(array, variance.array, *seen, share=share)
            return
        for others in self._waiting.values():
            if mean.number in others:
                self.finish()  # a layer that is called twice follows one batch after the other
                break
        waiting = self._waiting.setdefault((share, dtype), {})
        waiting[mean.number], waiting[variance.number] = (mean, seen[0]), (variance, seen[1])

    def finish(self, owner: Any = None) -> None:
        """Move what waits; `owner` is the layer that does so at each step, with the same ones."""
        if not self._waiting:
            return
        groups, self._waiting = self._waiting, {}
        before: dict[_Group, _Mover] = getattr(owner, "_movers", {})
        movers = {}
        for group, waiting in groups.items():
            mover = before.get(group)
            if mover is None or mover.numbers != list(waiting):
                mover = _Mover(waiting)
            movers[group] = mover
            mover(list(waiting.values()), group[0])
        if owner is not None:
            object.__setattr__(owner, "_movers", movers)


class _Mover:
    """Moves certain averages, those of each device in one call; it remembers where they lie."""

    def __init__(self, waiting: dict[int, tuple[Variable, Array]]) -> None:
        self.numbers = list(waiting)
        devices: dict[str, list[int]] = {}
        for position, (variable, _) in enumerate(waiting.values()):
            devices.setdefault(variable.device, []).append(position)
        arrays = [variable.array for variable, _ in waiting.values()]
        self._parts = [
            (positions, _kernel_for([arrays[k] for k in positions]))
            for positions in devices.values()
        ]

    def __call__(self, waiting: Sequence[tuple[Variable, Array]], share: float) -> None:
        for positions, kernel in self._parts:
            # Arrays that nobody but their variable and this list holds are written to.
            arrays = [waiting[k][0].array for k in positions]
            seen = [waiting[k][1] for k in positions]
            # The rule reads neither a rate nor a count of steps.
            new = kernel(arrays, seen, seen[0], seen[0], {"along": share})
            if new is not arrays:
                for k, array in zip(positions, new, strict=True):
                    waiting[k][0].array = array


@cache
def _can_wait(kind: Any) -> bool:
    backend = find_backend(kind)
    return backend is not None and backend.kernels.get("update.group") is not None


def _kernel_for(arrays: list[Array]) -> Any:
    return backend_of(arrays[0]).kernels["update.group"](
        "follow_update", arrays, len(arrays), False
    )
