"""One CUDA graph of a program's run, and what all graphs of a program share.

A graph works on fixed addresses. It is launched only with arrays that lie there, so it need not
keep them: whoever calls holds them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import cupy

from tapegrad_cupy.capture_memory import CUDA_ERRORS, STATE, Memory, Places, free_retired
from tapegrad_cupy.collector import resting_collector
from tapegrad_cupy.multi_copies import copies_of, copy_many
from tapegrad_cupy.ownership import expected, references, watched
from tapegrad_cupy.products import cublaslt
from tapegrad_cupy.updates.multi_tensors import on_device

Array = Any
Run = Callable[[Sequence[Any], list[Any]], tuple[Sequence[Any], Sequence[Any]]]

_CAPTURE_ERRORS = range(900, 909)
"""CUDA's error numbers for what a capture does not allow, the same in runtime and driver."""


# What a program's graphs share

_lock = threading.RLock()
_streams: dict[int, Any] = {}


class Room:
    """What the graphs of one program share: a device, and scratch memory for products.

    They can share it because no two of them run at once: on another stream than the last, the next
    launch waits for it. Graphs of other programs may run at the same time, in rooms of their own.
    Other memory is a graph's own: what one of them handed out, another must not write to.
    """

    def __init__(self) -> None:
        self.device: int = cupy.cuda.runtime.getDevice()
        self.memory = 0  # the most bytes that one of the graphs took ...
        self.inner = 0  # ... and those among them that are not results
        self.graphs: list[Graph] = []
        self._space: Any = None
        self._last: Any = None

    @contextmanager
    def capturing(self, memory: Memory) -> Iterator[Any]:
        """Let the current thread work on a stream that can be captured, in a graph's memory."""
        with _lock, on_device(self.device):
            stream = _streams.get(self.device)
            if stream is None:
                stream = _streams[self.device] = cupy.cuda.Stream(non_blocking=True)
            cublaslt.exchange_workspace(self.device, stream.ptr, self._space)
            STATE["capturing"] = True
            try:
                with resting_collector, stream, cupy.cuda.using_allocator(memory.malloc):
                    yield stream
            finally:
                STATE["capturing"] = False
                self._space = cublaslt.exchange_workspace(self.device, stream.ptr, None)
                self.memory = max(self.memory, int(memory.pool.total_bytes()))

    def take_turn(self) -> Any:
        """Return the current stream, which waits for the last launch if that was on another."""
        stream = cupy.cuda.get_current_stream()
        last = self._last
        if last is not stream:
            if last is not None and last.ptr != stream.ptr:
                stream.wait_event(last.record(cupy.cuda.Event(disable_timing=True)))
            self._last = stream
        return stream

    def mark(self) -> tuple[int, int, Any]:
        """Return what a capture changes here, for `back_to`."""
        return self.memory, self.inner, self._space

    def back_to(self, mark: tuple[int, int, Any]) -> None:
        """Forget a capture whose graph is gone, and free its memory."""
        self.memory, self.inner, self._space = mark
        free_retired()

    def clear(self) -> None:
        """Let go of everything, and free it."""
        self.graphs.clear()
        self.memory = self.inner = 0
        self._space = self._last = None
        free_retired()


def room_for(user: object) -> Room:
    """Return a room that is cleared when its user goes away."""
    room = Room()
    weakref.finalize(user, room.clear).atexit = False
    return room


# What cannot be captured


def is_refusal(error: Exception) -> bool:
    """Whether an error says that what was done cannot be captured."""
    if isinstance(error, CUDA_ERRORS):
        return error.status in _CAPTURE_ERRORS
    # CuPy's guards before libraries (NotImplementedError) and before copies to and from the host,
    # and those of this package (TransferError), say that a stream is being captured.
    return isinstance(error, NotImplementedError | RuntimeError) and "captur" in str(error)


def line_of(error: Exception, run: Run) -> int | None:
    """Return the line of `run` in which an error came up, if it did there."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is getattr(run, "__code__", None):
            return trace.tb_lineno
        trace = trace.tb_next
    return None


# Graphs


class Place:
    """Where an array lies, and in which order."""

    __slots__ = ("_array", "_at", "_shape", "_strides")

    def __init__(self, array: Array) -> None:
        # A weak reference, because programs that write to the array count who holds it.
        self._array = weakref.ref(array)
        self._at = array.data.ptr
        self._shape, self._strides = array.shape, array.strides

    def has(self, array: Array) -> bool:
        """Whether an array lies here."""
        if self._array() is array:
            return True
        if (
            type(array) is not cupy.ndarray
            or array.data.ptr != self._at
            or array.shape != self._shape
            or array.strides != self._strides
        ):
            return False
        self._array = weakref.ref(array)
        return True


class Graph:
    """One capture of a run on inputs and variables.

    What is only read comes first in `reads`: inputs, then the variables at `read_at`. Those whose
    number is in `fixed` are copied to a fixed place before each launch.
    """

    def __init__(
        self,
        room: Room,
        run: Run,
        reads: Sequence[Array],
        variables: Sequence[Array],
        read_at: Sequence[int],
        written: Sequence[int],
        fixed: set[int],
        places: Places | None = None,
    ) -> None:
        self._room = room
        self._memory = Memory(room.device, places)
        with room.capturing(self._memory) as stream:
            self._seats = {k: cupy.ndarray(reads[k].shape, reads[k].dtype) for k in sorted(fixed)}
            seated = [self._seats.get(k, array) for k, array in enumerate(reads)]
            inputs = seated[: len(seated) - len(read_at)]
            given = list(variables)
            for at, array in zip(read_at, seated[len(inputs) :], strict=True):
                given[at] = array
            stream.begin_capture()
            try:
                self._outputs, ours = _record(run, self._memory.made, inputs, given, written)
            except BaseException:
                _abandon(stream)
                raise
            self._graph = stream.end_capture()
        self._places = {k: Place(array) for k, array in enumerate(reads) if k not in fixed}
        self._ours = ours
        results = sum(self._outputs[k].nbytes for k in ours)
        room.inner = max(room.inner, int(self._memory.pool.total_bytes()) - results)
        self._handed: list[int] = []
        self._copied = ours
        self._watched: list[Any] = []
        self._free: list[int] = []

    def better_places(self) -> Places | None:
        """Return places for all memory in one block, if that would save much."""
        return self._memory.better_places()

    def hand_out(self, smallest: int) -> None:
        """Let launches return outputs of at least so many bytes as they are, others as copies."""
        self._handed = [k for k in self._ours if self._outputs[k].nbytes >= smallest]
        self._copied = [k for k in self._ours if self._outputs[k].nbytes < smallest]
        handed = [self._outputs[k] for k in self._handed]
        self._watched = watched(handed)
        self._free = expected(handed, [1] * len(handed), [0] * len(handed))

    def is_free(self) -> bool:
        """Whether nobody holds what the last launch handed out."""
        return references(self._watched) == self._free

    def reads(self, arrays: Sequence[Array]) -> bool:
        """Whether the graph can work with these arrays: in their places, or like fixed ones."""
        for k, place in self._places.items():
            if not place.has(arrays[k]):
                return False
        for k, seat in self._seats.items():
            array = arrays[k]
            if (
                type(array) is not cupy.ndarray
                or array.shape != seat.shape
                or array.data.device_id != self._room.device
            ):
                return False
        return True

    def launch(self, reads: Sequence[Array], stream: Any) -> list[Array]:
        """Run on the current stream, whose turn it is, and return the outputs."""
        if self._seats:
            copy_many(list(self._seats.values()), [reads[k] for k in self._seats])
        self._graph.launch(stream)
        outputs = list(self._outputs)
        if self._copied:
            copies = copies_of([outputs[k] for k in self._copied])
            for k, array in zip(self._copied, copies, strict=True):
                outputs[k] = array
        return outputs


def _record(
    run: Run, made: set[int], inputs: list[Array], variables: list[Array], written: Sequence[int]
) -> tuple[list[Array], list[int]]:
    """Run, and return the outputs and which of them lie in memory of the graph's own."""
    given = {array.data.mem.ptr for array in (*inputs, *variables)}
    outputs, held = run(inputs, list(variables))
    # What lies in a variable's memory must be read before another one is written there.
    targets, sources = [], []
    for at, array in zip(written, held, strict=True):
        target = variables[at]
        if array is target:
            continue
        if array.shape != target.shape or array.dtype != target.dtype:
            raise NotImplementedError(
                f"A variable of {target.dtype}{list(target.shape)} becomes one of {array.dtype}"
                f"{list(array.shape)}, and what is captured cannot change its shape."
            )
        targets.append(target)
        sources.append(copies_of([array])[0] if array.data.mem.ptr in given else array)
    results, ours = _separate(outputs, given, made)
    copy_many(targets, sources)
    return results, ours


def _separate(
    outputs: Sequence[Array], given: set[int], made: set[int]
) -> tuple[list[Array], list[int]]:
    """Give each output memory that it shares with nothing; constants of the program stay."""
    results, taken = list(outputs), set(given)
    ours = []
    for k, array in enumerate(outputs):
        at = array.data.mem.ptr
        if at not in made and at not in given:
            continue
        ours.append(k)
        if at in taken:
            results[k] = copies_of([array])[0]
        else:
            # Without a base, which would be one more that holds the memory.
            results[k] = cupy.ndarray(array.shape, array.dtype, array.data, array.strides)
        taken.add(at)
    return results, ours


def _abandon(stream: Any) -> None:
    """End a capture that failed; where CUDA gave it up itself, it says so once more."""
    with suppress(RuntimeError):
        stream.end_capture()
    if stream.is_capturing():
        _streams.clear()  # the next capture has another stream
