"""Arrays that remember how they were made: the first call of a `function` runs on them, for real.

A `Recorded` holds an array of another backend. Its kernels run that backend's and note the call, so
whatever computes with arrays is recorded: operations, sweeps, optimizers.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tapegrad.core.backend import Array, Memory, adopt, backend_of, find_backend
from tapegrad.core.convert import NUMBERS
from tapegrad.core.device import backend_for
from tapegrad.core.primitive import PRIMITIVES, Primitive
from tapegrad.core.recorder import call_site, current_region
from tapegrad.core.variable import Variable, note_creations
from tapegrad.errors import RecordingError
from tapegrad.program.graph import Call, Graph, Value
from tapegrad.program.recorded_operators import bind_operators


class Recorded:
    """An array inside a recording. Changing it in place gives it another value."""

    __slots__ = ("array", "recording", "value")
    __array_ufunc__ = None

    def __init__(self, array: Array, value: Value, recording: Recording) -> None:
        self.array = array
        self.value = value
        self.recording = recording

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def ndim(self) -> int:
        return len(self.array.shape)

    @property
    def size(self) -> int:
        return int(self.array.size)

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    @property
    def itemsize(self) -> int:
        return int(self.array.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        return self.value.nbytes

    @property
    def device(self) -> Any:
        return self.array.device

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise RecordingError(_LEAKED if self.recording.closed else _reading("a value of it"))

    __bool__ = __float__ = __int__ = __index__ = __complex__ = __array__ = _refuse

    def __getitem__(self, index: Any) -> Any:
        return PRIMITIVES["slice"].kernel(Recorded)(self, index=index)


def _reading(what: str) -> str:
    return (
        f"A function that is being recorded reads {what} at {call_site()}. Later calls replay the "
        "recording and would not read it again. Use tapegrad.cond, while_loop or where to decide "
        "on the device, tapegrad.print to print it, return the value and read it outside, or run "
        "the function eagerly with function(jit_compile=False)."
    )


def _share_memory(results: Sequence[Any], operands: Sequence[Any]) -> bool:
    """Whether a result lies in memory that an operand lies in too."""
    owners = {id(_owner(operand)) for operand in operands if type(operand) not in NUMBERS}
    return any(id(_owner(result)) in owners for result in results)


def _owner(array: Any) -> Any:
    """What the memory of an array belongs to: an object of the device's, or the first array."""
    if isinstance(array, np.generic):  # a number of NumPy's, which has no memory to share
        return array
    if not isinstance(array, np.ndarray):
        return getattr(getattr(array, "data", None), "mem", array)
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


_LEAKED = (
    "A tensor that a function made while it was recorded was kept on the side and is used after "
    "the recording. Return tensors from the function, or assign them to variables."
)


class Recording:
    """What happens during one call: the values that came in and the calls of primitives."""

    def __init__(self) -> None:
        self.closed = False
        self.inputs: list[Value] = []
        self.constants: dict[int, Any] = {}
        self.calls: list[Call] = []
        self.variables: dict[int, Any] = {}
        self._first: dict[int, Recorded] = {}
        self._made: dict[int, tuple[weakref.ref[Variable], Recorded, Value]] = {}
        self._gone: dict[int, Value] = {}
        self.kept: dict[int, Any] | None = None
        """Arrays by the number of their value, where somebody wants them after the recording."""
        self.condition: Any = None
        """What must hold for the branch that is being recorded to count, None outside of one."""
        self._count = 0
        self._known: dict[int, Value] = {}

    def value_of(self, array: Array) -> Value:
        """A new value like an array."""
        self._count += 1
        backend = backend_of(array)
        device = backend.device_of(array)
        return Value(self._count, tuple(array.shape), backend.dtype_of(array), device)

    def wrap(self, array: Array) -> Recorded:
        """An array that comes from outside, as a value without a maker."""
        return Recorded(array, self.value_of(array), self)

    def take_input(self, array: Array) -> Recorded:
        recorded = self.wrap(array)
        self.inputs.append(recorded.value)
        return recorded

    def take_variable(self, variable: Any) -> None:
        """Let a variable hold a recorded array until the recording ends."""
        recorded = self.wrap(variable.array)
        self.variables[variable.number] = variable
        self._first[variable.number] = recorded
        variable.array = recorded
        variable.forget_leaf()

    def take_made(self, variable: Variable) -> None:
        """Give a variable that is made inside the recording its place among the others.

        It is held weakly, to know in the end whether it outlives the call.
        """
        initial = self.adopted(variable.array)
        before = self.wrap(initial.array)
        self._made[variable.number] = (weakref.ref(variable), before, initial.value)
        variable.array = before

    def known_variables(self) -> list[tuple[Variable, Recorded]]:
        """The variables there are, with what they held first in this recording."""
        made = [(reference(), before) for reference, before, _ in self._made.values()]
        alive = [(variable, before) for variable, before in made if variable is not None]
        return [*[(v, self._first[number]) for number, v in self.variables.items()], *alive]

    def first_value(self, variable: Variable) -> Recorded | None:
        """What a variable held when the recording began, or was made in it; else None."""
        if variable.number in self._first:
            return self._first[variable.number]
        made = self._made.get(variable.number)
        return None if made is None else made[1]

    def adopted(self, value: Any) -> Any:
        """A constant of the recording for an array from outside; all else as it is."""
        if type(value) is Recorded or value is None or find_backend(type(value)) is None:
            return value
        return Recorded(value, self.constant(value), self)

    def constant(self, array: Array) -> Value:
        """An array that the function found outside; the program keeps it."""
        known = self._known.get(id(array))
        if known is None:
            known = self._known[id(array)] = self.value_of(array)
            self.constants[known.number] = array  # which also keeps the id from being used again
        return known

    def run(self, primitive: Primitive, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        """Run a kernel on what the operands hold and note the call."""
        if self.closed:
            raise RecordingError(_LEAKED)
        arrays = [o.array if type(o) is Recorded else o for o in operands]
        kind = next(type(array) for array in arrays if type(array) not in NUMBERS)
        result = primitive.kernel(kind)(*arrays, **params)
        many = isinstance(result, tuple | list)
        results = tuple(result) if many else (result,)
        values = tuple(self.value_of(array) for array in results)
        given = tuple(self._operand(o) for o in operands)
        aliases = _share_memory(results, arrays)
        self.calls.append(Call(primitive, given, params, values, kind, aliases, current_region()))
        if self.kept is not None:
            self.kept.update((value.number, array) for value, array in zip(values, results))
        wrapped = tuple(Recorded(a, v, self) for a, v in zip(results, values))
        return wrapped if many else wrapped[0]

    def _operand(self, operand: Any) -> Any:
        if type(operand) is Recorded:
            if operand.recording is not self:
                raise RecordingError(_LEAKED)
            return self._gone.get(operand.value.number, operand.value)
        return operand if type(operand) in NUMBERS else self.constant(operand)

    def give_back_variables(self) -> tuple[dict[int, Value], dict[int, Value]]:
        """Give all variables real arrays again; return what was read and what was written."""
        self.closed = True
        self._settle_made()
        read, written = {}, {}
        for number, variable in self.variables.items():
            before, after = self._first[number], variable.array
            read[number] = before.value
            if type(after) is not Recorded:
                written[number] = self.constant(after)
                continue
            variable.array = after.array
            variable.forget_leaf()
            if after.value is not before.value:
                written[number] = self._gone.get(after.value.number, after.value)
        self._let_go()
        return read, written

    def undo(self) -> None:
        """Give all variables back what they held at the beginning: the recording has failed."""
        self.closed = True
        self._settle_made()
        for number, variable in self.variables.items():
            variable.array = self._first[number].array
            variable.forget_leaf()
        self._let_go()

    def _let_go(self) -> None:
        """Forget the old arrays of variables, which lead back here, at once: they are large."""
        self._first.clear()
        self._made.clear()

    def _settle_made(self) -> None:
        """Variables that were made inside and are gone again begin anew at each call.

        The others exist from now on: later calls find what they hold then.
        """
        for number, (reference, before, initial) in self._made.items():
            variable = reference()
            if variable is None:
                self._gone[before.value.number] = initial
            else:
                self.variables[number] = variable
                self._first[number] = before
        if self._gone:
            self.calls = [_reading_instead(call, self._gone) for call in self.calls]

    def graph(
        self, outputs: Sequence[Any], variables: dict[int, Value], written: dict[int, Value]
    ) -> Graph:
        """The recorded program; `outputs` are recorded arrays or arrays from outside."""
        return Graph(
            tuple(self.inputs),
            variables,
            self.constants,
            tuple(self.calls),
            tuple(self._operand(output) for output in outputs),
            written,
        )


def _reading_instead(call: Call, values: Mapping[int, Value]) -> Call:
    """The call with other values in the place of some operands."""
    return replace(
        call,
        operands=tuple(
            values.get(operand.number, operand) if isinstance(operand, Value) else operand
            for operand in call.operands
        ),
    )


class _Kernels(Mapping[str, Callable[..., Any]]):
    """A kernel for every primitive: run the one behind it and note the call."""

    def __getitem__(self, name: str) -> Callable[..., Any]:
        primitive = PRIMITIVES[name]

        def kernel(*operands: Any, **params: Any) -> Any:
            recording = next(o.recording for o in operands if type(o) is Recorded)
            return recording.run(primitive, operands, params)

        return kernel

    def __iter__(self) -> Any:
        return iter(PRIMITIVES)

    def __len__(self) -> int:
        return len(PRIMITIVES)


class _Namespace:
    """The few functions that the engine asks a namespace for outside of kernels."""

    def astype(self, x: Recorded, dtype: Any, copy: bool = True) -> Any:
        return PRIMITIVES["cast"].kernel(Recorded)(x, dtype=np.dtype(dtype))

    def asarray(self, x: Recorded, dtype: Any = None, copy: bool | None = None) -> Any:
        return x if dtype is None else self.astype(x, dtype)


class _RecordingBackend:
    """The backend that recorded arrays belong to; it asks the one behind them."""

    name = "recording"
    array_types = (Recorded,)
    kernels = _Kernels()
    xp = _Namespace()

    def devices(self) -> list[str]:
        return []

    def device_of(self, array: Recorded) -> str:
        """The device of the array behind it."""
        return backend_of(array.array).device_of(array.array)

    def dtype_of(self, array: Recorded) -> np.dtype[Any]:
        return backend_of(array.array).dtype_of(array.array)

    def from_host(self, value: np.ndarray, device: str) -> Array:
        return backend_for(device).from_host(value, device)

    def adopt_others(self, like: Recorded, values: list[Any]) -> list[Any]:
        """The same with arrays that came from outside the recording turned into its constants."""
        return [like.recording.adopted(value) for value in values]

    def to_host(self, array: Recorded) -> np.ndarray:
        raise RecordingError(
            _LEAKED if array.recording.closed else _reading("the value of a tensor")
        )

    def memory(self, device: str) -> Memory:
        raise RecordingError(_reading("the memory of a device"))


class _Thread(threading.local):
    recording: Recording | None = None


_thread = _Thread()


def current_recording() -> Recording | None:
    """The recording that this thread is making, if any."""
    return _thread.recording


def set_recording(recording: Recording | None) -> None:
    """Let this thread make a recording, or none."""
    _thread.recording = recording


def _note_creation(variable: Variable) -> None:
    recording = _thread.recording
    if recording is not None:
        recording.take_made(variable)


note_creations(_note_creation)
adopt(Recorded, _RecordingBackend())
bind_operators(Recorded)
