"""Steps of many operations that a device runs as one, recorded as `tapegrad.function` does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.backend import backend_of
from tapegrad.core.indexed_slices import IndexedSlices
from tapegrad.core.variable import Variable
from tapegrad.keras.optimizers import schedules
from tapegrad.keras.optimizers.tensor_rule import TensorRule
from tapegrad.program.function import function

MOST_SETTINGS = 4
"""Changes of an optimizer's numbers after which its steps are not recorded any more."""


class OneLaunch(TensorRule):
    """Base of optimizers whose whole step is one launch where a backend can capture programs.

    The first step is recorded already: training that resumes takes the same way, bit for bit.
    """

    _is_recorded = False

    def __init__(self, *args: Any, **options: Any) -> None:
        self._seen: set[Any] = set()
        super().__init__(*args, **options)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # What others define in Python has to run at each step.
        cls._is_recorded = OneLaunch in cls.__bases__

    def _apply(self, pairs: list[tuple[Any, Variable]]) -> None:
        settings = self._settings()
        if not self._can_record(pairs, settings):
            super()._apply(pairs)
            return
        gradients = [g.dense() if isinstance(g, IndexedSlices) else g for g, _ in pairs]
        self._recorded(settings, *gradients, *[variable for _, variable in pairs])

    @function
    def _recorded(self, settings: Any, *given: Any) -> None:
        half = len(given) // 2
        super()._apply(list(zip(given[:half], given[half:])))

    def _settings(self) -> frozenset[Any]:
        """All that a recording would not see changing."""
        own = [(k, v) for k, v in vars(self).items() if k[0] != "_" and _is_plain(v)]
        return frozenset([*own, len(self._without_decay), self._schedule])

    def _can_record(self, pairs: Sequence[tuple[Any, Variable]], settings: Any) -> bool:
        if not self._is_recorded or "capture" not in backend_of(pairs[0][1].array).kernels:
            return False
        # So that functions of the user run at each step.
        if self._schedule and type(self._schedule).__module__ != schedules.__name__:
            return False
        if any(variable.constraint for _, variable in pairs):
            return False
        self._seen.add(settings)
        return len(self._seen) <= MOST_SETTINGS


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, int | float)
