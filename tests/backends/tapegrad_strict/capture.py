"""Programs that overwrite variables: each run works on copies of their arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad_strict.namespace import pack, unpack


class CopyingCapture:
    """Passes copies of the arrays that a program overwrites, so that no other holder sees it."""

    launches_graphs = False

    def capture(self, run: Any, written: Sequence[int], in_place: Sequence[int]) -> Any:
        if not in_place:
            return run
        overwritten = frozenset(in_place)

        def on_copies(inputs: Sequence[Any], variables: list[Any]) -> Any:
            arrays = [
                pack(unpack(array).copy()) if position in overwritten else array
                for position, array in enumerate(variables)
            ]
            return run(inputs, arrays)

        return on_copies
