"""Run a program once: all variables that it writes change together, after everything else worked.

A program computes without a lock. Its last act is one call in C, which overwrites the arrays that
nothing else holds and replaces the others. If there are other threads, that call first checks that
none of them has assigned to the variables or overwritten them meanwhile, or holds such an array. If
one has, nothing has changed, and the program runs again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import chain, count, repeat, starmap
from operator import call, is_not
from typing import Any

from tapegrad.core.backend.protocol import Array
from tapegrad.core.commit import (
    array_of,
    arrays_of,
    deferring_signals,
    note_overwriting,
    remove_array,
    set_array,
    store,
)
from tapegrad.core.update_lock import other_threads, updating, withheld
from tapegrad.core.values.variable import Variable
from tapegrad.program.record.effects import silence

_ARRAY = repeat("array")

PATIENCE = 4
"""How often a program runs while other threads assign to its variables, before they must wait."""


class UnfitError(Exception):
    """The arrays of a deferred write do not fit its loop; it never leaves the package."""

    def __init__(self, position: int) -> None:
        self.position = position
        super().__init__(f"The arrays of write {position} do not fit.")


class Replay:
    """Runs a program that overwrites no variable before it commits, and returns its outputs.

    `written` has the variables in the order in which the run returns their arrays. If the run is a
    `DeferredRun`, all but the first `replaced` of them are overwritten in place.
    """

    __slots__ = ("_defers", "_read", "_replaced", "_run", "_written")

    def __init__(
        self,
        run: Any,
        read: Sequence[Variable],
        written: Sequence[Variable],
        replaced: int,
        defers: bool,
    ) -> None:
        self._run = run
        self._read = list(read)
        self._written = list(written)
        self._replaced = list(written[:replaced])
        self._defers = defers

    def __call__(self, inputs: Sequence[Array]) -> Sequence[Array]:
        if other_threads():
            return self._among_threads(inputs)
        arrays = [variable.array for variable in self._read]
        if not self._defers:
            outputs, held = self._run(inputs, arrays)
            store(self._written, held)
            return outputs  # type: ignore[no-any-return]
        (outputs, held, writes, checks), moved = self._run.prepare(inputs, arrays, False)
        replaced = self._written if moved else self._replaced
        # No instruction of Python runs in `any`, so no interrupt comes between the writes. A write
        # that does not fit changes nothing; several are checked first.
        if replaced:
            changed = map(setattr, replaced, _ARRAY, held)
            failed = any(chain(starmap(call, (*checks, *writes)), changed))
        else:
            failed = any(starmap(call, (*checks, *writes)))
        if failed:
            raise UnfitError(_unfit(writes))
        return outputs  # type: ignore[no-any-return]

    def _among_threads(self, inputs: Sequence[Array]) -> Sequence[Array]:
        outputs = self._attempt(inputs, False)
        if outputs is not None:
            return outputs
        for attempt in count(1):
            with silence():  # the first attempt had the effects
                if attempt < PATIENCE:
                    outputs = self._attempt(inputs, attempt > 1)
                else:
                    with updating:
                        outputs = self._attempt(inputs, True)
            if outputs is not None:
                break
        assert outputs is not None
        return outputs

    def _attempt(self, inputs: Sequence[Array], anew: bool) -> Sequence[Array] | None:
        """Run; return None if another thread has assigned to a variable or holds an array."""
        seen = [variable.overwritten for variable in self._read]
        arrays = arrays_of(self._read)
        if self._defers:
            (outputs, held, writes, checks), _ = self._run.prepare(inputs, arrays, anew)
            alone = () if anew else self._run.watch(held, writes, checks)
        else:
            outputs, held = self._run(inputs, arrays)
            writes = checks = alone = ()
        steps = chain(
            map(is_not, map(array_of, self._read), arrays),
            alone,
            starmap(call, checks),
            starmap(call, writes),
            map(set_array, self._written, held),
        )
        with updating:
            if seen != [variable.overwritten for variable in self._read]:
                return None
            failed = next(filter(None, steps), None)
            if writes and failed is None:
                note_overwriting(self._written)
        if failed is None:
            return outputs  # type: ignore[no-any-return]
        if failed is True:
            return None
        raise UnfitError(_unfit(writes))


def _unfit(writes: Sequence[tuple[Any, ...]]) -> int:
    return next(k for k, (write, *given) in enumerate(writes) if write(*given, None))


class Reading:
    """Runs a program that writes no variable, on values of one moment."""

    __slots__ = ("_read", "_run")

    def __init__(self, run: Any, read: Sequence[Variable]) -> None:
        self._run = run
        self._read = list(read)

    def __call__(self, inputs: Sequence[Array]) -> Sequence[Array]:
        if other_threads():
            return self._run(inputs, arrays_of(self._read))[0]  # type: ignore[no-any-return]
        return self._run(inputs, [v.array for v in self._read])[0]  # type: ignore[no-any-return]


class Launching:
    """Runs a program that launches kernels which write in place, and stores the other arrays.

    Other threads that read a variable meanwhile wait for the launch. Otherwise one could take an
    array as a snapshot after the program has found that nothing else holds it.
    """

    __slots__ = ("_read", "_run", "_written")

    def __init__(self, run: Any, read: Sequence[Variable], written: Sequence[Variable]) -> None:
        self._run = run
        self._read = list(read)
        self._written = list(written)

    def __call__(self, inputs: Sequence[Array]) -> Sequence[Array]:
        with updating, deferring_signals():
            arrays = arrays_of(self._read)
            if other_threads() and not withheld:
                return self._among_threads(inputs, arrays)
            outputs, held = self._run(inputs, arrays)
            store(self._written, held)
        return outputs  # type: ignore[no-any-return]

    def _among_threads(self, inputs: Sequence[Array], arrays: list[Array]) -> Sequence[Array]:
        # One known holder of each array, as the run expects it: `withheld` instead of the variable.
        withheld.update(zip([variable.number for variable in self._read], arrays, strict=True))
        held: Sequence[Array] = ()
        try:
            deque(map(remove_array, self._read), 0)
            outputs, held = self._run(inputs, arrays)
        finally:
            back = map(set_array, self._read, withheld.values())
            deque(chain(back, map(set_array, self._written, held)), 0)
            withheld.clear()
            note_overwriting(self._written)
        return outputs  # type: ignore[no-any-return]
