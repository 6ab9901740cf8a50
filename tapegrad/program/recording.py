"""Arrays that remember how they were made: the first call of a `function` runs on them, for real.

A `Recorded` holds an array of another backend. Its kernels run that backend's and note the call, so
whatever computes with arrays is recorded: operations, sweeps, optimizers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapegrad.core.backend import Array, Memory, adopt, backend_of, find_backend
from tapegrad.core.convert import NUMBERS
from tapegrad.core.device import backend_for
from tapegrad.core.primitive import PRIMITIVES, Primitive
from tapegrad.core.recorder import call_site
from tapegrad.errors import RecordingError
from tapegrad.program.graph import Call, Graph, Value


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
        raise RecordingError(_reading("a value of it"))

    __bool__ = __float__ = __int__ = __index__ = __complex__ = __array__ = _refuse

    def __getitem__(self, index: Any) -> Any:
        return PRIMITIVES["slice"].kernel(Recorded)(self, index=index)

    def adopt_variable(self, variable: Any) -> None:
        """Give a variable that is made inside the recording its place among the others."""
        variable.array = self.array
        self.recording.take_variable(variable)


def _reading(what: str) -> str:
    return (
        f"A function that is being recorded reads {what} at {call_site()}. Later calls replay the "
        "recording and would not read it again. Use tapegrad.cond, while_loop or where to decide "
        "on the device, return the value and read it outside, or run the function eagerly with "
        "function(jit_compile=False)."
    )


def _bind_operators() -> None:
    pairs = {
        "__add__": "add", "__sub__": "subtract", "__mul__": "multiply", "__truediv__": "divide",
        "__pow__": "pow", "__lt__": "less", "__le__": "less_equal", "__gt__": "greater",
        "__ge__": "greater_equal", "__eq__": "equal", "__ne__": "not_equal",
        "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor",
        "__floordiv__": "floor_divide", "__mod__": "remainder", "__matmul__": "matmul",
    }  # fmt: skip
    for method, name in pairs.items():
        setattr(Recorded, method, _operator(name, swapped=False))
        reflected = method.replace("__", "__r", 1)
        if name not in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
            setattr(Recorded, reflected, _operator(name, swapped=True))
    for method, name in {
        "__neg__": "negative",
        "__abs__": "abs",
        "__invert__": "bitwise_invert",
    }.items():
        setattr(Recorded, method, _unary(name))
    for method, name in {"__iadd__": "add", "__imul__": "multiply", "__isub__": "subtract"}.items():
        setattr(Recorded, method, _in_place(name))
    Recorded.__hash__ = object.__hash__  # type: ignore[method-assign]


def _operator(name: str, swapped: bool) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        kernel = PRIMITIVES[name].kernel(Recorded)
        params = {"transpose_a": False, "transpose_b": False} if name == "matmul" else {}
        return kernel(other, self, **params) if swapped else kernel(self, other, **params)

    return method


def _unary(name: str) -> Callable[[Any], Any]:
    return lambda self: PRIMITIVES[name].kernel(Recorded)(self)


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        made = PRIMITIVES[name].kernel(Recorded)(self, other)
        self.array, self.value = made.array, made.value
        return self

    return method


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
        self.variables: dict[int, tuple[Any, Recorded]] = {}
        self._count = 0
        self._known: dict[int, Value] = {}

    def value_of(self, array: Array) -> Value:
        """A new value like an array."""
        self._count += 1
        return Value(self._count, tuple(array.shape), backend_of(array).dtype_of(array))

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
        self.variables[variable.number] = (variable, recorded)
        variable.array = recorded
        variable.forget_leaf()

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
        self.calls.append(
            Call(primitive, tuple(self._operand(o) for o in operands), params, values, kind)
        )
        wrapped = tuple(Recorded(a, v, self) for a, v in zip(results, values))
        return wrapped if many else wrapped[0]

    def _operand(self, operand: Any) -> Any:
        if type(operand) is Recorded:
            if operand.recording is not self:
                raise RecordingError(_LEAKED)
            return operand.value
        return operand if type(operand) in NUMBERS else self.constant(operand)

    def give_back_variables(self) -> tuple[dict[int, Value], dict[int, Value]]:
        """Give all variables real arrays again; return what was read and what was written."""
        self.closed = True
        read, written = {}, {}
        for number, (variable, before) in self.variables.items():
            after = variable.array
            read[number] = before.value
            if type(after) is not Recorded:
                written[number] = self.constant(after)
                continue
            variable.array = after.array
            variable.forget_leaf()
            if after.value is not before.value:
                written[number] = after.value
        return read, written

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

    def from_host(self, value: np.ndarray[Any, Any], device: str) -> Array:
        return backend_for(device).from_host(value, device)

    def adopt_others(self, like: Recorded, values: list[Any]) -> list[Any]:
        """The same with arrays that came from outside the recording turned into its constants."""
        return [like.recording.adopted(value) for value in values]

    def to_host(self, array: Recorded) -> np.ndarray[Any, Any]:
        raise RecordingError(_reading("the value of a tensor"))

    def memory(self, device: str) -> Memory:
        raise RecordingError(_reading("the memory of a device"))


adopt(Recorded, _RecordingBackend())
_bind_operators()
