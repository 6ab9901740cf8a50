"""Module: a base class that collects the variables in its attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tapegrad.core.observed import Observed
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError

if TYPE_CHECKING:
    from tapegrad.program.graph_mode import name_scope as NameScope  # noqa: N812


Path = tuple[Any, ...]
"""The name of an attribute, then the indices and keys inside of it."""


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

    _TF_MODULE_IGNORED_PROPERTIES: frozenset[str] = frozenset()
    """Attributes without variables and modules; TensorFlow's name, which subclasses extend."""

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
        return tuple(self._flatten(predicate=_is_variable))

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        return tuple(variable for variable in self.variables if variable.trainable)

    @property
    def non_trainable_variables(self) -> tuple[Variable, ...]:
        return tuple(variable for variable in self.variables if not variable.trainable)

    @property
    def submodules(self) -> tuple[Module, ...]:
        """All modules in the attributes, without this one."""
        return tuple(value for value in self._flatten(predicate=_is_module) if value is not self)

    def _flatten(
        self,
        recursive: bool = True,
        predicate: Callable[[Any], bool] | None = None,
        attribute_traversal_key: Callable[[str], Any] | None = None,
        with_path: bool = False,
        expand_composites: bool = False,
    ) -> Iterator[Any]:
        """Yield the values in the attributes, those of this module first, then of modules in it.

        Subclasses collect their own kinds of values with it, which `predicate` recognizes. Lists,
        tuples and mappings are flattened, and attributes are sorted by `attribute_traversal_key`,
        by name if it is None. Each value comes once; `with_path` yields pairs of a path and a
        value for all places of a value. `expand_composites` has no effect: sparse and ragged
        tensors are values.
        """
        choose = predicate or (lambda value: True)
        walk = _walk(self, (), set(), recursive, attribute_traversal_key, with_path)
        for path, value in walk:
            if choose(value):
                yield (path, value) if with_path else value

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {len(self.variables)} variables>"


def _is_variable(value: Any) -> bool:
    return isinstance(value, Variable)


def _is_module(value: Any) -> bool:
    return isinstance(value, Module)


def _walk(
    module: Module,
    path: Path,
    seen: set[int],
    is_recursive: bool,
    key: Callable[[str], Any] | None,
    repeats: bool,
) -> Iterator[tuple[Path, Any]]:
    """Yield the values in a module's attributes, then those of its submodules, with their paths.

    `seen` has the ids of the values so far; with `repeats` only those of the modules around.
    """
    seen.add(id(module))
    inner: list[tuple[Path, Module]] = []
    names = vars(module).keys() - module._TF_MODULE_IGNORED_PROPERTIES
    for name in sorted(names, key=key):
        for place, value in _leaves((*path, name), vars(module)[name]):
            if id(value) in seen and not repeats:
                continue
            if not repeats:
                seen.add(id(value))
            yield place, value
            if is_recursive and isinstance(value, Module):
                inner.append((place, value))
    for place, value in inner:
        if not repeats:
            yield from _walk(value, place, seen, is_recursive, key, repeats)
        elif id(value) not in seen:
            yield from _walk(value, place, {*seen}, is_recursive, key, repeats)


def _leaves(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    """Yield the values in an attribute's lists, tuples and mappings with their paths."""
    if isinstance(value, list | tuple):
        for place, item in enumerate(value):
            yield from _leaves((*path, place), item)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves((*path, name), item)
    else:
        yield path, value


def _snake_case(name: str) -> str:
    return "".join(
        f"_{c.lower()}" if c.isupper() and i and not name[i - 1].isupper() else c.lower()
        for i, c in enumerate(name)
    )
