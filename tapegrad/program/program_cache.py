"""The programs of a function, by the keys of its calls.

A key may have several programs, recorded while layers or optimizers had other attributes. The one
whose guards hold is used, e.g. the two programs of a model that is frozen and unfrozen in turn.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from tapegrad.program.record.arguments import identities_in
from tapegrad.program.record.guards import Guards

MOST_PROGRAMS = 32
"""The most keys for which a function keeps programs."""

MOST_PER_KEY = 4
"""The most programs of one key."""


class Guarded(Protocol):
    """A program, or several, with its guards."""

    @property
    def guards(self) -> Guards:
        """What it assumes about values outside of it."""


Item = TypeVar("Item", bound=Guarded)


class ProgramCache(Generic[Item]):
    """Programs by key; the oldest key is dropped when there are too many."""

    def __init__(self) -> None:
        self.latest: dict[Any, Item] = {}
        """The program of each key that was used last. Its guards may no longer hold."""
        self._others: dict[Any, list[Item]] = {}
        self._watches: dict[Any, list[Any]] = {}
        """Weak references to the objects in a key, which drop its programs."""

    def __len__(self) -> int:
        return len(self.latest)

    def values(self) -> list[Item]:
        """Return the programs that were used last."""
        return [*self.latest.values()]

    def find(self, key: Any) -> Item | None:
        """Return the program of a key whose guards hold, or None."""
        latest = self.latest.get(key)
        if latest is None or latest.guards.hold():
            return latest
        others = self._others.get(key, [])
        for place, other in enumerate(others):
            if other.guards.hold():
                others[place] = latest
                self.latest[key] = other
                return other
        return None

    def add(self, key: Any, item: Item) -> None:
        """Keep a program that was recorded because none was found."""
        latest = self.latest.get(key)
        if latest is None:
            self._watch(key)
        else:
            others = [*self._others.get(key, []), latest]
            usable = [other for other in others if not other.guards.lost_a_tensor]
            self._others[key] = usable[-(MOST_PER_KEY - 1) :]
        self.latest[key] = item
        if len(self.latest) > MOST_PROGRAMS:
            self.drop(next(iter(self.latest)))

    def clear(self) -> None:
        """Forget all programs."""
        for key in [*self.latest]:
            self.drop(key)

    def drop(self, key: Any) -> None:
        """Forget the programs of a key."""
        for table in (self.latest, self._others, self._watches):
            table.pop(key, None)

    def _watch(self, key: Any) -> None:
        """Forget the programs of a key when one of the objects in it is gone."""
        drop = _dropping(weakref.ref(self), key)
        watches = [identity.call_at_end(drop) for identity in identities_in(key)]
        if watches:
            self._watches[key] = watches


def is_used_once(key: Any, is_special: bool, first: ProgramCache[Any]) -> bool:
    """Whether a program need not be built, since the second call records again."""
    return is_special and key not in first.latest


def keep_program(
    key: Any, program: Any, is_special: bool, first: ProgramCache[Any], usual: ProgramCache[Any]
) -> None:
    """Keep a program for later calls; after a special first call, the second records again.

    If the second call is special too, so is every call.
    """
    if is_used_once(key, is_special, first):
        first.add(key, program)
    else:
        first.drop(key)
        usual.add(key, program)


class EagerKeys(dict[Any, str]):
    """The keys of calls that run eagerly, and why; as many as there may be programs."""

    def add(self, key: Any, reason: str) -> None:
        """Add a key; drop the oldest one if there are too many."""
        self[key] = reason
        if len(self) > MOST_PROGRAMS:
            del self[next(iter(self))]


def _dropping(cache: weakref.ref[ProgramCache[Any]], key: Any) -> Callable[[], None]:
    def drop() -> None:
        found = cache()
        if found is not None:
            found.drop(key)

    return drop
