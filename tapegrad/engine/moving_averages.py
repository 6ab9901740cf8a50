"""Update the moving averages of all layers of a forward pass in one launch at its end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from tapegrad.core.backend.optional_parts import AverageKernel
from tapegrad.core.backend.protocol import Array
from tapegrad.core.backend.registry import capabilities_of
from tapegrad.core.commit import deferring_signals, store
from tapegrad.core.update_lock import updating_alone
from tapegrad.core.values.variable import Variable
from tapegrad.engine.switch import is_on

_Key = tuple[float, Any]
"""Averages in one launch have one rate and one dtype."""

_Pending = dict[int, tuple[Variable, Array]]
"""By the number of a variable: the average, and the batch statistic that it moves towards."""


class DeferredAverages:
    """Averages that wait for the end of a forward pass."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending: dict[_Key, _Pending] = {}

    def defer(self, averages: Sequence[Variable], seen: Sequence[Array], share: float) -> bool:
        """Move averages by `share` of the distance to `seen` in `finish`; False if that cannot be.

        The backend must have `GroupedUpdates`, and averages must have the dtype of `seen`. No
        array is empty.
        """
        array = averages[0].array
        array_type: Any = type(array)
        if not _can_defer(array_type) or seen[0].dtype != array.dtype:
            return False
        for pending in self._pending.values():
            if averages[0].number in pending:
                self.finish()  # a layer that is called twice follows one batch after the other
                break
        pending = self._pending.setdefault((share, array.dtype), {})
        for average, statistic in zip(averages, seen, strict=True):
            pending[average.number] = average, statistic
        return True

    def finish(self, owner: Any = None) -> None:
        """Update all averages; `owner` keeps the kernels if it is the same at each step."""
        if not self._pending:
            return
        groups, self._pending = self._pending, {}
        known: dict[_Key, _AverageGroup] = getattr(owner, "_movers", {})
        used = {}
        with updating_alone(), deferring_signals():
            for key, pending in groups.items():
                group = known.get(key)
                if group is None or group.numbers != list(pending):
                    group = _AverageGroup(pending)
                used[key] = group
                group.update(list(pending.values()), key[0])
        if owner is not None:
            object.__setattr__(owner, "_movers", used)


class _AverageGroup:
    """Certain averages with one kernel per device."""

    def __init__(self, pending: _Pending) -> None:
        self.numbers = list(pending)
        devices: dict[str, list[int]] = {}
        for position, (average, _) in enumerate(pending.values()):
            devices.setdefault(average.device, []).append(position)
        arrays = [average.array for average, _ in pending.values()]
        self._parts = [
            (positions, _kernel_for([arrays[k] for k in positions]))
            for positions in devices.values()
        ]

    def update(self, pending: Sequence[tuple[Variable, Array]], share: float) -> None:
        for positions, kernel in self._parts:
            # The kernel writes to arrays that only their variable and this list hold.
            arrays = [pending[k][0].array for k in positions]
            new = kernel(arrays, [pending[k][1] for k in positions], share)
            if new is not arrays:
                store([pending[k][0] for k in positions], new)


@cache
def _can_defer(array_type: type) -> bool:
    return is_on() and capabilities_of(array_type).updates is not None


def _kernel_for(averages: list[Array]) -> AverageKernel:
    updates = capabilities_of(type(averages[0])).updates
    assert updates is not None
    return updates.prepare_averages(averages)
