"""Explain a function: the reasons for its recordings and for eager calls."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from tapegrad.program.building import Building
from tapegrad.program.record.signature import changes

MANY_PROGRAMS = 8
"""The number of recordings after which a warning says that the arguments keep changing."""

MOST_RECORDINGS = 100
"""How many recordings a function remembers, the latest ones."""

MOST_REASONS = 20
"""How many reasons for eager calls it remembers, the first ones."""


class RecordingNote:
    """Why a call was recorded, and what became of it."""

    def __init__(self, number: int, reason: str) -> None:
        self.number = number
        self.reason = reason
        self.seconds = 0.0
        """How long the recording took."""
        self._buildings: list[weakref.ref[Building]] = []

    def set_result(self, seconds: float, buildings: Sequence[Building]) -> None:
        """Set how long the recording took, and the programs that come from it."""
        self.seconds = seconds
        self._buildings = [weakref.ref(building) for building in buildings]

    @property
    def state(self) -> str:
        """Whether the programs are "compiled", "being compiled", or why they are not."""
        buildings = [reference() for reference in self._buildings]
        known = [building for building in buildings if building is not None]
        if not buildings:
            return "no program"
        if len(known) < len(buildings):
            return "forgotten"
        error = next((building.error for building in known if building.error is not None), None)
        if error is not None:
            return f"runs unfused: {error!r}"
        if all(building.is_done for building in known):
            return "compiled"
        is_started = any(building.is_started for building in known)
        return "being compiled" if is_started else "for one call"

    @property
    def build_seconds(self) -> float | None:
        """How long the programs took to build, None if they are not ready."""
        if self.state != "compiled":
            return None
        return sum(building.seconds for building in self._programs())

    @property
    def calls(self) -> int | None:
        """The number of recorded calls of primitives, None if the programs are forgotten."""
        found = self._programs()
        return sum(len(building.recorded.calls) for building in found) if found else None

    @property
    def steps(self) -> int | None:
        """The number of steps of the programs, None if they are not ready."""
        if self.state != "compiled":
            return None
        return sum(len(building.program().steps) for building in self._programs())

    def _programs(self) -> list[Building]:
        found = [reference() for reference in self._buildings]
        return [building for building in found if building is not None]


class Explanation:
    """The recordings of a function and its eager calls; printing it shows a table."""

    def __init__(
        self,
        name: str,
        recordings: Sequence[RecordingNote],
        made: Sequence[RecordingNote],
        eager: dict[str, int],
        loops: Sequence[Explanation] = (),
    ) -> None:
        self.name = name
        self.recordings = tuple(recordings)
        self.made = tuple(made)
        """The programs for other sizes that were made from recordings, without the Python code."""
        self.eager_calls = eager
        """How many calls ran eagerly, by reason."""
        self.loops = tuple(loops)
        """Why the rounds of loops over datasets were recorded, for each loop."""

    def __repr__(self) -> str:
        lines = [f"function {self.name!r}"]
        if self.recordings:
            head = ("recording", "because", "recorded in", "state", "built in", "calls", "steps")
            lines += _table([head, *map(_row, (*self.recordings, *self.made))])
        elif not self.loops:
            lines.append("not recorded yet")
        if self.eager_calls:
            rows = [(str(count), reason) for reason, count in self.eager_calls.items()]
            lines += _table([("eager calls", "because"), *rows])
        return "\n".join([*lines, *map(repr, self.loops)])


def _row(note: RecordingNote) -> tuple[str, ...]:
    built, calls, steps = note.build_seconds, note.calls, note.steps
    return (
        str(note.number) if note.number else "none",
        note.reason,
        f"{note.seconds:.3f} s",
        note.state,
        "" if built is None else f"{built:.3f} s",
        "" if calls is None else f"{calls:,}",
        "" if steps is None else f"{steps:,}",
    )


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows]


class History:
    """What a function remembers of its recordings and its eager calls."""

    def __init__(self) -> None:
        self._count = 0
        self._notes: list[RecordingNote] = []
        self._made: list[RecordingNote] = []
        self._eager: dict[str, int] = {}
        self._last: dict[str, str] = {}
        """The description of the arguments of the last recording."""

    def note_recording(
        self, now: dict[str, str], latest: Any, is_second: bool, is_known: bool
    ) -> str:
        """Note that a call is recorded; return a warning, "" if there is none.

        `now` describes the arguments, and `latest` is the last entry with the same key. With
        `is_second` the first call was special, and with `is_known` only the tapes are others.
        """
        self._count += 1
        reason = self._reason(now, latest, is_second, is_known)
        self._notes = [*self._notes[1 - MOST_RECORDINGS :], RecordingNote(self._count, reason)]
        before, self._last = self._last, now
        if self._count != MANY_PROGRAMS:
            return ""
        return (
            f"it was recorded {MANY_PROGRAMS} times because its arguments keep changing: "
            f"{changes(before, now)}. "
            "Python numbers are part of a program: pass them as tensors, and keep shapes equal."
        )

    def _reason(self, now: dict[str, str], latest: Any, is_second: bool, is_known: bool) -> str:
        if self._count == 1:
            return "first call"
        if is_second:
            return "recorded again because the first call drew initial values"
        if latest is not None:
            return latest.guards.change() or "a list or an attribute of an object changed"
        return "a tape tracks other arguments" if is_known else changes(self._last, now)

    def note_buildings(
        self, seconds: float, buildings: Sequence[Building], made_from: str = ""
    ) -> None:
        """Note how long the last recording took, and the programs that come from it.

        If there was none, `made_from` says from which recordings the programs were made.
        """
        note = RecordingNote(0, made_from) if made_from else self._notes[-1]
        note.set_result(seconds, buildings)
        if made_from:
            self._made = [*self._made[1 - MOST_RECORDINGS :], note]

    @property
    def recorded_calls(self) -> int:
        """How many calls were recorded."""
        return self._count

    @property
    def eager_calls(self) -> int:
        """How many calls ran eagerly."""
        return sum(self._eager.values())

    def note_eager(self, reason: str) -> None:
        """Count a call that runs eagerly."""
        if reason in self._eager or len(self._eager) < MOST_REASONS:
            self._eager[reason] = self._eager.get(reason, 0) + 1

    def warning_of(self, reason: str, is_by_rounds: bool) -> str:
        """Return the warning that a call cannot be recorded, "" if the rounds of its loops can."""
        if not is_by_rounds:
            return f"it runs eagerly: {reason}."
        self._count -= 1
        self._notes.pop()
        self.note_eager(reason)
        return ""

    def explanation(self, name: str, loops: Sequence[Explanation] = ()) -> Explanation:
        """Return what is known, as a readable object."""
        return Explanation(name, self._notes, self._made, dict(self._eager), loops)


class Explained:
    """Base class of functions that explain their recordings."""

    _name: Any
    _history: History
    _element_loops: Any

    def explain(self) -> Explanation:
        """Return why the function was recorded and why calls ran eagerly, as a readable table.

        >>> import tapegrad
        >>> double = tapegrad.function(lambda x: x + x, wait=True)
        >>> y = double(tapegrad.ones([2])), double(tapegrad.ones([3]))
        >>> for recording in double.explain().recordings:
        ...     print(recording.reason)
        first call
        argument 'x' was float32[2] and is now float32[3]
        """
        return self._history.explanation(self._name, self._element_loops.explanations())

    def pretty_printed_concrete_signatures(self, verbose: bool = True) -> str:
        """Return `explain()` as text, which lists the recorded signatures."""
        return str(self.explain())
