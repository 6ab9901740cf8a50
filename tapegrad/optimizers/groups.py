"""Variables that are moved together: the dense gradients of one device and dtype in one call.

A backend that can do so has a kernel `update.group`. For all others, for sparse gradients and for
optimizers with an `update` of their own, every variable is moved by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from tapegrad.core.backend import Array, backend_of
from tapegrad.core.primitive import Primitive
from tapegrad.core.tensor import Tensor
from tapegrad.core.variable import Variable


class Scalars(NamedTuple):
    """The learning rate and the number of this step, as arrays on a variable's device.

    `further` are what a rule reads in place of that number: others that all variables share.
    """

    rate: Any
    step: Any
    further: tuple[Any, ...] = ()


class Rule(NamedTuple):
    """The primitive that makes an optimizer's steps, its params, and whether it reads the count."""

    primitive: Primitive
    params: dict[str, Any]
    reads_step: bool = False

    def apply(self, p: Array, g: Array, slots: Sequence[Array], scalars: Scalars) -> Any:
        """Return the new parameter and slots."""
        primitive = self.primitive
        kernel = primitive.kernels.get(type(p)) or primitive.kernel(type(p))
        if self.reads_step:
            return kernel(p, g, scalars.rate, scalars.step, *slots, **self.params)
        return kernel(p, g, scalars.rate, *scalars.further, *slots, **self.params)


class GroupKernel(Protocol):
    """What a backend's `update.group` makes of a primitive's name and the arrays of a group.

    Those come column by column: parameters, each slot, and averages if they are moved too.
    """

    def __call__(
        self,
        arrays: list[Array],
        gradients: Sequence[Array],
        rate: Array,
        count: Array,
        params: Mapping[str, Any],
        *,
        amount: float,
        decayed: int,
        share: float,
        factor: Array,
        further: Sequence[Array] = (),
    ) -> list[Array]:
        """Make a step and return the arrays after it: the given list if all were changed in place.

        Nothing may have changed if it raises. The first `decayed` variables lose `rate * amount`
        of themselves before; averages go the `share` of their way to the new value, or all of it
        where `count` is 1; gradients are multiplied by `factor`, if there is one; `further` are
        the other numbers that the primitive reads. Each array is held by its variable and the
        list: if by others too, it must not be written to.
        """

    def factor(self, gradients: Sequence[Array], limit: float) -> Array:
        """Return the factor that brings the gradients' global norm down to `limit`."""


class Group:
    """Variables that one call moves, and where they stand among all pairs of a step."""

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

    def move(
        self,
        gradients: Sequence[Any],
        scalars: Scalars,
        params: Mapping[str, Any],
        amount: float,
        share: float,
        factor: Array,
    ) -> None:
        """Make the step of all variables, or of none if there is no room for it."""
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
        if new is not arrays:
            for place, array in zip(places, new, strict=True):
                place.array = array

    def factor(self, gradients: Sequence[Any], limit: float) -> Array:
        """Return the factor that clips the gradients by their global norm."""
        arrays = [gradients[position].array for position in self.positions]
        return self.kernel.factor(arrays, limit)

    def variables_to_finish(self, has_averages: bool) -> Sequence[Variable]:
        """The variables with something left to do after a step."""
        if has_averages and not self.averaged:
            return self.variables
        return self.constrained


class Plan:
    """How the pairs of a step are moved: in groups, and the others one by one on their devices."""

    __slots__ = ("devices", "groups", "is_one_group", "key", "singles")

    def __init__(
        self, key: tuple[Any, ...], groups: list[Group], singles: list[tuple[int, str]]
    ) -> None:
        self.key = key
        self.groups = groups
        self.singles = singles
        self.is_one_group = len(groups) == 1 and not singles
        self.devices = {*[group.device for group in groups], *[device for _, device in singles]}


def key_of(pairs: Sequence[tuple[Any, Variable]]) -> tuple[Any, ...]:
    """What a plan depends on: the variables, whose gradient is dense, and the type of arrays.

    That type is another one while a function is recorded, which moves variables one by one.
    """
    kind = type(pairs[0][1].array)
    return (kind, *[v.number if type(g) is Tensor else -v.number for g, v in pairs])


def make_plan(
    pairs: Sequence[tuple[Any, Variable]],
    name: str | None,
    slots_of: Callable[[Variable], list[Variable]],
    averages: Mapping[int, Variable],
    without_decay: Container[int],
) -> Plan:
    """Sort pairs into groups for the primitive called `name`; None: there are none."""
    uses = Counter([variable.number for _, variable in pairs])
    members: dict[Any, list[int]] = {}
    singles: list[int] = []
    for position, (gradient, variable) in enumerate(pairs):
        array = variable.array
        backend = backend_of(array)
        # Two steps of one variable come one after the other.
        can_join = name and type(gradient) is Tensor and uses[variable.number] == 1
        if not can_join or backend.kernels.get("update.group") is None:
            singles.append(position)
            continue
        average = None if variable.constraint else averages.get(variable.number)
        kind = (backend.device_of(array), backend.dtype_of(array), average is not None)
        members.setdefault(kind, []).append(position)
    groups = []
    for (_, _, averaged), positions in members.items():
        # Those that decay come first, so that a number tells them from the others.
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
    return Plan(key_of(pairs), groups, rest)


def _make_group(
    name: str,
    positions: list[int],
    columns: list[list[Variable]],
    averaged: bool,
    without_decay: Container[int],
) -> Group | None:
    """Return a group of variables, the first column, or None if the backend does not take it."""
    variables = columns[0]
    places = [place for column in columns for place in column]
    arrays = [place.array for place in places]
    make = backend_of(arrays[0]).kernels["update.group"]
    kernel = make(name, arrays, len(variables), averaged)
    if kernel is None:
        return None
    decayed = sum(variable.number not in without_decay for variable in variables)
    return Group(positions, variables, places, kernel, decayed, averaged)
