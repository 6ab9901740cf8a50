"""Programs whose results are checked for NaN and infinities, see `number_flags`.

The flags are read before anything is assigned. If one is set, the recorded calls are made once
more, one by one, from the same inputs and variables. The call that made the first NaN on the way to
the flagged value is the one that the error names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tapegrad.core.backend.protocol import Array
from tapegrad.core.backend.registry import backend_of
from tapegrad.core.values.variable import Variable
from tapegrad.errors import NonFiniteError
from tapegrad.program.emit.lowering import Run
from tapegrad.program.graph.number_flags import Check, FlaggedGraph
from tapegrad.program.origins import Origin, located
from tapegrad.program.record.effects import silence


class NotFinite(Exception):  # noqa: N818  # it never leaves the package
    """A flag of a program is set."""

    def __init__(self, check: Check, checked: FlaggedGraph, what: str) -> None:
        self._check, self._checked, self._what = check, checked, what
        super().__init__(f"{what} is not finite.")

    def located(self, inputs: Sequence[Array], variables: Sequence[Variable]) -> NonFiniteError:
        """Return the error that names the operation and the line."""
        graph, check = self._checked.source, self._check
        arrays = {variable.number: variable.array for variable in variables}
        read = [arrays.get(number) for number in graph.variables]
        with silence():
            origin = located(graph, inputs, read, check.value.number, not check.allows_infinite)
        if origin is None:
            return NonFiniteError(f"{self._what} is NaN or infinite.")
        names = {variable.number: variable.name for variable in variables}
        return NonFiniteError(f"{_message(origin, [*graph.variables], names)} {self._reached()}")

    def _reached(self) -> str:
        return f"It reached {self._what}."


class CheckedRun:
    """Runs a flagged graph, and raises `NotFinite` if a flag is set."""

    def __init__(self, run: Run, checked: FlaggedGraph, variables: Mapping[int, Variable]) -> None:
        self._run, self._checked = run, checked
        self._outputs = len(checked.source.outputs)
        self._flags = self._outputs + len(checked.source.written)
        self._names = {
            number: variables[number].name
            for number in checked.source.written
            if number in variables
        }

    def __call__(self, inputs: Sequence[Array], variables: list[Array]) -> Any:
        outputs, _ = self._run(inputs, variables)
        for checks, flags in zip(self._checked.checks, outputs[self._flags :], strict=True):
            sizes = np.asarray(backend_of(flags).to_host(flags))
            if not np.isfinite(sizes).all():
                self._raise_first(checks, sizes)
        return outputs[: self._outputs], outputs[self._outputs : self._flags]

    def _raise_first(self, checks: Sequence[Check], sizes: Any) -> None:
        for check, size in zip(checks, sizes.tolist(), strict=True):
            if math.isnan(size) or (math.isinf(size) and not check.allows_infinite):
                raise NotFinite(check, self._checked, self._described(check))

    def _described(self, check: Check) -> str:
        if check.variable is None:
            return f"{check.what} of the function" if check.is_result else check.what
        return f"the new value of variable {self._names.get(check.variable, '')!r}"


def _message(origin: Origin, variables: Sequence[int], names: Mapping[int, str]) -> str:
    """Describe where a value was made, or that it was given."""
    if origin.given is None:
        return origin.sentence()
    kind, place = origin.given
    what = "NaN" if origin.is_nan else "an infinity"
    if kind == "variable":
        return f"Variable {names.get(variables[place], '')!r} had {what} before the call."
    if kind == "constant":
        return f"A constant that the function reads has {what}."
    return f"Input {place} of the program had {what} before the call."
