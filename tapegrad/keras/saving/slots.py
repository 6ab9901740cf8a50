"""What an optimizer keeps per variable, by name, made where a checkpoint has it already.

That is its slots and averages, and what subclasses keep in tables of the same form.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tapegrad.core.variable import Variable
from tapegrad.optimizers.base import Optimizer

# An optimizer makes slots when it first meets a variable, so that only its own tables, which go by
# the numbers of variables, say which ones it has met.


def labels_of(optimizer: Optimizer, named: Mapping[str, Variable]) -> dict[str, list[str]]:
    """Return under which names an optimizer knows variables, and which of them have averages.

    Variables that are not in the checkpoint are known by their position.

    >>> from tapegrad.optimizers import SGD
    >>> w, optimizer = Variable(1.0), SGD(0.5, momentum=0.9)
    >>> optimizer.build([w])
    >>> labels_of(optimizer, {"w": w})
    {'known': ['w'], 'averages': []}
    """
    known = _known(optimizer, named)
    with_average = [label for label, v in known.items() if v.number in optimizer._averages]
    return {"known": list(known), "averages": with_average}


def slots_of(name: str, optimizer: Optimizer, named: Mapping[str, Variable]) -> dict[str, Variable]:
    """Return what an optimizer called `name` has now for each variable.

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
    """The variables that an optimizer of one's own has for all others together."""
    shared = getattr(optimizer, "_shared", {})
    return {f"{name}/~shared/{key}": variable for key, variable in shared.items()}


def make_slots(
    optimizer: Optimizer, labels: Mapping[str, list[str]], named: Mapping[str, Variable]
) -> None:
    """Make the slots and averages that a checkpoint has and the optimizer does not yet.

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
    """Return what an optimizer keeps per variable, each table with a copy of what is in it now."""
    return [(table, dict(table)) for table in vars(optimizer).values() if isinstance(table, dict)]


def clear_slots(
    name: str, optimizer: Optimizer, named: Mapping[str, Variable], saved: Collection[str]
) -> list[str]:
    """Fill slots that are not among the `saved` ones as if they were new; return their names.

    The checkpoint was made before they were.

    >>> from tapegrad.optimizers import SGD
    >>> w, optimizer = Variable(1.0), SGD(0.5, momentum=0.9)
    >>> _ = optimizer.apply_gradients([(1.0, w)])
    >>> clear_slots("optimizer", optimizer, {"w": w}, saved=["w"])
    ['optimizer/~slots/w/momentum']
    >>> float(optimizer.variables[2])
    0.0
    """
    cleared: list[str] = []
    for label, variable in _known(optimizer, named).items():
        slots = dict(_named_slots(name, optimizer, label, variable))
        if not slots or not slots.keys().isdisjoint(saved):
            continue
        # The same variables with new values: a recorded step goes on with them.
        for slot, new in zip(slots.values(), optimizer._new_slots(variable), strict=True):
            slot.assign(new.value(), read_value=False)
        cleared += slots
    shared = _shared(name, optimizer)
    if shared.keys().isdisjoint(saved):
        for variable in shared.values():
            make = optimizer._makers[variable.number]  # type: ignore[attr-defined]
            variable.assign(make().value(), read_value=False)
        cleared += shared
    return cleared


def _known(optimizer: Optimizer, named: Mapping[str, Variable]) -> dict[str, Variable]:
    names = {variable.number: name for name, variable in named.items()}
    known = enumerate(optimizer._known.values())
    return {names.get(v.number, f"~{position}"): v for position, v in known}


def _named_slots(
    name: str, optimizer: Optimizer, label: str, variable: Variable
) -> Iterator[tuple[str, Variable]]:
    """The slots of a variable by name, or by number where it has others than most."""
    slots = optimizer._slots.get(variable.number, [])
    is_usual = len(slots) == len(optimizer.slots)
    for position, slot in enumerate(slots):
        part = optimizer.slots[position] if is_usual else str(position)
        yield f"{name}/~slots/{label}/{part}", slot
