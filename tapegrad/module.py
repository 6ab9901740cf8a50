"""Module: an object whose attributes hold variables, collected wherever they are nested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tapegrad.core.variable import Variable


class Module:
    """Base class for models: collects the variables of its attributes, in a stable order.

    >>> import tapegrad
    >>> class Line(tapegrad.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.w = tapegrad.Variable(2.0)
    ...         self.b = tapegrad.Variable(0.5)
    ...     def __call__(self, x):
    ...         return self.w * x + self.b
    >>> len(Line().trainable_variables)
    2
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name or _snake_case(type(self).__name__)

    @property
    def name(self) -> str:
        return getattr(self, "_name", _snake_case(type(self).__name__))

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All variables of this module and of the modules in its attributes."""
        found: dict[int, Variable] = {}
        for value in _walk(self, set()):
            if isinstance(value, Variable):
                found.setdefault(value.number, value)
        return tuple(found.values())

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        return tuple(variable for variable in self.variables if variable.trainable)

    @property
    def non_trainable_variables(self) -> tuple[Variable, ...]:
        return tuple(variable for variable in self.variables if not variable.trainable)

    @property
    def submodules(self) -> tuple[Module, ...]:
        """All modules found in the attributes, without this one."""
        return tuple(v for v in _walk(self, set()) if isinstance(v, Module) and v is not self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {len(self.variables)} variables>"


def _walk(value: Any, seen: set[int]) -> Iterator[Any]:
    """Yield every variable and module reachable through attributes and containers, once."""
    if id(value) in seen:
        return
    if isinstance(value, Variable):
        seen.add(id(value))
        yield value
    elif isinstance(value, Module):
        seen.add(id(value))
        yield value
        for name in sorted(vars(value)):
            yield from _walk(vars(value)[name], seen)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _walk(item, seen)
    elif isinstance(value, Mapping):
        for key in value:
            yield from _walk(value[key], seen)


def _snake_case(name: str) -> str:
    return "".join(
        f"_{c.lower()}" if c.isupper() and i and not name[i - 1].isupper() else c.lower()
        for i, c in enumerate(name)
    )
