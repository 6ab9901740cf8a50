"""Run a program as CUDA graphs, so that a whole step costs the host one call.

A graph reads arrays at their own addresses. When an array arrives at another address, the graph is
changed to read it there (moving_inputs.py). Where that is impossible or costs more than a copy, the
array is copied to a fixed address if it is small; otherwise another graph is captured. Variables
are overwritten in place unless something else holds their arrays. Outputs are returned without a
copy if those of the last launch are no longer in use. Two graphs alternate to make that likely.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import cupy

from tapegrad.core.warn_once import warn_once
from tapegrad_cupy.graphs.capture_graph import (
    ArrayLocation,
    Call,
    Graph,
    GraphSet,
    Run,
    graph_set_for,
    is_refusal,
    line_of,
)
from tapegrad_cupy.graphs.capture_memory import ChangedError, free_retired, is_out_of_memory
from tapegrad_cupy.graphs.moving_inputs import MOST_COPIED
from tapegrad_cupy.graphs.ownership import OwnedArrays, PrivateCopies
from tapegrad_cupy.launch.graph_nodes import UnfitError
from tapegrad_cupy.runtime.array_references import why_not_counted

Array = Any

SMALL = MOST_COPIED
"""The most bytes of an array that is copied to a fixed address if it cannot move."""

LITTLE = 64 << 20
"""The bytes of memory, without results, that a second graph of any program may take.

Two graphs return their results alternately. If the results take more memory than everything else,
copies of them would need at least half as much memory as a second graph, and time at each call.
"""

MOST_GRAPHS = 6
"""The most graphs of one program that are kept, for different addresses of inputs and outputs."""

MOST_CAPTURES = 12
"""The number of captures after which all arrays are copied, so that one graph fits all calls."""

_NOTHING = sys.maxsize

_current_device = cupy.cuda.runtime.getDevice


class Captured:
    """The run of a program; see `capture`.

    `reason` says why it cannot be captured, and is "" if it can. `refused_at` is the line of `run`
    that cannot be captured, if it is known. `memory` is the bytes that its graphs take in addition
    to the given arrays. `why_copied` says why inputs that move are copied, and is "" if they are
    not or if that is cheaper.
    """

    def __init__(self, run: Run, written: Sequence[int], in_place: Sequence[int]) -> None:
        self.reason = ""
        self.refused_at: int | None = None
        self.why_copied = ""
        self._run = run
        self._written = list(written)
        self._read_at: list[int] = []
        self._overwritten = OwnedArrays(in_place)
        # Without reference counts nothing may be overwritten in place.
        self._changed: OwnedArrays | PrivateCopies = (
            PrivateCopies(written) if why_not_counted() else OwnedArrays(written)
        )
        self._graph_set: GraphSet | None = None
        self._locations: list[ArrayLocation] = []
        self._fixed: set[int] = set()
        self._unmovable: set[int] = set()
        self._captures = 0
        self._warm_in: set[int] = set()
        self._lock = threading.Lock()

    @property
    def memory(self) -> int:
        return 0 if self._graph_set is None else self._graph_set.memory

    @property
    def _graphs(self) -> list[Graph]:
        return [] if self._graph_set is None else self._graph_set.graphs

    def __call__(self, inputs: Sequence[Array], variables: list[Array]) -> Any:
        with self._lock:
            graph_set = self._graph_set
            if self.reason or graph_set is None or _current_device() != graph_set.device:
                return self._launch_by_launch(inputs, variables)
            stream = graph_set.take_turn()
            reads = [*inputs, *[variables[at] for at in self._read_at]]
            if not self._changed.enter(variables):
                graph_set.graphs.clear()
            graph = (
                self._find(graph_set, reads)
                or self._adapt(graph_set, reads, variables)
                or self._capture(graph_set, reads, variables)
            )
            if graph is None:
                return self._launch_by_launch(inputs, variables)
            return graph.launch(reads, stream), self._changed.leave()

    def _launch_by_launch(self, inputs: Sequence[Array], variables: list[Array]) -> Any:
        """Run without a graph; the first run also compiles kernels and makes plans."""
        self._overwritten.own(variables)
        if self._graph_set is None and not self.reason:
            self._read_at = [at for at in range(len(variables)) if at not in set(self._written)]
            reads = [*inputs, *[variables[at] for at in self._read_at]]
            if _are_here((*reads, *variables), _current_device()):
                self._locations = [ArrayLocation(array) for array in reads]
                self._graph_set = graph_set_for(self)
            del reads
        self._warm_in.add(threading.get_ident())
        return self._run(inputs, variables)

    def _find(self, graph_set: GraphSet, reads: Sequence[Array]) -> Graph | None:
        for graph in graph_set.graphs:
            try:
                if graph.is_free() and graph.adjust(reads):
                    return graph
            except UnfitError:
                graph_set.graphs.remove(graph)
                return None
        return None

    def _adapt(
        self, graph_set: GraphSet, reads: Sequence[Array], variables: list[Array]
    ) -> Graph | None:
        """Return a graph that was changed to read these arrays, or None if that is impossible."""
        if not self._can_capture(graph_set, reads, variables):
            return None
        call = Call(self._run, reads, variables, self._read_at, self._written)
        for graph in graph_set.graphs:
            moved = graph.moved(reads) if graph.is_free() else None
            if moved is None or not self._unmovable.isdisjoint(moved):
                continue
            try:
                costly = graph.learn_addresses(call)
            except Exception as error:
                is_known = isinstance(error, UnfitError | ChangedError)
                if not (is_known or is_refusal(error) or is_out_of_memory(error)):
                    raise
                self.why_copied = str(error) or type(error).__name__
                self._unmovable.update(moved)
                continue
            if not costly:
                break
            self._unmovable.update(costly)
        return self._find(graph_set, reads)

    def _can_capture(
        self, graph_set: GraphSet, reads: Sequence[Array], variables: list[Array]
    ) -> bool:
        # Libraries keep handles and plans per thread, and create them only outside of captures.
        is_warm = threading.get_ident() in self._warm_in
        return is_warm and _are_here((*reads, *variables), graph_set.device)

    def _capture(
        self, graph_set: GraphSet, reads: Sequence[Array], variables: list[Array]
    ) -> Graph | None:
        """Return a new graph for these arrays, or None if they cannot be captured now."""
        if not self._can_capture(graph_set, reads, variables):
            return None
        self._captures += 1
        if self._captures > MOST_CAPTURES + 4:
            self._give_up(graph_set, "Its variables keep changing their shapes.")
            return None
        if self._captures == MOST_CAPTURES:
            self._copy_everything(graph_set, variables)
        self._settle_reads(graph_set, reads)
        smallest = self._smallest_output(graph_set, reads)
        del graph_set.graphs[: max(0, len(graph_set.graphs) + 1 - MOST_GRAPHS)]
        free_retired()
        graph = self._try_to_capture(graph_set, reads, variables)
        if graph is None:
            return None
        self._overwritten.forget()
        graph.hand_out(SMALL + 1 if smallest == 0 and _is_large(graph_set) else smallest)
        graph_set.graphs.append(graph)
        return graph

    def _copy_everything(self, graph_set: GraphSet, variables: list[Array]) -> None:
        """Use private copies of all arrays from now on."""
        graph_set.graphs.clear()
        self._changed.forget()
        self._changed = PrivateCopies(self._written)
        self._changed.enter(variables)

    def _settle_reads(self, graph_set: GraphSet, reads: Sequence[Array]) -> None:
        """Choose the arrays that get a fixed address: those that cannot move and are cheap to copy.

        A program that takes much memory copies all arrays that cannot move, since every graph takes
        that memory again.
        """
        everything = self._captures >= MOST_CAPTURES
        fixed = {
            k
            for k, (location, array) in enumerate(zip(self._locations, reads, strict=True))
            if everything
            or (
                k in self._unmovable
                and not location.matches(array)
                and (array.nbytes <= SMALL or graph_set.memory > LITTLE)
            )
        }
        if not fixed <= self._fixed:
            self._fixed |= fixed
            graph_set.graphs.clear()
        self._locations = [ArrayLocation(array) for array in reads]

    def _smallest_output(self, graph_set: GraphSet, reads: Sequence[Array]) -> int:
        """Return the least bytes of an output that the next graph returns without a copy."""
        held = [graph for graph in graph_set.graphs if self._could_read(graph, reads)]
        if held and _is_large(graph_set):
            # Two graphs would take too much memory, and this one's outputs may be held for long.
            graph_set.graphs[:] = [graph for graph in graph_set.graphs if graph not in held]
            return _NOTHING
        return _NOTHING if len(held) > 1 or self._captures >= MOST_CAPTURES else 0

    def _could_read(self, graph: Graph, reads: Sequence[Array]) -> bool:
        """Return whether a graph can read these arrays, or probably can after a change."""
        moved = graph.moved(reads)
        return moved is not None and self._unmovable.isdisjoint(moved)

    def _try_to_capture(
        self, graph_set: GraphSet, reads: Sequence[Array], variables: list[Array]
    ) -> Graph | None:
        why = ""
        for _ in range(2):
            try:
                return self._captured(graph_set, reads, variables)
            except Exception as error:
                if is_out_of_memory(error):
                    why = f"There is no memory for a CUDA graph: {error}"
                elif is_refusal(error):
                    why = f"It cannot be captured as a CUDA graph: {error}"
                    self.refused_at = line_of(error, self._run)
                    break
                else:
                    raise
            # Outside of the handler, because the error refers to arrays of the capture.
            graph_set.clear()
            cupy.get_default_memory_pool().free_all_blocks()
        if self.refused_at is None:  # otherwise the program is split there, and the rest captured
            warn_once(
                "A recorded function could not become a CUDA graph, so it runs launch by launch, "
                "which gives the same results more slowly.",
                why,
            )
        self._give_up(graph_set, why)
        return None

    def _captured(
        self, graph_set: GraphSet, reads: Sequence[Array], variables: list[Array]
    ) -> Graph:
        """Capture, and capture again if a plan for all memory would save much."""
        call = Call(self._run, reads, variables, self._read_at, self._written)
        mark = graph_set.mark()
        graph = Graph(graph_set, call, self._fixed)
        plan = graph.better_plan()
        if plan is None:
            return graph
        del graph  # both graphs together might take too much memory
        graph_set.back_to(mark)
        with suppress(ChangedError):
            return Graph(graph_set, call, self._fixed, plan)
        graph_set.back_to(mark)
        return Graph(graph_set, call, self._fixed)

    def _give_up(self, graph_set: GraphSet, reason: str) -> None:
        self.reason = reason
        self._changed.forget()
        graph_set.clear()


def _is_large(graph_set: GraphSet) -> bool:
    """Return whether a second graph would take too much memory."""
    return graph_set.inner > max(LITTLE, graph_set.results)


def _are_here(arrays: Sequence[Array], device: int) -> bool:
    return all([type(a) is cupy.ndarray and a.data.device_id == device for a in arrays])


def capture(run: Run, written: Sequence[int], in_place: Sequence[int]) -> Captured:
    """Return a run that becomes a CUDA graph at its second call.

    `run` takes the arrays of inputs and variables, and returns the outputs and the new arrays of
    the variables at the positions `written`. It overwrites the arrays of the variables at
    `in_place`, a subset of them; an array that something else holds is copied first. Each array
    must be held by its variable and by the list that is passed, which is changed.
    """
    return Captured(run, written, in_place)


class CudaGraphCapture:
    """Captures the run of a program as CUDA graphs."""

    launches_graphs = True
    capture = staticmethod(capture)
