"""Names of optimizer state per variable, and creation of the state that a checkpoint has.

The state is the slots, the averages, and tables of the same form in subclasses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tapegrad.core.values.variable import Variable
from tapegrad.optimizers.base import Optimizer

# An optimizer creates slots on the first step with a variable. Only its tables, which are keyed by
# variable number, tell which variables it knows.


def labels_of(optimizer: Optimizer, named: Mapping[str, Variable]) -> dict[str, list[str]]:
    """Return the names of the variables that an optimizer knows, and of those with averages.

    Variables that are not in the checkpoint are named by their position.

    >>> from tapegrad.optimizers import SGD
    >>> w, optimizer = Variable(1.0), SGD(0.5, momentum=0.9)
    >>> optimizer.build([w])
    >>> labels_of(optimizer, {"w": w})
    {'known': ['w'], 'averages': []}
    """
    known = _known(optimizer, named)
    with_average = [label for label, v in known.items() if v.number in optimizer._averages]
    return {"known": list(known), "averages": with_average}


def are_labels(value: Any) -> bool:
    """Return whether a value from a file is a result of `labels_of`."""
    return isinstance(value, dict) and all(
        isinstance(value.get(key), list) and all(isinstance(one, str) for one in value[key])
        for key in ("known", "averages")
    )


def slots_of(name: str, optimizer: Optimizer, named: Mapping[str, Variable]) -> dict[str, Variable]:
    """Return the current state of an optimizer called `name` by name.

    >>> from tapegrad.optimizers import SGD
    >>> w, optimizer = Variable(1.0), SGD(0.5, momentum=0.9)
    >>> optimizer.build([w])
    >>> list(slots_of("optimizer", optimizer, {"w": w}))
    ['optimizer/~slots/w/momentum']
    """
    found: dict[str, Variable] = {}
    known = _known(optimizer, named)
    for label, variable in known.items():
        found.update(_named_slots(name, optimizer, label, variable))
    for attribute, table in vars(optimizer).items():
        if attribute in ("_known", "_slots") or not isinstance(table, dict):
            continue
        for label, variable in known.items():
            value = table.get(variable.number)
            if isinstance(value, Variable):
                found[f"{name}/~{attribute.lstrip('_')}/{label}"] = value
    return {**found, **_shared(name, optimizer)}


def _shared(name: str, optimizer: Optimizer) -> dict[str, Variable]:
    """Return the variables of a user-defined optimizer that are not tied to one variable."""
    shared = getattr(optimizer, "_shared", {})
    return {f"{name}/~shared/{key}": variable for key, variable in shared.items()}


def make_slots(
    optimizer: Optimizer, labels: Mapping[str, list[str]], named: Mapping[str, Variable]
) -> None:
    """Create the slots and averages that a checkpoint has and the optimizer lacks.

    >>> from tapegrad.optimizers import SGD
    >>> w, optimizer = Variable(1.0), SGD(0.5, momentum=0.9)
    >>> make_slots(optimizer, {"known": ["w"], "averages": []}, {"w": w})
    >>> optimizer.variables[2].name
    'Variable/momentum:0'
    """
    optimizer._prepare([named[label] for label in labels["known"] if label in named])
    if optimizer.ema_momentum is None:
        return
    known = _known(optimizer, named)
    for label in labels["averages"]:
        variable = known.get(label)
        if variable is not None and variable.number not in optimizer._averages:
            optimizer._average_of(variable)


def tables_of(optimizer: Optimizer) -> list[tuple[dict[Any, Any], dict[Any, Any]]]:
    """Return the tables of an optimizer, each with a copy of its current content."""
    return [(table, dict(table)) for table in vars(optimizer).values() if isinstance(table, dict)]


def cleared_slots(
    name: str, optimizer: Optimizer, named: Mapping[str, Variable], saved: Collection[str]
) -> dict[str, tuple[Variable, Any]]:
    """Return slots that are not among the `saved` ones, with their initial values, by name.

    The checkpoint is older than these slots.

    >>> from tapegrad.optimizers import SGD
    >>> w, optimizer = Variable(1.0), SGD(0.5, momentum=0.9)
    >>> _ = optimizer.apply_gradients([(1.0, w)])
    >>> found = cleared_slots("optimizer", optimizer, {"w": w}, saved=["w"])
    >>> [(name, float(value)) for name, (_, value) in found.items()]
    [('optimizer/~slots/w/momentum', 0.0)]
    """
    cleared: dict[str, tuple[Variable, Any]] = {}
    for label, variable in _known(optimizer, named).items():
        slots = dict(_named_slots(name, optimizer, label, variable))
        if not slots or not slots.keys().isdisjoint(saved):
            continue
        # The same variables get these values, because recorded steps refer to them.
        for label, new in zip(slots, optimizer._new_slots(variable), strict=True):
            cleared[label] = slots[label], new.read_value()
    shared = _shared(name, optimizer)
    if shared.keys().isdisjoint(saved):
        for label, variable in shared.items():
            make = optimizer._makers[variable.number]  # type: ignore[attr-defined]
            cleared[label] = variable, make().read_value()
    return cleared


def _known(optimizer: Optimizer, named: Mapping[str, Variable]) -> dict[str, Variable]:
    names = {variable.number: name for name, variable in named.items()}
    known = enumerate(optimizer._known.values())
    return {names.get(v.number, f"~{position}"): v for position, v in known}


def _named_slots(
    name: str, optimizer: Optimizer, label: str, variable: Variable
) -> Iterator[tuple[str, Variable]]:
    """Yield the slots of a variable by name, or by number if it has an unusual set of slots."""
    slots = optimizer._slots.get(variable.number, [])
    is_usual = len(slots) == len(optimizer.slots)
    for position, slot in enumerate(slots):
        part = optimizer.slots[position] if is_usual else str(position)
        yield f"{name}/~slots/{label}/{part}", slot
