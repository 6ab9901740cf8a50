"""The recording of a loop's body, inside the recording that the loop belongs to.

A body may read values of the recording around it: tensors of a closure, variables. They become
inputs of the body that are the same in all rounds. A variable that the body assigns is carried from
round to round.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.backend.protocol import Array
from tapegrad.core.observed import Observed
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.program.graph.graph import Value
from tapegrad.program.record.recording import Recorded, Recording


class NotOneLoop(Exception):  # noqa: N818  # it never leaves the package
    """The rounds of a loop are not one recorded body; the argument says why."""


class CreatesVariables(NotOneLoop):
    """A round of a loop creates variables."""


class BodyRecording(Recording):
    """The operations of one round; `around` is the recording that the loop belongs to."""

    def __init__(self, around: Recording) -> None:
        super().__init__()
        self._around = around
        self.captured: dict[tuple[int, int], tuple[Value, Recorded]] = {}
        """Values from outside: as inputs of the body, and in the recording that made them."""
        self.outer_tensors: dict[int, Tensor] = {}
        """The tensors from outside of the loop whose arrays were read."""

    def is_inside(self, other: Recording) -> bool:
        return other is self._around or self._around.is_inside(other)

    def capture(self, array: Recorded) -> Value:
        """Return a value from outside as an input of the body."""
        key = (id(array.recording), array.value.number)
        known = self.captured.get(key)
        if known is None:
            handle = Recorded(array.array, array.value, array.recording)
            known = self.captured[key] = (self.value_of(array.array), handle)
        return known[0]

    def value_in(self, array: Any) -> Value:
        """Return the value of a result, which may also come from outside of the loop."""
        value = self._operand(array)
        return value if isinstance(value, Value) else self.constant(array)

    def _operand(self, operand: Any) -> Any:
        if type(operand) is Recorded and self.is_inside(operand.recording):
            return self.capture(operand)
        return super()._operand(operand)

    def _take_variable(self, variable: Variable) -> Recorded:
        outer = self._around.array_of(variable)
        if type(outer) is Recorded:
            value, array = self.capture(outer), outer.array
        else:  # an array that was assigned before the loop
            value, array = self.constant(outer), outer
        first, now = Recorded(array, value, self), Recorded(array, value, self)
        self.variables[variable.number] = variable
        self._first[variable.number] = first
        self._now[variable.number] = now
        return now

    def take_made(self, variable: Variable) -> None:
        raise CreatesVariables("it creates variables")

    def assigned(self) -> list[tuple[Variable, Value, Any]]:
        """Return the variables that the body assigns, with their values before and after it."""
        found = []
        for number, first in self._first.items():
            now = self._now[number]
            after = now.value if type(now) is Recorded else self.constant(now)
            if after is not first.value:
                found.append((self.variables[number], first.value, after))
        return found

    def check_write(self, array: Recorded) -> None:
        if array.recording is not self:
            raise NotOneLoop("it writes to a tensor from outside of the loop")

    def note_outer_tensor(self, tensor: Tensor) -> None:
        self.outer_tensors[id(tensor)] = tensor

    # What a program assumes about objects concerns the whole function.

    def note_read(self, owner: Observed, name: str, value: Any = None) -> None:
        self._around.note_read(owner, name, value)

    def note_write(self, owner: Observed, name: str) -> None:
        self._around.note_write(owner, name)

    def note_new_tensor(self, tensor: Tensor) -> None:
        super().note_new_tensor(tensor)
        self._around.note_new_tensor(tensor)

    def note_tensor(self, tensor: Tensor, array: Array) -> None:
        self._around.note_tensor(tensor, array)
        if tensor.node is not None:
            self.outer_tensors[id(tensor)] = tensor

    def note_host_read(self) -> None:
        raise NotOneLoop("an operation in it reads a value on the host")

    def set_initial(self, variable: Variable, array: Array) -> bool:
        raise NotOneLoop("it sets the initial value of a variable")
