"""One CUDA graph of a program's run, and the state that all graphs of a program share.

A graph holds addresses of the arrays that it reads. Before a launch they are replaced by those of
the given arrays (moving_inputs.py), so it need not keep arrays alive: the caller holds them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import cupy

from tapegrad.core.gc_pause import gc_paused
from tapegrad.core.ownership import reference_counts
from tapegrad_cupy.graphs.capture_memory import (
    CUDA_ERRORS,
    STATE,
    BlockPlan,
    GraphMemory,
    free_retired,
)
from tapegrad_cupy.graphs.moving_inputs import InputAddresses, Moved, find_places
from tapegrad_cupy.graphs.repeated_calls import collected_calls, repeat
from tapegrad_cupy.kernels.copying.multi_copies import copies_of, copy_many
from tapegrad_cupy.launch.graph_nodes import Node, UnfitError, read_nodes
from tapegrad_cupy.launch.multi_tensors import on_device
from tapegrad_cupy.library_calls import cublaslt
from tapegrad_cupy.runtime.array_references import expected_counts, watched, why_not_counted

Array = Any
Run = Callable[[Sequence[Any], list[Any]], tuple[Sequence[Any], Sequence[Any]]]

_CAPTURE_ERRORS = range(900, 909)
"""The error numbers of operations that a capture does not allow, in the runtime and the driver."""

MOST_COMPARISONS = 32
"""How often a graph is compared with captures for other alignments of its inputs."""


# Shared state

_lock = threading.RLock()
_streams: dict[int, Any] = {}


class GraphSet:
    """The graphs of one program, with their device and the workspace of their products.

    The graphs can share the workspace because no two of them run at once: a launch on another
    stream waits for the last launch. Graphs of other programs may run at the same time. All other
    memory belongs to one graph, because no graph may overwrite the results of another.
    """

    def __init__(self) -> None:
        self.device: int = cupy.cuda.runtime.getDevice()
        self.memory = 0  # the most bytes of one graph ...
        self.inner = 0  # ... and of one graph without its results ...
        self.results = 0  # ... and of the results of one graph
        self.graphs: list[Graph] = []
        self.workspace: Any = None
        self.used_workspace: Any = None
        self._last: Any = None

    @contextmanager
    def capturing(self, allocate: Callable[[int], Any], workspace: Any) -> Iterator[Any]:
        """Switch the current thread to a stream that can be captured, and to an allocator.

        The workspace of products may be None. `used_workspace` is then the one that was allocated.
        """
        with _lock, on_device(self.device):
            stream = _streams.get(self.device)
            if stream is None:
                stream = _streams[self.device] = cupy.cuda.Stream(non_blocking=True)
            cublaslt.exchange_workspace(self.device, stream.ptr, workspace)
            STATE["capturing"] = True
            try:
                with gc_paused, stream, cupy.cuda.using_allocator(allocate):
                    yield stream
            finally:
                STATE["capturing"] = False
                self.used_workspace = cublaslt.exchange_workspace(self.device, stream.ptr, None)

    def take_turn(self) -> Any:
        """Return the current stream; it waits for the last launch if that was on another stream."""
        stream = cupy.cuda.get_current_stream()
        last = self._last
        if last is not stream:
            if last is not None and last.ptr != stream.ptr:
                stream.wait_event(last.record(cupy.cuda.Event(disable_timing=True)))
            self._last = stream
        return stream

    def mark(self) -> tuple[int, int, int, Any]:
        """Return the state that a capture changes, for `back_to`."""
        return self.memory, self.inner, self.results, self.workspace

    def back_to(self, mark: tuple[int, int, int, Any]) -> None:
        """Restore the state before a capture whose graph was deleted, and free its memory."""
        self.memory, self.inner, self.results, self.workspace = mark
        self.used_workspace = None
        free_retired()

    def clear(self) -> None:
        """Delete all graphs and free their memory."""
        self.graphs.clear()
        self.memory = self.inner = self.results = 0
        self.workspace = self.used_workspace = self._last = None
        free_retired()


def graph_set_for(user: object) -> GraphSet:
    """Return a new set of graphs that is cleared when its user is deleted."""
    graph_set = GraphSet()
    weakref.finalize(user, graph_set.clear).atexit = False
    return graph_set


# Errors


def is_refusal(error: Exception) -> bool:
    """Return whether an error says that an operation cannot be captured."""
    if isinstance(error, CUDA_ERRORS):
        return error.status in _CAPTURE_ERRORS
    # CuPy (NotImplementedError, RuntimeError) and this package (TransferError) raise errors with
    # this word before calls of libraries and copies between host and device.
    return isinstance(error, NotImplementedError | RuntimeError) and "captur" in str(error)


def line_of(error: Exception, run: Run) -> int | None:
    """Return the line of `run` in which an error was raised, or None if it was not raised there."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is getattr(run, "__code__", None):
            return trace.tb_lineno
        trace = trace.tb_next
    return None


# Graphs


class ArrayLocation:
    """The address, shape and strides of an array."""

    __slots__ = ("_array", "_device", "_shape", "_strides", "address")

    def __init__(self, array: Array) -> None:
        # A weak reference, because programs that overwrite the array count its references.
        self._array = weakref.ref(array)
        self.address: int = array.data.ptr
        self._shape, self._strides = array.shape, array.strides
        self._device = array.data.device_id

    def matches(self, array: Array) -> bool:
        """Return whether an array has this location."""
        if self._array() is array:
            return True
        if not self.is_like(array) or array.data.ptr != self.address:
            return False
        self._array = weakref.ref(array)
        return True

    def is_like(self, array: Array) -> bool:
        """Return whether an array differs from this location in its address at most."""
        return (
            type(array) is cupy.ndarray
            and array.shape == self._shape
            and array.strides == self._strides
            and array.data.device_id == self._device
        )

    def move_to(self, array: Array) -> None:
        """Change to the location of an array that is like the present one."""
        self._array = weakref.ref(array)
        self.address = array.data.ptr


class Call(NamedTuple):
    """A run of a program and what it gets.

    `reads` are the arrays that are only read: the inputs, then the variables at `read_at`. The
    variables at `written` get new values.
    """

    run: Run
    reads: Sequence[Array]
    variables: Sequence[Array]
    read_at: Sequence[int]
    written: Sequence[int]


class Graph:
    """One capture of a call.

    The reads whose position is in `fixed` are copied to fixed addresses before each launch.
    """

    def __init__(
        self, graph_set: GraphSet, call: Call, fixed: set[int], plan: BlockPlan | None = None
    ) -> None:
        self._graph_set = graph_set
        self._memory = GraphMemory(graph_set.device, plan)
        self._workspace = graph_set.workspace  # None if the capture allocates it
        try:
            with collected_calls() as self._calls:
                self._graph, self._fixed, self._outputs, self._ours = self._captured(
                    call, fixed, self._memory.malloc
                )
        finally:
            graph_set.memory = max(graph_set.memory, int(self._memory.pool.total_bytes()))
            graph_set.workspace = graph_set.used_workspace
        self._locations = {
            k: ArrayLocation(array) for k, array in enumerate(call.reads) if k not in fixed
        }
        self._captured_at = {k: location.address for k, location in self._locations.items()}
        self._inputs: InputAddresses | None = None
        self._comparisons = 0
        results = sum(self._outputs[k].nbytes for k in self._ours)
        inner = int(self._memory.pool.total_bytes()) - results
        graph_set.inner = max(graph_set.inner, inner)
        graph_set.results = max(graph_set.results, results)
        self._handed: list[int] = []
        self._copied = self._ours
        self._watched: list[Any] = []
        self._free: list[int] = []

    def _captured(
        self, call: Call, fixed: Iterable[int], allocate: Callable[[int], Any]
    ) -> tuple[Any, dict[int, Array], list[Array], list[int]]:
        """Capture a call.

        Return the graph, the arrays at fixed addresses, the outputs, and the positions of those in
        the graph's own memory.
        """
        reads = call.reads
        with self._graph_set.capturing(allocate, self._workspace) as stream:
            copies = {k: cupy.ndarray(reads[k].shape, reads[k].dtype) for k in sorted(fixed)}
            captured = [copies.get(k, array) for k, array in enumerate(reads)]
            inputs = captured[: len(captured) - len(call.read_at)]
            given = list(call.variables)
            for at, array in zip(call.read_at, captured[len(inputs) :], strict=True):
                given[at] = array
            stream.begin_capture()
            try:
                outputs, ours = _record(call.run, self._memory.made, inputs, given, call.written)
            except BaseException:
                _abandon(stream)
                raise
            return stream.end_capture(), copies, outputs, ours

    def better_plan(self) -> BlockPlan | None:
        """Return a plan for all memory in one block, if that would save much."""
        return self._memory.better_plan()

    def hand_out(self, smallest: int) -> None:
        """Let launches return outputs of at least `smallest` bytes without a copy.

        Without reference counts all outputs are copied, since nothing tells when one is unused.
        """
        is_handed = [
            not why_not_counted() and self._outputs[k].nbytes >= smallest for k in self._ours
        ]
        self._handed = [k for k, handed in zip(self._ours, is_handed, strict=True) if handed]
        self._copied = [k for k, handed in zip(self._ours, is_handed, strict=True) if not handed]
        outputs = [self._outputs[k] for k in self._handed]
        self._watched = watched(outputs)
        self._free = expected_counts(outputs, [1] * len(outputs), [0] * len(outputs))

    def is_free(self) -> bool:
        """Return whether the outputs that the last launch returned are no longer in use."""
        return reference_counts(self._watched) == self._free

    def adjust(self, arrays: Sequence[Array]) -> bool:
        """Let the next launches read these arrays; return False if the graph cannot.

        Raise UnfitError if the driver refuses, which leaves a graph of no use.
        """
        moved = self.moved(arrays)
        if not moved:
            return moved is not None
        inputs = self._inputs
        if inputs is None or not all([inputs.can_move(k, arrays[k].data.ptr) for k in moved]):
            return False
        inputs.move({k: arrays[k].data.ptr for k in moved})
        for k in moved:
            self._locations[k].move_to(arrays[k])
        return True

    def moved(self, arrays: Sequence[Array]) -> list[int] | None:
        """Return the positions of arrays at other addresses than the graph reads now.

        None means that an array has another shape, other strides, or is on another device.
        """
        found = []
        for k, location in self._locations.items():
            if not location.matches(arrays[k]):
                if not location.is_like(arrays[k]):
                    return None
                found.append(k)
        for k, fixed in self._fixed.items():
            array = arrays[k]
            if (
                type(array) is not cupy.ndarray
                or array.shape != fixed.shape
                or array.data.device_id != self._graph_set.device
            ):
                return None
        return found

    def learn_addresses(self, call: Call) -> list[int]:
        """Find out where the graph holds the addresses of the arrays that this call reads.

        Return the positions of arrays that are cheaper to copy. Raise UnfitError or ChangedError if
        the graph cannot read the arrays where they are, and what a capture raises.
        """
        self._comparisons += 1
        if self._comparisons > MOST_COMPARISONS:
            raise UnfitError("its inputs have too many alignments")
        if self._inputs is None:
            self._inputs = InputAddresses(self._graph.graphExec, read_nodes(self._graph.graph))
        moved = [
            Moved(k, call.reads[k].nbytes, address, call.reads[k].data.ptr)
            for k, address in self._captured_at.items()
            if call.reads[k].data.ptr != address
        ]
        nodes = self._inputs.nodes
        try:
            places = find_places(nodes, self._nodes_of(call), moved)
        except UnfitError:
            reads = list(call.reads)
            for one in moved:
                reads[one.number] = _placed_at(one.before, reads[one.number])
            again = self._nodes_of(call._replace(reads=reads))
            places = find_places(again, self._nodes_of(call), moved, nodes)
        return self._inputs.learn(places, moved)

    def _nodes_of(self, call: Call) -> list[Node]:
        """Capture a call in the memory of this graph, and return its nodes; it never runs."""
        with collected_calls():
            graph, *_ = self._captured(call, self._fixed, self._memory.same_again())
        return read_nodes(graph.graph)

    def launch(self, reads: Sequence[Array], stream: Any) -> list[Array]:
        """Run on the stream that `take_turn` returned, and return the outputs."""
        if self._fixed:
            copy_many(list(self._fixed.values()), [reads[k] for k in self._fixed])
        repeat(self._calls)
        self._graph.launch(stream)
        outputs = list(self._outputs)
        if self._copied:
            copies = copies_of([outputs[k] for k in self._copied])
            for k, array in zip(self._copied, copies, strict=True):
                outputs[k] = array
        return outputs


def _placed_at(address: int, array: Array) -> Array:
    """Return an array like a given one at another address, where there may be no memory."""
    memory = cupy.cuda.UnownedMemory(address, array.nbytes, None, array.data.device_id)
    pointer = cupy.cuda.MemoryPointer(memory, 0)
    return cupy.ndarray(array.shape, array.dtype, pointer, array.strides)


def _record(
    run: Run, made: set[int], inputs: list[Array], variables: list[Array], written: Sequence[int]
) -> tuple[list[Array], list[int]]:
    """Run, and return the outputs and the positions of those in the graph's own memory."""
    given = {array.data.mem.ptr for array in (*inputs, *variables)}
    outputs, held = run(inputs, list(variables))
    # A value in the memory of a variable must be copied before that variable is overwritten.
    targets, sources = [], []
    for at, array in zip(written, held, strict=True):
        target = variables[at]
        if array is target:
            continue
        if array.shape != target.shape or array.dtype != target.dtype:
            raise NotImplementedError(
                f"A variable of {target.dtype}{list(target.shape)} becomes one of {array.dtype}"
                f"{list(array.shape)}, and a captured variable cannot change its shape."
            )
        targets.append(target)
        sources.append(copies_of([array])[0] if array.data.mem.ptr in given else array)
    results, ours = _separate(outputs, given, made)
    copy_many(targets, sources)
    return results, ours


def _separate(
    outputs: Sequence[Array], given: set[int], made: set[int]
) -> tuple[list[Array], list[int]]:
    """Copy outputs that share memory with others; constants of the program are not copied."""
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
            # Without a base, which would be another reference to the memory.
            results[k] = cupy.ndarray(array.shape, array.dtype, array.data, array.strides)
        taken.add(at)
    return results, ours


def _abandon(stream: Any) -> None:
    """End a failed capture; CUDA reports the failure again if it ended the capture itself."""
    with suppress(RuntimeError):
        stream.end_capture()
    if stream.is_capturing():
        _streams.clear()  # the next capture uses another stream
