"""A program as CUDA graphs, so that a whole step costs the host one call.

What a graph reads and writes lies at fixed addresses. Arrays are read where they lie, and once
they come from elsewhere, small ones are copied to fixed places, and for large ones another graph
is captured. Variables are changed in place, unless somebody holds their old arrays. Outputs are
handed out as they are while nobody holds those of the launch before, for which two graphs take
turns, and as copies else.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import cupy

from tapegrad_cupy.capture_graph import Graph, Place, Room, Run, is_refusal, line_of, room_for
from tapegrad_cupy.capture_memory import ChangedError, free_retired, is_out_of_memory
from tapegrad_cupy.ownership import Apart, Owner

Array = Any

SMALL = 1 << 20
"""Bytes up to which arrays are copied to fixed places as soon as they come from elsewhere."""

LITTLE = 64 << 20
"""Bytes of memory, beside its results, up to which a program has several graphs.

They hand out their results in turn. Copies of results would take as much memory as a second graph.
"""

MOST_GRAPHS = 6
"""Graphs of one program that are kept, for inputs and outputs in different places."""

MOST_CAPTURES = 12
"""Captures after which everything is copied in and out, so that one graph fits all calls."""

_NOTHING = sys.maxsize

_current_device = cupy.cuda.runtime.getDevice


class Captured:
    """A program's run; see `capture`.

    `reason` says why it cannot be captured, and is "" if it can; then `refused_at` is the line of
    `run` that was refused, where it is known. `memory` is the number of bytes that its graphs take
    beside the arrays that come in.
    """

    def __init__(self, run: Run, written: Sequence[int], in_place: Sequence[int]) -> None:
        self.reason = ""
        self.refused_at: int | None = None
        self._run = run
        self._written = list(written)
        self._read_at: list[int] = []
        self._overwritten = Owner(in_place)
        self._changed: Owner | Apart = Owner(written)
        self._room: Room | None = None
        self._places: list[Place] = []
        self._fixed: set[int] = set()
        self._captures = 0
        self._warm_in: set[int] = set()
        self._lock = threading.Lock()

    @property
    def memory(self) -> int:
        return 0 if self._room is None else self._room.memory

    @property
    def _graphs(self) -> list[Graph]:
        return [] if self._room is None else self._room.graphs

    def __call__(self, inputs: Sequence[Array], variables: list[Array]) -> Any:
        with self._lock:
            room = self._room
            if self.reason or room is None or _current_device() != room.device:
                return self._launch_by_launch(inputs, variables)
            stream = room.take_turn()
            reads = [*inputs, *[variables[at] for at in self._read_at]]
            if not self._changed.enter(variables):
                room.graphs.clear()
            graph = self._find(room, reads) or self._capture(room, reads, variables)
            if graph is None:
                return self._launch_by_launch(inputs, variables)
            return graph.launch(reads, stream), self._changed.leave()

    def _launch_by_launch(self, inputs: Sequence[Array], variables: list[Array]) -> Any:
        """Run for real; the first time this also compiles kernels and makes plans."""
        self._overwritten.own(variables)
        if self._room is None and not self.reason:
            self._read_at = [at for at in range(len(variables)) if at not in set(self._written)]
            reads = [*inputs, *[variables[at] for at in self._read_at]]
            if _are_here((*reads, *variables), _current_device()):
                self._places = [Place(array) for array in reads]
                self._room = room_for(self)
            del reads
        self._warm_in.add(threading.get_ident())
        return self._run(inputs, variables)

    def _find(self, room: Room, reads: Sequence[Array]) -> Graph | None:
        for graph in room.graphs:
            if graph.is_free() and graph.reads(reads):
                return graph
        return None

    def _capture(self, room: Room, reads: Sequence[Array], variables: list[Array]) -> Graph | None:
        """Return a new graph for these arrays, or None if there can be none now."""
        # Libraries keep handles and plans by thread, and make them outside of captures only.
        is_warm = threading.get_ident() in self._warm_in
        if not is_warm or not _are_here((*reads, *variables), room.device):
            return None
        self._captures += 1
        if self._captures > MOST_CAPTURES + 4:
            self._give_up(room, "Its variables keep changing their shapes.")
            return None
        if self._captures == MOST_CAPTURES:
            self._copy_everything(room, variables)
        self._settle_reads(room, reads)
        smallest = self._smallest_output(room, reads)
        del room.graphs[: max(0, len(room.graphs) + 1 - MOST_GRAPHS)]
        free_retired()
        graph = self._try_to_capture(room, reads, variables)
        if graph is None:
            return None
        self._overwritten.forget()
        graph.hand_out(SMALL + 1 if smallest == 0 and room.inner > LITTLE else smallest)
        room.graphs.append(graph)
        return graph

    def _copy_everything(self, room: Room, variables: list[Array]) -> None:
        """From now on work on arrays that nobody else sees, whatever happens outside."""
        room.graphs.clear()
        self._changed.forget()
        self._changed = Apart(self._written)
        self._changed.enter(variables)

    def _settle_reads(self, room: Room, reads: Sequence[Array]) -> None:
        """Decide what gets a fixed place: what has moved, and is cheaper to copy than to capture.

        A program that takes much memory is captured once more rather than once for each place.
        """
        everything = self._captures >= MOST_CAPTURES
        fixed = {
            k
            for k, (place, array) in enumerate(zip(self._places, reads, strict=True))
            if everything
            or (not place.has(array) and (array.nbytes <= SMALL or room.memory > LITTLE))
        }
        if not fixed <= self._fixed:
            self._fixed |= fixed
            room.graphs.clear()
        self._places = [Place(array) for array in reads]

    def _smallest_output(self, room: Room, reads: Sequence[Array]) -> int:
        """Return from how many bytes on the next graph hands out its outputs as they are."""
        held = [graph for graph in room.graphs if graph.reads(reads)]
        if held and room.inner > LITTLE:
            # Two graphs would be too much, and what this one handed out may be held for long.
            room.graphs[:] = [graph for graph in room.graphs if graph not in held]
            return _NOTHING
        return _NOTHING if len(held) > 1 or self._captures >= MOST_CAPTURES else 0

    def _try_to_capture(
        self, room: Room, reads: Sequence[Array], variables: list[Array]
    ) -> Graph | None:
        why = ""
        for _ in range(2):
            try:
                return self._captured(room, reads, variables)
            except Exception as error:
                if is_out_of_memory(error):
                    why = f"There is no memory for a CUDA graph: {error}"
                elif is_refusal(error):
                    why = f"It cannot be captured as a CUDA graph: {error}"
                    self.refused_at = line_of(error, self._run)
                    break
                else:
                    raise
            # After the error is gone, because it refers to what the capture had made.
            room.clear()
            cupy.get_default_memory_pool().free_all_blocks()
        self._give_up(room, why)
        return None

    def _captured(self, room: Room, reads: Sequence[Array], variables: list[Array]) -> Graph:
        """Capture, and once more if all memory can be planned into much less."""
        given = (room, self._run, reads, variables, self._read_at, self._written, self._fixed)
        mark = room.mark()
        graph = Graph(*given)
        places = graph.better_places()
        if places is None:
            return graph
        del graph  # the memory of both might be too much
        room.back_to(mark)
        with suppress(ChangedError):
            return Graph(*given, places)
        room.back_to(mark)
        return Graph(*given)

    def _give_up(self, room: Room, reason: str) -> None:
        self.reason = reason
        self._changed.forget()
        room.clear()


def _are_here(arrays: Sequence[Array], device: int) -> bool:
    return all([type(a) is cupy.ndarray and a.data.device_id == device for a in arrays])


def capture(run: Run, written: Sequence[int], in_place: Sequence[int]) -> Captured:
    """Return a run that becomes a CUDA graph at its second call.

    `run` takes the arrays of inputs and variables and returns outputs and what the variables at
    the positions `written` hold then. The arrays of those at `in_place`, which are some of them,
    it overwrites; they are copied before if anybody but the variable holds them. Each array must be
    held by its variable and by the list that is passed, which is changed.
    """
    return Captured(run, written, in_place)


KERNELS = {"capture": capture}
