"""Groups of calls that make several passes over their rows.

A reduction along neighbouring axes makes one value per row. Calls that read this value for every
element of its row, or once per row, may run in the same loop. It passes over a row once to reduce
it and once more to use the result, while the row is in a cache or in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from tapegrad.program.graph.graph import Call, Shape, Value
from tapegrad.program.graph.iteration_spaces import rows_of, space_of
from tapegrad.program.graph.windows import Windowed

Seen = Shape | Windowed
"""How a loop reads a value: its shape among the axes of the space, or where it is elsewhere."""

TakesStages = Callable[[int, int, int], bool]
"""Whether a loop may make several passes over so many rows of a length.

The elements of a row are as far apart as the third number says.
"""


def without_stages(rows: int, length: int, stride: int) -> bool:
    """No loop makes several passes."""
    return False


class Form(NamedTuple):
    """The iteration space of a group, the reduced axes, and whether the group reads the results."""

    space: Shape
    axes: tuple[int, ...] = ()
    has_stages: bool = False

    @property
    def row(self) -> Shape:
        """How elements see a value of their row.

        >>> Form((8, 5), (1,)).row
        (8, 1)
        """
        return tuple(1 if axis in self.axes else n for axis, n in enumerate(self.space))

    @property
    def rows(self) -> Shape:
        """The iteration space of calls that run once per row.

        >>> Form((8, 5), (1,)).rows
        (8,)
        """
        return tuple(n for axis, n in enumerate(self.space) if axis not in self.axes)

    def is_per_row(self, call: Call, combines: bool) -> bool:
        """Whether a call of the group makes one value per row."""
        return combines or space_of(call.results[0].shape) != self.space


class Calls(Protocol):
    """What is known of the calls of a graph, by their positions."""

    places: dict[int, int]
    combines: list[bool]
    axes: list[tuple[int, ...]]
    spaces: list[Shape]

    def reads_of(self, place: int) -> list[tuple[Value, Seen]]: ...


def form_of(calls: Calls, members: Sequence[int], takes_stages: TakesStages) -> Form | None:
    """Return the form of a group, None if its calls cannot be one loop."""
    reduced = {
        Form(calls.spaces[place], calls.axes[place]) for place in members if calls.combines[place]
    }
    if not reduced:
        spaces = {calls.spaces[place] for place in members}
        return Form(spaces.pop()) if len(spaces) == 1 else None
    if len(reduced) > 1:
        return None
    form = reduced.pop()
    own, has_stages = set(members), False
    for place in members:
        levels = _levels(calls, place, own, form)
        if levels is None:
            return None
        has_stages = has_stages or levels
    if has_stages and not can_have_stages(form, takes_stages):
        return None
    return form._replace(has_stages=has_stages)


def _levels(calls: Calls, place: int, own: set[int], form: Form) -> bool | None:
    """Whether a call runs or reads values once per row; None if it cannot be in the group."""
    is_per_row = calls.spaces[place] != form.space
    if is_per_row and (calls.combines[place] or calls.spaces[place] != form.rows):
        return None
    found = is_per_row
    for value, seen in calls.reads_of(place):
        maker = calls.places.get(value.number)
        if maker is None or maker not in own:
            continue
        if calls.combines[maker] or calls.spaces[maker] != form.space:
            found = True
            wanted = form.rows if is_per_row else form.row
        else:
            wanted = form.space
        if seen != wanted:
            return None
    return found


def can_have_stages(form: Form, takes_stages: TakesStages) -> bool:
    """Whether a loop may pass over the rows of a form several times: their axes are neighbours."""
    found = rows_of(form.space, form.axes)
    return found is not None and takes_stages(*found)


def continues(calls: Calls, maker: int, place: int, seen: Seen, takes_stages: TakesStages) -> bool:
    """Whether a call that reads a reduced value may be in the loop that reduces it."""
    form = Form(calls.spaces[maker], calls.axes[maker])
    space = calls.spaces[place]
    if space == form.space:
        fits = seen == form.row
    else:
        fits = space == form.rows and seen == form.rows and not calls.combines[place]
    return fits and can_have_stages(form, takes_stages)
