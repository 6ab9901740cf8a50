"""Tracing: arrays that compute and record the calls of kernels at the same time.

A `Recorded` holds an array of another backend. Its kernels run that backend's kernels and record
the call. Everything that computes with arrays is therefore recorded: operations, backward passes,
optimizers.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from tapegrad.core.backend.capabilities import Capabilities
from tapegrad.core.backend.protocol import Array, Backend, Memory
from tapegrad.core.backend.registry import backend_of, find_backend, register_array_type
from tapegrad.core.call_site import call_site, module_of, user_call
from tapegrad.core.commit import set_recording_check, store
from tapegrad.core.number_checks import origin_of_recorded_call
from tapegrad.core.observed import Observed
from tapegrad.core.origin import origin_of_call
from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive
from tapegrad.core.recorder import current_region
from tapegrad.core.values.convert import NUMBERS, refuse_mixed_devices
from tapegrad.core.values.device import backend_for
from tapegrad.core.values.sizes import SizeNotes, plain_sizes
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable, note_creations
from tapegrad.errors import LeakedTensorError, RecordingError
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.record.branch_writes import BranchWrites
from tapegrad.program.record.decisions import DecisionError, error_of_read, may_convert
from tapegrad.program.record.recorded_operators import bind_operators
from tapegrad.program.record.shared_memory import share_memory


class Recorded:
    """An array inside a recording. An in-place operation gives it a new value."""

    __slots__ = ("array", "recording", "value")
    __array_ufunc__ = None
    is_recorded = True

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
        if self.recording.closed:
            raise LeakedTensorError
        raise RecordingError(_reading("a value of it"))

    __bool__ = __float__ = __int__ = __index__ = __complex__ = __array__ = _refuse

    def __getitem__(self, index: Any) -> Any:
        whole = index if isinstance(index, tuple) else (index,)
        return PRIMITIVES["slice"].kernel(Recorded)(self, index=whole)


def _reading(what: str) -> str:
    return (
        f"A function that is being recorded reads {what} at {call_site()}. Later calls replay the "
        "recording and would not read it again. Use tapegrad.cond, while_loop or where to branch "
        "on the device, tapegrad.print to print it, return the value and read it outside, or run "
        "the function eagerly with function(jit=False)."
    )


def _is_read_by_user() -> bool:
    """Whether the user's code, or a library that it calls, reads a value, as by `float(x)`.

    Otherwise it calls a function of the package, such as `repeat`, that reads its arguments.
    """
    module = module_of(user_call()[1])
    return not module.startswith("tapegrad.") or module.startswith("tapegrad.core.values.")


_OTHER_THREAD = (
    "A function that is being recorded uses its tensors in another thread. A recording sees only "
    "its own thread: compute there, or run the function eagerly with function(jit=False)."
)

_slot: Any = Variable.__dict__["array"]
"""The real arrays of variables; isolation.py replaces this attribute during recordings."""


PLAIN = (int, float, complex, bool, str, bytes, type(None))
"""Types of values that are compared by value, not by identity."""


def entries_of(value: Any) -> list[int] | None:
    """Return the ids of the entries of a list or dictionary, None for other values."""
    if type(value) is list:
        return [*map(id, value)]
    return [*map(id, value), *map(id, value.values())] if type(value) is dict else None


class Recording:
    """The inputs and the calls of primitives of one recorded call."""

    def __init__(self) -> None:
        self.closed = False
        self.inputs: list[Value] = []
        self.constants: dict[int, Any] = {}
        self.calls: list[Call] = []
        self.variables: dict[int, Any] = {}
        self._first: dict[int, Recorded] = {}
        self._now: dict[int, Any] = {}
        """The arrays that variables have inside the recording, by the variables' numbers."""
        self.created: dict[int, tuple[weakref.ref[Variable], Recorded, Value]] = {}
        self.initial: list[Value] = []
        """The initial values of the variables that were created here and outlive the call."""
        self.made: set[int] = set()
        """The numbers of these variables."""
        self._reads: dict[tuple[int, str], tuple[Any, Any]] = {}
        """The objects whose attributes were read, by their ids and the attributes' names.

        Beside them stand the entries of lists and dictionaries at the first read.
        """
        self._updated: set[tuple[int, str]] = set()
        self._own_tensors: set[int] = set()
        self.outside_tensors: dict[int, tuple[Tensor, Array]] = {}
        """The tensors that were used and not made here, with their arrays, by the tensors' ids."""
        self._gone: dict[int, Value] = {}
        self.kept: dict[int, Any] | None = None
        """Arrays by the number of their value, if they are needed after the recording."""
        self.condition: Any = None
        """The condition of the branch that is being recorded, None outside of branches."""
        self.branch_writes: BranchWrites | None = None
        """The tensors that this branch has written."""
        self.obstacle = ""
        """Why no program can replay the recording, "" if there is no reason."""
        self.size_notes = SizeNotes(weakref.WeakMethod(self.adopted_inside))
        """What the user's code did with the lengths of axes."""
        self.count = 0
        self._known: dict[int, Value] = {}
        self._backends: dict[type, tuple[Backend, str | None]] = {}
        """The backends of array types, and their devices where there is one only."""

    def is_inside(self, other: Recording) -> bool:
        """Whether this is the recording of a loop's body that may read values of the other one."""
        return False

    def note_outer_tensor(self, tensor: Tensor) -> None:
        """Remember a tensor with an array of another recording, which bodies of loops may read."""

    def check_write(self, array: Recorded) -> None:
        """Raise if the code that is being recorded must not write to an array."""

    def value_of(self, array: Array) -> Value:
        """Return a new value with the shape and dtype of an array."""
        self.count += 1
        known = self._backends.get(type(array))
        if known is None:
            backend = backend_of(array)
            # Most backends have one device, of which an array need not be asked.
            devices = backend.devices()
            only = devices[0] if len(devices) == 1 else None
            known = self._backends[type(array)] = (backend, only)
        backend, device = known
        if type(array) is np.ndarray and device is not None:  # called for each result
            return Value(self.count, array.shape, array.dtype, device)
        if device is None:
            device = backend.device_of(array)
        return Value(self.count, tuple(array.shape), backend.dtype_of(array), device)

    def wrap(self, array: Array) -> Recorded:
        """Return an array from outside as a recorded array that no call makes."""
        return Recorded(array, self.value_of(array), self)

    def take_input(self, array: Array) -> Recorded:
        recorded = self.wrap(array)
        self.inputs.append(recorded.value)
        return recorded

    def array_of(self, variable: Variable) -> Any:
        """Return the array that a variable has inside the recording."""
        found = self._now.get(variable.number)
        return self._take_variable(variable) if found is None else found

    def assign(self, variable: Variable, array: Any) -> None:
        """Set the array that a variable has inside the recording."""
        number = variable.number
        if number not in self._now:
            try:
                self._take_variable(variable)
            except AttributeError:  # a new variable; other threads see its initial value
                real = array.array if type(array) is Recorded else array
                _slot.__set__(variable, real)
        self._now[number] = array

    def _take_variable(self, variable: Variable) -> Recorded:
        """Read a variable for the first time."""
        first = self.wrap(_slot.__get__(variable))
        now = Recorded(first.array, first.value, self)  # in-place operators change the handle
        self.variables[variable.number] = variable
        self._first[variable.number] = first
        self._now[variable.number] = now
        return now

    def note_read(self, owner: Observed, name: str, value: Any = None) -> None:
        """Remember that an attribute was read."""
        key = (id(owner), name)
        if key not in self._reads:
            self._reads[key] = (owner, entries_of(value))

    def note_write(self, owner: Observed, name: str) -> None:
        """Remember that an attribute was written."""
        if (id(owner), name) in self._reads:
            self._updated.add((id(owner), name))

    def reads(self) -> Iterator[tuple[Observed, str]]:
        """Yield the objects and the attributes of them that were read and that may change.

        A number that was read and then written, or a list that has other entries than before, is
        state of the Python code, such as a counter of calls. Replays do not change it either.
        """
        for (number, name), (owner, entries) in self._reads.items():
            value = vars(owner).get(name)
            is_counter = (number, name) in self._updated and isinstance(value, PLAIN)
            has_grown = entries is not None and entries_of(value) != entries
            if name not in owner.unobserved and not is_counter and not has_grown:
                yield owner, name

    def note_new_tensor(self, tensor: Tensor) -> None:
        """Remember that a tensor with an array from outside was made here."""
        self._own_tensors.add(id(tensor))

    def has_made(self, tensor: Tensor) -> bool:
        """Whether a tensor with an array from outside was made here."""
        return id(tensor) in self._own_tensors

    def note_tensor(self, tensor: Tensor, array: Array) -> None:
        """Remember a tensor that was used, unless it was made here."""
        if id(tensor) not in self._own_tensors:
            self.outside_tensors[id(tensor)] = (tensor, array)

    def take_made(self, variable: Variable) -> None:
        """Register a variable that is created inside the recording.

        The reference is weak, so that the end of the recording knows whether it outlives the call.
        """
        initial = self.adopted(variable.array)
        before = self.wrap(initial.array)
        self.created[variable.number] = (weakref.ref(variable), before, initial.value)
        variable.array = Recorded(before.array, before.value, self)

    def set_initial(self, variable: Variable, array: Array) -> bool:
        """Replace the initial value of a variable, if nothing here has read another one.

        Variables of other recordings and those that the function did not create have none.
        """
        number = variable.number
        if number in self.created:
            _slot.__set__(variable, array)
            self._now[number] = array
            self.take_made(variable)
            return True
        return number not in self._now

    def known_variables(self) -> list[tuple[Variable, Recorded]]:
        """Return the live variables with their first values in this recording."""
        made = [(reference(), before) for reference, before, _ in self.created.values()]
        alive = [(variable, before) for variable, before in made if variable is not None]
        return [*[(v, self._first[number]) for number, v in self.variables.items()], *alive]

    def first_value(self, variable: Variable) -> Recorded | None:
        """Return a variable's value at the start or at its creation, None for unknown ones."""
        if variable.number in self._first:
            return self._first[variable.number]
        made = self.created.get(variable.number)
        return None if made is None else made[1]

    def adopted(self, value: Any) -> Any:
        """Return an array from outside as a constant of the recording, other values as is."""
        if type(value) is Recorded or value is None or find_backend(type(value)) is None:
            return value
        return Recorded(value, self.constant(value), self)

    def adopted_inside(self, value: Any) -> Any:
        """Return an array as a constant while this is the active recording."""
        return self.adopted(value) if current_recording() is self else value

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
            raise LeakedTensorError
        if _thread.recording is not self:
            raise RecordingError(_OTHER_THREAD)
        arrays, array_type = _unwrapped(primitive, operands)
        result = primitive.kernel(array_type)(*arrays, **params)
        many = isinstance(result, (tuple, list))  # a union would take longer
        results = tuple(result) if many else (result,)
        values = tuple([self.value_of(array) for array in results])
        given = tuple([
            o.value if type(o) is Recorded and o.recording is self else self._operand(o)
            for o in operands
        ])  # fmt: skip
        rest = (share_memory(results, arrays), current_region(), *origin_of_recorded_call())
        self.calls.append(Call(primitive, given, params, values, array_type, *rest))
        if self.kept is not None:
            self.kept.update((value.number, array) for value, array in zip(values, results))
        if not many:
            return Recorded(result, values[0], self)
        return tuple([Recorded(a, v, self) for a, v in zip(results, values)])

    def repeat(
        self, call: Call, operands: Sequence[Any], params: dict[str, Any], shapes: Sequence[Any]
    ) -> list[Recorded] | None:
        """Make a call of another recording and record it; None if a result has another shape."""
        arrays = [o.array if type(o) is Recorded else o for o in operands]
        result = call.primitive.kernel(call.array_type)(*arrays, **params)
        results = tuple(result) if isinstance(result, tuple | list) else (result,)
        values = []
        for value, array, shape in zip(call.results, results, shapes, strict=True):
            if array.shape != shape or array.dtype != value.dtype:
                return None
            self.count += 1
            values.append(Value(self.count, shape, value.dtype, value.device))
        given = tuple([self._operand(o) for o in operands])
        aliases = share_memory(results, arrays)
        rest = (aliases, call.region, call.site, call.function, call.is_backward)
        self.calls.append(
            Call(call.primitive, given, params, tuple(values), call.array_type, *rest)
        )
        if self.kept is not None:
            self.kept.update((value.number, array) for value, array in zip(values, results))
        return [Recorded(array, value, self) for array, value in zip(results, values)]

    def note_host_read(self) -> None:
        """Remember that a function has read a value here, so that no program can replay it."""
        if _thread.recording is not self:
            raise RecordingError(_OTHER_THREAD)
        site, function = origin_of_call()
        frame = user_call()[0]
        if function == "range" and may_convert(frame.f_code):
            raise DecisionError(_reading("the limits of a range"), frame, is_optional=True)
        self.obstacle = self.obstacle or (
            f"{function or 'the operation'} at {site} reads a value on the host, because its "
            "result depends on values in shape or in kind. Pass sizes as Python numbers, and give "
            "num_segments, minlength and the like where a function takes them."
        )

    def _operand(self, operand: Any) -> Any:
        if type(operand) is Recorded:
            if operand.recording is not self:
                raise LeakedTensorError
            return self._gone.get(operand.value.number, operand.value)
        return operand if type(operand) in NUMBERS else self.constant(operand)

    def finish(self) -> tuple[dict[int, Value], dict[int, Value]]:
        """End the recording; return the values of variables that were read and those written."""
        self.closed = True
        self._settle_made()
        read, written = {}, {}
        for number, first in sorted(self._first.items(), key=itemgetter(0)):  # as they were made
            now = self._now[number]
            read[number] = first.value
            if type(now) is not Recorded:
                written[number] = self.constant(now)
            elif now.value is not first.value:
                written[number] = self._gone.get(now.value.number, now.value)
        return read, written

    def commit(self) -> None:
        """Give the variables the values that the recording computed, if no program does."""
        new = [self._now[number] for number in self.variables]
        arrays = [now.array if type(now) is Recorded else now for now in new]
        store(list(self.variables.values()), arrays)

    def let_go(self) -> None:
        """Drop arrays, which are large, and tensors; both form reference cycles."""
        self._first.clear()
        self._now.clear()
        self.created.clear()
        self.outside_tensors.clear()
        self._reads.clear()

    def _settle_made(self) -> None:
        """Handle the variables that were created inside the recording.

        Those that are gone are initialised again in each call. The others are live variables, whose
        current values this call and later ones read.
        """
        for number, (reference, before, initial) in self.created.items():
            variable = reference()
            if variable is None:
                self._gone[before.value.number] = initial
            else:
                self.variables[number] = variable
                self._first[number] = before
                self.initial.append(initial)
                self.made.add(number)
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
            self.obstacle,
        )


def _unwrapped(primitive: Primitive, operands: Sequence[Any]) -> tuple[list[Any], type]:
    """Return the arrays and numbers that a kernel takes, and the type of the arrays."""
    arrays: list[Any] = []
    found: Any = None
    for operand in operands:
        array = operand.array if type(operand) is Recorded else operand
        arrays.append(array)
        array_type = type(array)
        if array_type is found or array_type in NUMBERS:
            continue
        if found is None:
            found = array_type
        else:
            refuse_mixed_devices(primitive.name, [a for a in arrays if type(a) not in NUMBERS])
    return arrays, found


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
            for first in operands:
                if type(first) is Recorded:
                    break
            recording, inner = first.recording, _thread.recording
            if inner is not recording and inner is not None and inner.is_inside(recording):
                recording = inner  # the body of a loop reads a value from outside of the loop
            if recording.size_notes.is_read:
                operands = tuple([plain_sizes(operand) for operand in operands])
                params = {key: plain_sizes(value) for key, value in params.items()}
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
        inner = _thread.recording
        is_inner = inner is not None and inner.is_inside(like.recording)
        recording = inner if inner is not None and is_inner else like.recording
        return [v if type(v) is Recorded else recording.adopted(v) for v in values]

    def to_host(self, array: Recorded) -> np.ndarray:
        """Return the value if a function of the package needs it; users must not read values."""
        if array.recording.closed:
            raise LeakedTensorError
        if _is_read_by_user():
            raise error_of_read(_reading("the value of a tensor"), *user_call())
        array.recording.note_host_read()
        return backend_of(array.array).to_host(array.array)

    def memory(self, device: str) -> Memory:
        """Return the memory of the device, which an operation that ran out of it frees."""
        return backend_for(device).memory(device)


class _Thread(threading.local):
    recording: Recording | None = None


_thread = _Thread()


def current_recording() -> Recording | None:
    """Return the active recording of this thread, or None."""
    recording = _thread.recording
    # An interrupt may have kept a recording from being removed at its end.
    return None if recording is None or recording.closed else recording


def set_recording(recording: Recording | None) -> None:
    """Set the active recording of this thread."""
    _thread.recording = recording


def abandon_recording() -> None:
    """End the recording of this thread, if it has one, because of an exception."""
    recording = _thread.recording
    if recording is not None:
        recording.closed = True
        _thread.recording = None


def _note_creation(variable: Variable) -> None:
    recording = current_recording()
    if recording is not None:
        recording.take_made(variable)


note_creations(_note_creation)
set_recording_check(current_recording)
register_array_type(Recorded, _RecordingBackend())
bind_operators(Recorded)
