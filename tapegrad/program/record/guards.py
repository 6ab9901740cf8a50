"""Guards: what a program assumes about values outside of it, checked before each replay.

A recording reads attributes of layers, optimizers and modules, flags of variables, and tensors that
belong to others. The program keeps what it found as constants. If one of them has changed since, a
new program is recorded, because eager code would compute something else.

Guards refer to objects weakly: a program does not keep the model alive that it was recorded from.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from types import MethodType
from typing import Any

from tapegrad.core.exact_key import exact_key
from tapegrad.core.observed import LAST_CHANGE
from tapegrad.core.recorder import Stack, common_tokens
from tapegrad.program.record.recording import PLAIN, Recorded, Recording, entries_of

Matches = Callable[[Any], bool]
"""Says whether a value is the one that was recorded."""

MOST_ENTRIES = 1000
"""The most entries of a list or dictionary that are compared."""

_ABSENT = object()
_NONE = object()
"""Stands for a value that is not plain."""


class Guards:
    """The assumptions of one program."""

    __slots__ = ("_attributes", "_contents", "_tensors", "_variables", "is_simple", "last_change")

    def __init__(self, recording: Recording) -> None:
        self.last_change: object = None
        """The last change of an attribute after which these guards held."""
        self._tensors = [
            (weakref.ref(tensor), array)
            for tensor, array in recording.outside_tensors.values()
            if type(array) is not Recorded
        ]
        self._variables = [
            (weakref.ref(variable), variable.trainable) for variable in recording.variables.values()
        ]
        self._attributes: list[tuple[Callable[[], Any], list[tuple[str, Any, Matches]]]] = []
        """By their owners: names, values if they are plain, and the test of another value."""
        self._contents: list[tuple[Callable[[], Any], str, list[int]]] = []
        by_owner: dict[int, tuple[Any, list[str]]] = {}
        for owner, name in recording.reads():
            by_owner.setdefault(id(owner), (owner, []))[1].append(name)
        for owner, names in by_owner.values():
            self._add(owner, names)
        self.is_simple = not self._tensors and not self._contents
        """Whether they hold as long as no attribute changes."""

    def _add(self, owner: Any, names: list[str]) -> None:
        reference = weakref.ref(owner)
        values = [(name, vars(owner).get(name, _ABSENT)) for name in names]
        self._attributes.append((
            reference,
            [
                (name, value if type(value) in PLAIN else _NONE, _matcher(value))
                for name, value in values
            ],
        ))  # fmt: skip
        for name, value in values:
            entries = None if name in owner.assigned_on_change else entries_of(value)
            if entries is not None and len(entries) <= MOST_ENTRIES:
                self._contents.append((reference, name, entries))

    def hold(self) -> bool:
        """Whether everything is as it was recorded."""
        last = LAST_CHANGE[0]
        if self.last_change is not last:
            if not self._attributes_hold():
                return False
            self.last_change = last
        for reference, array in self._tensors:
            tensor = reference()
            if tensor is None or tensor.array is not array:
                return False
        for owner, name, entries in self._contents:
            holder = owner()
            if holder is not None and entries_of(holder.__dict__.get(name)) != entries:
                return self._attributes_hold()
        return True

    def _attributes_hold(self) -> bool:
        for variable, trainable in self._variables:
            found = variable()
            if found is not None and found.trainable is not trainable:
                return False
        for owner, attributes in self._attributes:
            holder = owner()
            if holder is None:  # it cannot be read again
                continue
            now = holder.__dict__
            for name, plain, matches in attributes:
                value = now.get(name, _ABSENT)
                if value is not plain and not matches(value):
                    return False
        return True

    def change(self) -> str:
        """Describe the first difference from what was recorded, "" if everything is as it was."""
        if self.lost_a_tensor:
            return "a tensor from outside changed"
        for variable, trainable in self._variables:
            found = variable()
            if found is not None and found.trainable is not trainable:
                return f"trainable of the variable {found.name!r} changed"
        for owner, attributes in self._attributes:
            holder = owner()
            for name, _, matches in attributes if holder is not None else ():
                if not matches(holder.__dict__.get(name, _ABSENT)):
                    return f"attribute {name} of {type(holder).__name__} changed"
        return ""

    @property
    def lost_a_tensor(self) -> bool:
        """Whether a tensor from outside is gone or was written to, so that these never hold again.

        The function then reads another tensor in its place.
        """
        tensors = [(reference(), array) for reference, array in self._tensors]
        return any(tensor is None or tensor.array is not array for tensor, array in tensors)

    def track(self, stack: Stack) -> bool:
        """Whether the recorders of `stack` track a tensor from outside."""
        nodes = [getattr(reference(), "node", None) for reference, _ in self._tensors]
        return bool(common_tokens(stack, nodes))


def _matcher(value: Any, depth: int = 4) -> Matches:
    """Return the function that recognises a value."""
    kind = type(value)
    if kind in PLAIN:
        key = exact_key(value)
        return lambda other: other is value or exact_key(other) == key
    if kind is MethodType:
        function, owner = _matcher(value.__func__), _matcher(value.__self__)
        return lambda other: (
            type(other) is MethodType and function(other.__func__) and owner(other.__self__)
        )
    if kind in (list, tuple, dict) and depth and len(value) <= MOST_ENTRIES:
        keys = [exact_key(key) for key in value] if kind is dict else None
        parts = [_matcher(entry, depth - 1) for entry in _entries(value)]
        return lambda other: _has_parts(other, kind, keys, parts)
    try:
        reference: Callable[[], Any] = weakref.ref(value)
    except TypeError:  # no weak references
        return lambda other: other is value
    return lambda other: other is reference()


def _entries(container: Any) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container


def _has_parts(other: Any, kind: type, keys: list[Any] | None, parts: list[Matches]) -> bool:
    is_alike: bool = type(other) is kind  # a name, since mypy would narrow the type
    return (
        is_alike
        and len(other) == len(parts)
        and (keys is None or [exact_key(key) for key in other] == keys)
        and all(matches(entry) for matches, entry in zip(parts, _entries(other)))
    )
