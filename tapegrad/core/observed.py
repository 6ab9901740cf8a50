"""Objects whose attributes a recorded function reads: modules, layers, optimizers, losses.

A program keeps the values that the attributes had when it was recorded. Each write to an attribute
of an observed object changes `LAST_CHANGE`, so that programs know with one comparison that no
attribute has changed. After a change they compare the attributes that they depend on.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar

LAST_CHANGE: list[object] = [object()]
"""A new object after each change; a counter could miss a change by another thread."""

ON_WRITE: list[Callable[[Any, str, Any], None]] = []
"""Functions that are called after each write, with the object, the name and the value."""


class Observed:
    """Base class of objects whose attribute writes are noticed.

    >>> class Scale(Observed):
    ...     factor = 1.0
    >>> scale, before = Scale(), LAST_CHANGE[0]
    >>> scale.factor = 2.0
    >>> LAST_CHANGE[0] is before
    False
    """

    __slots__ = ()
    unobserved: ClassVar[frozenset[str]] = frozenset()
    """Attributes that hold caches and notes, which do not change what a function computes."""
    assigned_on_change: ClassVar[frozenset[str]] = frozenset()
    """Attributes with a list or dictionary of which every change is noticed."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        LAST_CHANGE[0] = object()
        if ON_WRITE:
            for notify in tuple(ON_WRITE):
                notify(self, name, value)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        LAST_CHANGE[0] = object()


def observed_slot(name: str) -> Any:
    """Return a property for the slot of this name whose writes are noticed.

    >>> class Pair:
    ...     __slots__ = ("_first",)
    ...     first = observed_slot("_first")
    >>> pair = Pair()
    >>> pair.first = 3
    >>> pair.first
    3
    """

    def write(owner: Any, value: Any) -> None:
        setattr(owner, name, value)
        LAST_CHANGE[0] = object()

    return property(attrgetter(name), write)
