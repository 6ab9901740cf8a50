"""Module: a base class that collects the variables in its attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tapegrad.core.observed import Observed
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError

if TYPE_CHECKING:
    from tapegrad.program.graph_mode import name_scope as NameScope  # noqa: N812


class Module(Observed):
    """Base class for models: collects the variables in its attributes, in a stable order.

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
        if name is not None and not name.isidentifier():
            raise ArgumentError(f"The name of a module must be a Python identifier. Got {name!r}.")
        self._name = name or _snake_case(type(self).__name__)

    @property
    def name(self) -> str:
        return getattr(self, "_name", _snake_case(type(self).__name__))

    @property
    def name_scope(self) -> NameScope:
        """A context in which names begin with that of this module."""
        # Imported here because the modules of recordings take a tenth of the time of all imports.
        from tapegrad.program.graph_mode import name_scope

        return name_scope(self.name)

    @classmethod
    def with_name_scope(cls, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method unchanged: variables have no name scopes."""
        return method

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All variables of this module and of the modules in its attributes."""
        return tuple(value for value in _walk(self, set()) if isinstance(value, Variable))

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        return tuple(variable for variable in self.variables if variable.trainable)

    @property
    def non_trainable_variables(self) -> tuple[Variable, ...]:
        return tuple(variable for variable in self.variables if not variable.trainable)

    @property
    def submodules(self) -> tuple[Module, ...]:
        """All modules in the attributes, without this one."""
        return tuple(v for v in _walk(self, set()) if isinstance(v, Module) and v is not self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {len(self.variables)} variables>"


def _walk(module: Module, seen: set[int]) -> Iterator[Any]:
    """Yield a module, its variables by attribute name, then those of its submodules."""
    seen.add(id(module))
    yield module
    inner: list[Module] = []
    for name in sorted(vars(module)):
        for value in _leaves(vars(module)[name]):
            if id(value) in seen:
                continue
            if isinstance(value, Variable):
                seen.add(id(value))
                yield value
            elif isinstance(value, Module):
                inner.append(value)
    for value in inner:
        if id(value) not in seen:
            yield from _walk(value, seen)


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the variables and modules in an attribute's lists, tuples and mappings."""
    if isinstance(value, Variable | Module):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)


def _snake_case(name: str) -> str:
    return "".join(
        f"_{c.lower()}" if c.isupper() and i and not name[i - 1].isupper() else c.lower()
        for i, c in enumerate(name)
    )
