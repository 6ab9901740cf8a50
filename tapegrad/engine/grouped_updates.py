"""Optimizer steps of many variables in one launch.

Variables with a dense gradient, one device and one dtype form a group if their backend has
`GroupedUpdates`. Other variables, sparse gradients and optimizers that define `update` take one
step per variable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple, Protocol

from tapegrad.core.backend.optional_parts import GroupKernel
from tapegrad.core.backend.protocol import Array
from tapegrad.core.backend.registry import backend_of, capabilities_of
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.engine.switch import is_on


class StepScalars(Protocol):
    """The numbers that all variables of a step share, as arrays on their device."""

    @property
    def rate(self) -> Array:
        """The learning rate."""

    @property
    def step(self) -> Array:
        """The number of this step, from 1."""

    @property
    def further(self) -> tuple[Array, ...]:
        """Other numbers that the update rule reads."""


class Group:
    """Variables that one call updates, with their positions among the pairs of a step.

    `places` are all variables that change: the parameters, their slots, their averages.
    """

    __slots__ = (
        "averaged",
        "constrained",
        "decayed",
        "device",
        "kernel",
        "places",
        "positions",
        "variables",
    )

    def __init__(
        self,
        positions: list[int],
        variables: list[Variable],
        places: list[Variable],
        kernel: GroupKernel,
        decayed: int,
        averaged: bool,
    ) -> None:
        self.positions = positions
        self.variables = variables
        self.places = places
        self.kernel = kernel
        self.decayed = decayed
        self.averaged = averaged
        self.constrained = [variable for variable in variables if variable.constraint]
        self.device = variables[0].device

    def updated(
        self,
        gradients: Sequence[Any],
        scalars: StepScalars,
        params: Mapping[str, Any],
        amount: float,
        share: float,
        factor: Array,
    ) -> tuple[list[Variable], list[Array]]:
        """Make the step of all variables; if memory runs out, none has changed.

        Returns the variables that get another array, and those arrays.
        """
        places = self.places
        arrays = [place.array for place in places]
        others = {"further": scalars.further} if scalars.further else {}
        new = self.kernel(
            arrays,
            [gradients[position].array for position in self.positions],
            scalars.rate,
            scalars.step,
            params,
            amount=amount,
            decayed=self.decayed if amount else 0,
            share=share,
            factor=factor,
            **others,
        )
        return ([], []) if new is arrays else (places, new)

    def factor(self, gradients: Sequence[Any], limit: float) -> Array:
        """Return the factor that clips the gradients by their global norm."""
        arrays = [gradients[position].array for position in self.positions]
        return self.kernel.factor(arrays, limit)

    def variables_to_finish(self, has_averages: bool) -> Sequence[Variable]:
        """Return the variables whose constraint or average is applied one by one after a step."""
        if has_averages and not self.averaged:
            return self.variables
        return self.constrained


BATCH = 1 << 24
"""The most bytes of old and new arrays of single variables that a step keeps at the same time."""


class Batch(NamedTuple):
    """Single variables that are computed one by one and stored together."""

    singles: list[tuple[int, str]]
    """Positions and devices."""
    places: list[Variable] | None
    """The variables, each with its slots behind it; None if one has a constraint."""


class UpdatePlan:
    """How the pairs of a step are updated: in groups, and singly with the device of each.

    `batches` are the singles in parts of limited size.
    """

    __slots__ = ("batches", "can_fail", "devices", "groups", "is_one_group", "key", "singles")

    def __init__(
        self,
        key: tuple[Any, ...],
        groups: list[Group],
        singles: list[tuple[int, str]],
        batches: list[Batch],
    ) -> None:
        self.key = key
        self.can_fail = False
        """Whether a step runs code of the user, which may raise an error in the middle of it."""
        self.groups = groups
        self.singles = singles
        self.batches = batches
        self.is_one_group = len(groups) == 1 and not singles
        self.devices = {*[group.device for group in groups], *[device for _, device in singles]}


def key_of(pairs: Sequence[tuple[Any, Variable]]) -> tuple[Any, ...]:
    """Return what a plan depends on: the array type, the variables, which gradients are dense.

    While a function is recorded, the array type is another one: there are no groups then.
    """
    array_type = type(pairs[0][1].array)
    return (array_type, *[v.number if type(g) is Tensor else -v.number for g, v in pairs])


def make_plan(
    pairs: Sequence[tuple[Any, Variable]],
    name: str | None,
    slots_of: Callable[[Variable], list[Variable]],
    averages: Mapping[int, Variable],
    without_decay: Container[int],
) -> UpdatePlan:
    """Sort pairs into groups for the update primitive `name`; None if it cannot be grouped."""
    uses = Counter([variable.number for _, variable in pairs])
    members: dict[Any, list[int]] = {}
    singles: list[int] = []
    for position, (gradient, variable) in enumerate(pairs):
        array = variable.array
        backend = backend_of(array)
        # Two steps of one variable are made one after the other.
        can_join = name and is_on() and type(gradient) is Tensor and uses[variable.number] == 1
        if not can_join or capabilities_of(type(array)).updates is None:
            singles.append(position)
            continue
        average = None if variable.constraint else averages.get(variable.number)
        key = (backend.device_of(array), backend.dtype_of(array), average is not None)
        members.setdefault(key, []).append(position)
    groups = []
    for (_, _, averaged), positions in members.items():
        # Variables with decay come first, so that their number tells them from the others.
        positions.sort(key=lambda position: pairs[position][1].number in without_decay)
        variables = [pairs[position][1] for position in positions]
        columns = [variables, *map(list, zip(*[slots_of(v) for v in variables], strict=True))]
        if averaged:
            columns.append([averages[variable.number] for variable in variables])
        group = _make_group(str(name), positions, columns, averaged, without_decay)
        if group is None:
            singles += positions
        else:
            groups.append(group)
    rest = [(position, pairs[position][1].device) for position in sorted(singles)]
    places = [[pairs[position][1], *slots_of(pairs[position][1])] for position, _ in rest]
    return UpdatePlan(key_of(pairs), groups, rest, _batches(rest, places))


def _size_of(variable: Variable) -> int:
    array = variable.array
    return int(prod(array.shape)) * backend_of(array).dtype_of(array).itemsize


def _batches(singles: list[tuple[int, str]], places: list[list[Variable]]) -> list[Batch]:
    """Divide variables into batches of few bytes, in order; none has a variable twice."""
    batches: list[Batch] = []
    used, seen = 0, set[int]()
    for single, (variable, *slots) in zip(singles, places, strict=True):
        size = sum(map(_size_of, (variable, *slots)))
        is_plain = variable.constraint is None
        is_full = used + size > BATCH or variable.number in seen
        if not batches or is_full or is_plain != (batches[-1].places is not None):
            batches.append(Batch([], [] if is_plain else None))
            used, seen = 0, set()
        batches[-1].singles.append(single)
        if (known := batches[-1].places) is not None:
            known += (variable, *slots)
        used += size
        seen.add(variable.number)
    return batches


def _make_group(
    name: str,
    positions: list[int],
    columns: list[list[Variable]],
    averaged: bool,
    without_decay: Container[int],
) -> Group | None:
    """Return the group of the variables in the first column, None if the backend refuses it."""
    variables = columns[0]
    places = [place for column in columns for place in column]
    arrays = [place.array for place in places]
    updates = capabilities_of(type(arrays[0])).updates
    kernel = None if updates is None else updates.prepare(name, arrays, len(variables), averaged)
    if kernel is None:
        return None
    decayed = sum(variable.number not in without_decay for variable in variables)
    return Group(positions, variables, places, kernel, decayed, averaged)
