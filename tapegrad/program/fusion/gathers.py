"""Choose the gathers that loops compute themselves instead of reading stored rows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import prod

from tapegrad.program.graph.graph import Call, Graph
from tapegrad.program.graph.iteration_spaces import is_view
from tapegrad.program.graph.windows import GATHERS

CACHED = 32 << 20
"""The most bytes of a table that a cache of the device holds."""

SECTOR = 32
"""The bytes that are read from memory at least; shorter rows waste the rest."""

MOST_READERS = 16
"""How many calls may read the rows of one gather through its index array."""

MOST_OF_SHORT_ROWS = 4
"""The same for rows that are shorter than a sector: each reader reads the longer index again."""


Gathers = Callable[[int], bool]
"""Whether loops should read by index in a table of so many bytes."""


def from_any_table(nbytes: int) -> bool:
    """Loops read by index in tables of all sizes."""
    return True


def gathered_in_loops(
    graph: Graph,
    windows: Collection[str],
    is_fusible: Callable[[int], bool],
    gathers: Gathers = from_any_table,
) -> set[int]:
    """Return the numbers of the values that loops gather.

    All readers of such a value are loops, so that its rows are never stored. Reading a row again
    costs about as much as reading a copy of it, unless rows are short and far apart.
    """
    found = {
        call.results[0].number: call
        for call in graph.calls
        if call.primitive.name in GATHERS and call.primitive.name in windows
        if gathers(call.reads[0].nbytes)
    }
    if not found:
        return set()
    readers: dict[int, int] = dict.fromkeys(found, 0)
    stored = {value.number for value in graph.results}
    shown: dict[int, int] = {}
    for place, call in enumerate(graph.calls):
        made = call.results[0].number if call.results else None
        for value in call.reads:
            number = shown.get(value.number, value.number)
            is_table = made in found and value is call.reads[0]
            if is_fusible(place) or is_table:
                readers[number] = readers.get(number, 0) + 1
            elif made is not None and is_view(call):
                shown[made] = number
            else:
                stored.add(number)
    stored |= {number for view, number in shown.items() if view in stored}
    return {
        number
        for number, call in found.items()
        if number not in stored and readers[number] > 0 and _is_cheap(call, readers[number])
    }


def _is_cheap(call: Call, readers: int) -> bool:
    """Whether loops may read the rows of a gather, perhaps several times."""
    if readers == 1:
        return True
    table, axis = call.reads[0], call.params.get("axis", 0)
    row = prod(table.shape[axis + 1 :]) * table.dtype.itemsize
    if row >= SECTOR:
        return readers <= MOST_READERS
    return readers <= MOST_OF_SHORT_ROWS and table.nbytes <= CACHED
