"""Record the launches of a kernel function at its first call, and replay them at later calls.

A kernel function chooses a variant, the number of blocks and the size of scratch memory in Python.
For operands of equal shapes and dtypes the choices are equal too. A plan keeps the launches, and a
replay only allocates, packs addresses and launches. A function can be recorded if all its work on
the device is launches of `RecordedKernel`s. It calls `prevent_replay` where it does anything else.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import cupy
import cupyx
import numpy as np

Function = Callable[..., Any]

MOST_PLANS = 4096
MOST_ARGUMENTS = 64
_ALIGNMENT = 512
"""The alignment of allocations in bytes, equal to that of CuPy's pool."""

SMALL = 1 << 20
"""The most bytes of an operand that is copied to be contiguous, so that the call is replayed."""

CHECKS = os.environ.get("TAPEGRAD_CHECK_REPLAYS") == "1"
"""Whether each plan is compared with the call that it was recorded from, as the GPU tests do."""

_ndarray = cupy.ndarray
_alloc = cupy.cuda.alloc
_current_device = cupy.cuda.runtime.getDevice
_current_stream = cupy.cuda.get_current_stream
_launch_kernel = cupy.cuda.driver.launchKernel


def enter_context() -> None:
    """Make the context of the current device current in this thread; driver launches need it."""
    if cupy.cuda.is_available():
        cupy.cuda.runtime.setDevice(_current_device())


class _Thread(threading.local):
    """The recording of a thread, and its buffer for arguments of eight bytes each."""

    def __init__(self) -> None:
        enter_context()
        self.recording: _Recording | None = None
        self.bytes = bytearray(8 * MOST_ARGUMENTS)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.bytes))
        pointers = [address + 8 * i for i in range(MOST_ARGUMENTS)]
        self._pointers = (ctypes.c_void_p * MOST_ARGUMENTS)(*pointers)
        self.pointers = ctypes.addressof(self._pointers)


THREAD = _Thread()


class RecordedKernel:
    """A CuPy kernel whose launches are added to the recording of the thread."""

    __slots__ = ("_raw",)

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    @property
    def kernel(self) -> Any:
        return self._raw.kernel

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        return int(self._raw.max_dynamic_shared_size_bytes)

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        self._raw.max_dynamic_shared_size_bytes = size

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: Any, shared_mem: int = 0
    ) -> None:
        self._raw(grid, block, args, shared_mem=shared_mem)
        if THREAD.recording is not None:
            THREAD.recording.note(self._raw.kernel.ptr, grid, block, args, shared_mem)


def prevent_replay() -> None:
    """Mark the current recording, if there is one, as impossible to replay."""
    if THREAD.recording is not None:
        THREAD.recording.refused = True


def record_packed_launch(
    function: int, blocks: int, threads: int, letters: str, values: tuple[Any, ...]
) -> None:
    """Add a launch with packed arguments to the current recording, if there is one."""
    recording = THREAD.recording
    if recording is not None:
        if not any(letter.isdigit() for letter in letters):
            recording.note_packed(function, blocks, threads, letters, values)
        else:
            recording.refused = True  # an argument is a structure


class _Address(int):
    """An argument that is an address."""


class _Location(NamedTuple):
    """An address as an offset into an operand or a scratch allocation, numbered by `slot`."""

    slot: int
    offset: int


class _Launch(NamedTuple):
    """One launch: function and sizes, the struct format of its arguments, and their Python code."""

    head: tuple[int, ...]
    letters: str
    arguments: str


class _Result(NamedTuple):
    """One array that the function returns."""

    location: _Location
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]


class _Recording:
    """The launches and allocations of the first call."""

    def __init__(self, operands: Sequence[Any]) -> None:
        self.operands = operands
        self.refused = False
        self.launches: list[tuple[int, Any, Any, tuple[Any, ...], int]] = []
        self.memories: list[Any] = []
        self.sizes: list[int] = []
        self._allocate = cupy.cuda.get_allocator()

    def malloc(self, size: int) -> Any:
        memory = self._allocate(size)
        self.memories.append(memory)
        self.sizes.append(size)
        return memory

    def note(self, function: int, grid: Any, block: Any, args: Any, shared: int) -> None:
        self.launches.append((function, grid, block, tuple(args), shared))

    def note_packed(
        self, function: int, blocks: int, threads: int, letters: str, values: tuple[Any, ...]
    ) -> None:
        """Record a launch with packed arguments; the letters tell addresses from numbers."""
        args = tuple(
            _Address(value) if letter == "P" else value for letter, value in zip(letters, values)
        )
        self.launches.append((function, (blocks,), (threads,), args, 0))

    def location_of(self, array: Any) -> _Location | None:
        """Return the location of an array, or None if it is neither an operand nor scratch."""
        return self.location_at(array.data.ptr)

    def location_at(self, address: int) -> _Location | None:
        for index, operand in enumerate(self.operands):
            start = operand.data.ptr
            if start <= address < start + operand.nbytes:
                return _Location(index, address - start)
        for index, (memory, size) in enumerate(zip(self.memories, self.sizes)):
            if memory.ptr <= address < memory.ptr + max(size, 1):
                return _Location(len(self.operands) + index, address - memory.ptr)
        return None

    def plan(self, result: Any) -> _Plan | None:
        """Return the plan of the recorded call, or None if it cannot be replayed."""
        arrays = result if isinstance(result, tuple) else (result,)
        if self.refused or not all(type(array) is _ndarray for array in arrays):
            return None
        results = []
        for array in arrays:
            location = self.location_of(array)
            if location is None:
                return None
            results.append(_Result(location, array.shape, array.dtype, array.strides))
        launches, kept = [], []
        for function, grid, block, args, shared in self.launches:
            if len(args) > MOST_ARGUMENTS:
                return None
            code = _argument_code(args, self.location_at)
            if code is None:
                return None
            sizes = [*grid, *[1] * (3 - len(grid)), *block, *[1] * (3 - len(block)), shared]
            launches.append(_Launch((function, *sizes), *code))
            kept.append(args)
        if any(self._is_lost(a) for args in kept for a in args):
            return None
        persistent = [a for args in kept for a in args if self._is_persistent(a)]
        one = not isinstance(result, tuple)
        run = _compile_replay(len(self.operands), self.sizes, launches, results, one)
        return _Plan(run, persistent)

    def _is_lost(self, value: Any) -> bool:
        """Return whether a value is an address of memory that the plan cannot keep alive."""
        return type(value) is _Address and value != 0 and self.location_at(value) is None

    def _is_persistent(self, value: Any) -> bool:
        return type(value) is _ndarray and self.location_of(value) is None


def _argument_code(
    args: Sequence[Any], location_at: Callable[[int], _Location | None]
) -> tuple[str, str] | None:
    """Return a struct format of eight bytes per argument, and Python code of the arguments."""
    letters, parts = "", []
    for value in args:
        if type(value) is _ndarray or type(value) is _Address:
            address = int(value) if type(value) is _Address else value.data.ptr
            location = location_at(address)
            letters += "Q"
            if location is None:
                parts.append(str(address))
            else:
                offset = f" + {location.offset}" if location.offset else ""
                parts.append(f"p{location.slot}{offset}")
        elif isinstance(value, bool | int):
            letters += "q"
            parts.append(str(int(value)))
        elif type(value) is float:
            letters += "d"
            parts.append(f"float({str(value)!r})")
        else:
            return None
    return letters, ", ".join(parts)


def _compile_replay(
    operands: int, sizes: list[int], launches: list[_Launch], results: list[_Result], one: bool
) -> Callable[[Sequence[Any], list[int]], Any]:
    """Compile the replay to straight-line Python, since a loop over launches would double the cost.

    In the code pK is the address of operand or allocation K. Allocations that are not returned
    share one block of memory.
    """
    names: dict[str, Any] = {
        "alloc": _alloc, "launch": _launch_kernel, "ndarray": _ndarray, "thread": THREAD,
        "stream_of": _current_stream,
    }  # fmt: skip
    lines = [f"{''.join(f'p{k}, ' for k in range(operands))} = table"] if operands else []
    returned = {result.location.slot for result in results}
    scratch = 0
    for slot, size in enumerate(sizes, operands):
        if slot in returned:
            lines.append(f"m{slot} = alloc({size}); p{slot} = m{slot}.ptr")
        else:
            lines.append(f"p{slot} = scratch + {scratch}")
            scratch += -(-max(size, 1) // _ALIGNMENT) * _ALIGNMENT
    if scratch:
        lines.insert(1 if operands else 0, f"space = alloc({scratch}); scratch = space.ptr")
    lines.append("stream = stream_of().ptr; buffer = thread.bytes; pointers = thread.pointers")
    for k, (head, letters, arguments) in enumerate(launches):
        names[f"pack{k}"] = struct.Struct("<" + letters).pack_into
        lines.append(f"pack{k}(buffer, 0, {arguments})")
        lines.append(f"launch({', '.join(map(str, head))}, stream, pointers, 0)")
    made = []
    for k, ((slot, offset), shape, dtype, strides) in enumerate(results):
        names[f"type{k}"] = (dtype, shape, strides)
        memory = f"m{slot}" if slot >= operands else f"operands[{slot}].data"
        memory += f" + {offset}" if offset else ""
        lines.append(f"dtype{k}, shape{k}, strides{k} = type{k}")
        made.append(f"ndarray(shape{k}, dtype{k}, {memory}, strides{k})")
    lines.append(f"return {made[0] if one else '(' + ''.join(f'{each}, ' for each in made) + ')'}")
    exec("def run(operands, table):\n    " + "\n    ".join(lines), names)
    return names["run"]  # type: ignore[no-any-return]


class _Plan:
    """The replay of a call, and the arrays whose addresses are constants in it."""

    __slots__ = ("_kept", "run")

    def __init__(self, run: Callable[[Sequence[Any], list[int]], Any], kept: list[Any]) -> None:
        self.run = run
        self._kept = kept


def with_replay(function: Function, contiguous_copy: Function, most: int = SMALL) -> Function:
    """Return a function that records the launches of `function` and replays them.

    Operands of at most `most` bytes that are not contiguous are copied first, so that the call can
    be replayed.
    """
    plans: dict[Any, _Plan | None] = {}

    def call(*operands: Any, **params: Any) -> Any:
        here = _current_device()
        key: list[Any] = [here]
        table: list[int] = []
        low = 0
        for i, operand in enumerate(operands):
            if type(operand) is not _ndarray:
                return function(*operands, **params)
            if not operand._c_contiguous:
                if operand.nbytes > most:
                    return function(*operands, **params)
                operand = contiguous_copy(operand)
                operands = (*operands[:i], operand, *operands[i + 1 :])
            data = operand.data
            if data.device_id != here:
                with data.device:
                    return function(*operands, **params)
            address = data.ptr
            low |= address
            table.append(address)
            key += (operand.dtype, operand.shape)
        full_key = (*key, low & 15, *params.values())
        try:
            plan = plans[full_key]
        except KeyError:
            return _record(function, plans, full_key, operands, params)
        if plan is None or THREAD.recording is not None:
            return function(*operands, **params)
        return plan.run(operands, table)

    return call


def _record(
    function: Function,
    plans: dict[Any, _Plan | None],
    key: Any,
    operands: Sequence[Any],
    params: dict[str, Any],
) -> Any:
    """Run the function, keep its plan, and return its result."""
    is_nested = THREAD.recording is not None
    if is_nested or not _are_distinguishable(operands):
        return function(*operands, **params)
    recording = THREAD.recording = _Recording(operands)
    try:
        with cupy.cuda.using_allocator(recording.malloc):
            result = function(*operands, **params)
    finally:
        THREAD.recording = None
    plan = recording.plan(result)
    if len(plans) >= MOST_PLANS:
        plans.clear()
    plans[key] = plan
    if CHECKS and plan is not None:
        _compare(function, plan, operands, result)
    return result


def _are_distinguishable(operands: Sequence[Any]) -> bool:
    """Return whether an address determines the operand, or other memory, that it belongs to.

    It does not if operands overlap or are empty. A replay identifies operands by position, so it
    can be called with such operands.
    """
    ranges = sorted((operand.data.ptr, operand.nbytes) for operand in operands)
    ends = [start + size for start, size in ranges]
    return all(size > 0 for _, size in ranges) and all(
        end <= start for end, (start, _) in zip(ends, ranges[1:])
    )


def _compare(function: Function, plan: _Plan, operands: Sequence[Any], result: Any) -> None:
    again = plan.run(operands, [operand.data.ptr for operand in operands])
    pairs = zip(again, result) if isinstance(result, tuple) else [(again, result)]
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        warnings.simplefilter("ignore")  # CuPy deprecates `allow_synchronize`
        if hasattr(cupyx, "allow_synchronize"):
            stack.enter_context(cupyx.allow_synchronize(True))
        for one, other in pairs:
            if one.get().tobytes() != other.get().tobytes():
                raise AssertionError(f"The replay of {function} differs from the recorded call.")
