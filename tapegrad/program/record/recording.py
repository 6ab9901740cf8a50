"""Tracing: arrays that compute and record the calls of kernels at the same time.

A `Recorded` holds an array of another backend. Its kernels run that backend's kernels and record
the call. Everything that computes with arrays is therefore recorded: operations, backward passes,
optimizers.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tapegrad.core.backend.capabilities import Capabilities
from tapegrad.core.backend.protocol import Array, Memory
from tapegrad.core.backend.registry import backend_of, find_backend, register_array_type
from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive
from tapegrad.core.recorder import call_site, current_region
from tapegrad.core.values.convert import NUMBERS
from tapegrad.core.values.device import backend_for
from tapegrad.core.values.variable import Variable, note_creations
from tapegrad.errors import RecordingError
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.record.recorded_operators import bind_operators


class Recorded:
    """An array inside a recording. An in-place operation gives it a new value."""

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
        "recording and would not read it again. Use tapegrad.cond, while_loop or where to branch "
        "on the device, tapegrad.print to print it, return the value and read it outside, or run "
        "the function eagerly with function(jit_compile=False)."
    )


def _share_memory(results: Sequence[Any], operands: Sequence[Any]) -> bool:
    """Whether a result shares memory with an operand."""
    owners = {id(_owner(operand)) for operand in operands if type(operand) not in NUMBERS}
    return any(id(_owner(result)) in owners for result in results)


def _owner(array: Any) -> Any:
    """Return the owner of an array's memory: a device allocation, or the base array."""
    if isinstance(array, np.generic):  # a NumPy scalar, which shares no memory
        return array
    if not isinstance(array, np.ndarray):
        return getattr(getattr(array, "data", None), "mem", array)
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


_LEAKED = (
    "A tensor that was computed while a function was recorded is used after the recording. "
    "Return tensors from the function, or assign them to variables."
)


class Recording:
    """The inputs and the calls of primitives of one recorded call."""

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
        """Arrays by the number of their value, if they are needed after the recording."""
        self.condition: Any = None
        """The condition of the branch that is being recorded, None outside of branches."""
        self._count = 0
        self._known: dict[int, Value] = {}

    def value_of(self, array: Array) -> Value:
        """Return a new value with the shape and dtype of an array."""
        self._count += 1
        backend = backend_of(array)
        device = backend.device_of(array)
        return Value(self._count, tuple(array.shape), backend.dtype_of(array), device)

    def wrap(self, array: Array) -> Recorded:
        """Return an array from outside as a recorded array that no call makes."""
        return Recorded(array, self.value_of(array), self)

    def take_input(self, array: Array) -> Recorded:
        recorded = self.wrap(array)
        self.inputs.append(recorded.value)
        return recorded

    def take_variable(self, variable: Any) -> None:
        """Replace a variable's array by a recorded one until the recording ends."""
        recorded = self.wrap(variable.array)
        self.variables[variable.number] = variable
        self._first[variable.number] = recorded
        variable.array = recorded
        variable.forget_leaf()

    def take_made(self, variable: Variable) -> None:
        """Register a variable that is created inside the recording.

        The reference is weak, so that the end of the recording knows whether it outlives the call.
        """
        initial = self.adopted(variable.array)
        before = self.wrap(initial.array)
        self._made[variable.number] = (weakref.ref(variable), before, initial.value)
        variable.array = before

    def known_variables(self) -> list[tuple[Variable, Recorded]]:
        """Return the live variables with their first values in this recording."""
        made = [(reference(), before) for reference, before, _ in self._made.values()]
        alive = [(variable, before) for variable, before in made if variable is not None]
        return [*[(v, self._first[number]) for number, v in self.variables.items()], *alive]

    def first_value(self, variable: Variable) -> Recorded | None:
        """Return a variable's value at the start or at its creation, None for unknown ones."""
        if variable.number in self._first:
            return self._first[variable.number]
        made = self._made.get(variable.number)
        return None if made is None else made[1]

    def adopted(self, value: Any) -> Any:
        """Return an array from outside as a constant of the recording, other values as is."""
        if type(value) is Recorded or value is None or find_backend(type(value)) is None:
            return value
        return Recorded(value, self.constant(value), self)

    def constant(self, array: Array) -> Value:
        """Register an array from outside, which the program keeps."""
        known = self._known.get(id(array))
        if known is None:
            known = self._known[id(array)] = self.value_of(array)
            self.constants[known.number] = array  # also prevents that the id is reused
        return known

    def run(self, primitive: Primitive, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        """Run a kernel on the arrays of the operands and record the call."""
        if self.closed:
            raise RecordingError(_LEAKED)
        arrays = [o.array if type(o) is Recorded else o for o in operands]
        array_type = next(type(array) for array in arrays if type(array) not in NUMBERS)
        result = primitive.kernel(array_type)(*arrays, **params)
        many = isinstance(result, tuple | list)
        results = tuple(result) if many else (result,)
        values = tuple(self.value_of(array) for array in results)
        given = tuple(self._operand(o) for o in operands)
        aliases = _share_memory(results, arrays)
        self.calls.append(
            Call(primitive, given, params, values, array_type, aliases, current_region())
        )
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
        """Give all variables plain arrays again; return the values read and those written."""
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
        """Restore the first values of all variables, because the recording has failed."""
        self.closed = True
        self._settle_made()
        for number, variable in self.variables.items():
            variable.array = self._first[number].array
            variable.forget_leaf()
        self._let_go()

    def _let_go(self) -> None:
        """Drop the old arrays of variables, which are large and form reference cycles."""
        self._first.clear()
        self._made.clear()

    def _settle_made(self) -> None:
        """Handle the variables that were created inside the recording.

        Those that are gone are initialised again in each call. The others are live variables, whose
        current values later calls read.
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
        """Return the recorded graph; `outputs` are recorded arrays or arrays from outside."""
        return Graph(
            tuple(self.inputs),
            variables,
            self.constants,
            tuple(self.calls),
            tuple(self._operand(output) for output in outputs),
            written,
        )


def _reading_instead(call: Call, values: Mapping[int, Value]) -> Call:
    """Return the call with some operands replaced."""
    return replace(
        call,
        operands=tuple(
            values.get(operand.number, operand) if isinstance(operand, Value) else operand
            for operand in call.operands
        ),
    )


class _Kernels(Mapping[str, Callable[..., Any]]):
    """A kernel for every primitive, which runs the backend's kernel and records the call."""

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
    """The functions of the array namespace that are used outside of kernels."""

    def astype(self, x: Recorded, dtype: Any, copy: bool = True) -> Any:
        return PRIMITIVES["cast"].kernel(Recorded)(x, dtype=np.dtype(dtype))

    def asarray(self, x: Recorded, dtype: Any = None, copy: bool | None = None) -> Any:
        return x if dtype is None else self.astype(x, dtype)


class _RecordingBackend:
    """The backend of recorded arrays, which delegates to the backend of the wrapped arrays."""

    name = "recording"
    array_types: tuple[type, ...] = (Recorded,)
    kernels: Mapping[str, Callable[..., Any]] = _Kernels()
    xp = _Namespace()

    def devices(self) -> list[str]:
        return []

    def device_of(self, array: Recorded) -> str:
        """Return the device of the wrapped array."""
        return backend_of(array.array).device_of(array.array)

    def dtype_of(self, array: Recorded) -> np.dtype[Any]:
        return backend_of(array.array).dtype_of(array.array)

    def from_host(self, value: np.ndarray, device: str) -> Array:
        return backend_for(device).from_host(value, device)

    def capabilities(self) -> Capabilities:
        return Capabilities(adoption=self)

    def adopt(self, like: Recorded, values: Sequence[Any]) -> list[Any]:
        """Turn arrays from outside the recording into constants of it."""
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
    """Return the active recording of this thread, or None."""
    return _thread.recording


def set_recording(recording: Recording | None) -> None:
    """Set the active recording of this thread."""
    _thread.recording = recording


def _note_creation(variable: Variable) -> None:
    recording = _thread.recording
    if recording is not None:
        recording.take_made(variable)


note_creations(_note_creation)
register_array_type(Recorded, _RecordingBackend())
bind_operators(Recorded)
