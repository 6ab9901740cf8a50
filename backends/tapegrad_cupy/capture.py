"""A sequence of launches as one CUDA graph, so that a whole step costs the host one call.

What a graph reads and writes lies at fixed addresses. Small inputs are copied to places of their
own; large ones are read where they lie, and another graph is captured when they come from
elsewhere. Variables are changed in place, unless somebody holds their old arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

import cupy

from tapegrad_cupy.copies import contiguous_copy, copy_into
from tapegrad_cupy.products import cublaslt

Array = Any
Run = Callable[[Sequence[Any], Sequence[Any]], tuple[tuple[Any, ...], tuple[Any, ...]]]

SMALL = 1 << 20
"""Bytes up to which inputs are copied in and outputs are copied out."""

MOST_GRAPHS = 3
"""Graphs of one program that are kept, for inputs and outputs in different places."""

MOST_CAPTURES = 12
"""Captures after which a program is run launch by launch: its arrays never stay where they are."""


class Captured:
    """A program's run; `written` are the positions of the variables that it changes.

    Called with the arrays of inputs and variables, it returns outputs and the arrays that hold the
    written variables then.
    """

    def __init__(self, run: Run, written: Sequence[int]) -> None:
        self._run = run
        self._written = list(written)
        self._held: list[Any] = []
        self._graphs: list[_Graph] = []
        self._captures = 0
        self._is_warm = False

    def __call__(self, inputs: Sequence[Any], variables: Sequence[Any]) -> Any:
        if self._captures >= MOST_CAPTURES or not _are_here((*inputs, *variables)):
            return self._run(inputs, variables)
        if not self._is_warm:  # kernels are compiled, plans are made
            self._is_warm = True
            return self._run(inputs, variables)
        if _references(self._held) == _counts(len(self._held), 3):
            for graph in self._graphs:
                if graph.fits(inputs, variables):
                    return graph.launch(inputs), self._held
        found = self._capture(inputs, list(variables))
        if found is None:
            return self._run(inputs, variables)
        return found.launch(inputs), self._held

    def _capture(self, inputs: Sequence[Any], variables: list[Any]) -> _Graph | None:
        """Capture with arrays of our own for the written variables; None if it cannot be done."""
        self._captures += 1
        if len(self._graphs) >= MOST_GRAPHS:
            del self._graphs[0]
        alone = _references(self._held) == _counts(len(self._held), 3)
        same = alone and all(
            variables[position] is array for position, array in zip(self._written, self._held)
        )
        if not same or not self._held:
            self._held = [contiguous_copy(variables[position]) for position in self._written]
        for position, array in zip(self._written, self._held):
            variables[position] = array
        try:
            graph = _Graph(self._run, inputs, variables, self._written)
        except Exception:  # whatever cannot be captured runs as it did before
            self._captures = MOST_CAPTURES
            return None
        self._graphs.append(graph)
        return graph


class _Graph:
    """One capture, with everything that its addresses belong to."""

    def __init__(
        self, run: Run, inputs: Sequence[Any], variables: list[Any], written: list[int]
    ) -> None:
        self._pool = cupy.cuda.MemoryPool()
        self._stream = cupy.cuda.Stream(non_blocking=True)
        cublaslt.workspace_of(cupy.cuda.runtime.getDevice(), self._stream.ptr)
        self._places = [array.data.ptr for array in variables]
        # Those that are only read stay alive with the graph, or their memory would be used again.
        self._read = [a for k, a in enumerate(variables) if k not in set(written)]
        with self._stream, cupy.cuda.using_allocator(self._pool.malloc):
            self._inputs = [_fixed(array) for array in inputs]
            self._stream.begin_capture()
            try:
                self._outputs = self._record(run, variables, written)
            finally:
                self._graph = self._stream.end_capture()
        self._large = [array for array in self._outputs if array.nbytes > SMALL]

    def _record(self, run: Run, variables: list[Any], written: list[int]) -> list[Any]:
        outputs, held = run(self._inputs, variables)
        given = {array.data.mem.ptr for array in (*self._inputs, *variables)}
        apart = [_apart(array, given) for array in outputs]
        # What lies in a variable's memory must be read before another one is written there.
        staged = [_apart(array, given) for array in held]
        for position, array in zip(written, staged):
            if array.size:
                copy_into(variables[position], array)
        return apart

    def fits(self, inputs: Sequence[Any], variables: Sequence[Any]) -> bool:
        """Whether all arrays are where the graph has them, and its last outputs are forgotten."""
        for array, place in zip(variables, self._places):
            if array.data.ptr != place:
                return False
        for array, fixed in zip(inputs, self._inputs):
            if array.nbytes > SMALL and array.data.ptr != fixed.data.ptr:
                return False
        return _references(self._large) == _counts(len(self._large), 2)

    def launch(self, inputs: Sequence[Any]) -> list[Any]:
        """Run the graph on the current stream and return its outputs."""
        for array, fixed in zip(inputs, self._inputs):
            if array is not fixed and array.size:
                copy_into(fixed, array)
        self._graph.launch(cupy.cuda.get_current_stream())
        return [a if a.nbytes > SMALL else contiguous_copy(a) for a in self._outputs]


def _fixed(array: Array) -> Array:
    """Where the graph reads an input: a place of its own, or for large ones where they lie."""
    return array if array.nbytes > SMALL else cupy.ndarray(array.shape, array.dtype)


def _apart(array: Array, given: set[int]) -> Array:
    """An array that shares no memory with inputs and variables."""
    return contiguous_copy(array) if array.data.mem.ptr in given else array


def _are_here(arrays: Sequence[Any]) -> bool:
    here = cupy.cuda.runtime.getDevice()
    return all([type(a) is cupy.ndarray and a.data.device_id == here for a in arrays])


def _references(arrays: list[Any]) -> list[int]:
    """Reference counts of arrays, their pointers and their memory: who sees values holds one."""
    pointers = [array.data for array in arrays]
    memories = [pointer.mem for pointer in pointers]
    return [*map(getrefcount, arrays), *map(getrefcount, pointers), *map(getrefcount, memories)]


def _counts(length: int, holders: int) -> list[int]:
    """The counts of arrays that so many lists or variables hold, and nobody else.

    Python's versions count differently, so it is tried out.
    """
    one = [cupy.ndarray((1,), cupy.uint8)]
    others = [list(one) for _ in range(holders - 1)]
    counts = _references(one)
    assert len(others) == holders - 1  # which keeps them until here
    return [counts[0]] * length + [counts[1]] * length + [counts[2]] * length


def capture(run: Run, written: Sequence[int]) -> Run:
    """Return a run that becomes a CUDA graph at its third call."""
    return Captured(run, written)


KERNELS: dict[str, Callable[..., Any]] = {"capture": capture}
