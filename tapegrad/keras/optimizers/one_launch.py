"""Steps of many operations that a device runs as one, recorded as `tapegrad.function` does it."""

from __future__ import annotations

from typing import Any

from tapegrad.core.backend.registry import capabilities_of
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.variable import Variable
from tapegrad.engine.grouped_updates import key_of
from tapegrad.engine.switch import is_on
from tapegrad.keras.optimizers import schedules
from tapegrad.keras.optimizers.tensor_rule import TensorRule
from tapegrad.program.function_decorator import function

Pairs = list[tuple[Any, Variable]]

MOST_KINDS = 6
"""Kinds of steps that are recorded: for other variables, or after a change of numbers."""


class OneLaunch(TensorRule):
    """Base of optimizers whose whole step is one launch on a device where launches cost time.

    The first step is recorded already: training that resumes takes the same way, bit for bit.
    """

    _is_recorded = False

    def __init__(self, *args: Any, **options: Any) -> None:
        self._kinds: dict[Any, bool] = {}
        super().__init__(*args, **options)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # What others define in Python has to run at each step.
        cls._is_recorded = OneLaunch in cls.__bases__

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_kinds": {}}

    def _apply(self, pairs: Pairs) -> None:
        settings = self._settings()
        kind = (settings, *key_of(pairs))
        can_record = self._kinds.get(kind)
        if can_record is None and len(self._kinds) < MOST_KINDS:
            can_record = self._kinds[kind] = self._can_record(pairs)
        if not can_record:
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

    def _can_record(self, pairs: Pairs) -> bool:
        variables = [variable for _, variable in pairs]
        parts = capabilities_of(type(variables[0].array))
        if not is_on() or not self._is_recorded or parts.updates is None or parts.capture is None:
            return False
        # So that functions of the user run at each step.
        if self._schedule and type(self._schedule).__module__ != schedules.__name__:
            return False
        devices = {place.device for place in (*variables, self.iterations, self._rate)}
        return len(devices) == 1 and not any(variable.constraint for variable in variables)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, int | float)
