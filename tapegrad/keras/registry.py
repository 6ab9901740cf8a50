"""Registry of user-defined classes and functions for files and configurations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from tapegrad.core.argument_checks import described
from tapegrad.errors import ArgumentTypeError

_registered: dict[str, Any] = {}
_names: dict[Any, str] = {}
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_scope: ContextVar[Mapping[str, Any]] = ContextVar("custom_objects", default=_NOTHING)


def register_keras_serializable(
    package: str = "Custom", name: str | None = None
) -> Callable[[Any], Any]:
    """Register a class or a function as "package>name", so that files can refer to it.

    >>> @register_keras_serializable("Mine")
    ... def cubed(x):
    ...     return x**3
    >>> get_registered_name(cubed), get_registered_object("Mine>cubed") is cubed
    ('Mine>cubed', True)
    """

    def register(value: Any) -> Any:
        if isinstance(value, type) and not hasattr(value, "get_config"):
            raise ArgumentTypeError(
                f"A registered class must have a get_config method. {value.__name__} has none."
            )
        _names[value] = f"{package}>{name or value.__name__}"
        _registered[_names[value]] = value
        return value

    return register


def get_registered_name(obj: Any) -> str:
    """Return the name under which a class or a function is registered, or else its `__name__`.

    >>> get_registered_name(len)
    'len'
    """
    name = _names.get(obj) or getattr(obj, "__name__", None)
    if name is None:
        raise ArgumentTypeError(
            f"get_registered_name takes a class or a function. Got {described(obj)}."
        )
    return str(name)


def get_registered_object(
    name: str,
    custom_objects: Mapping[str, Any] | None = None,
    module_objects: Mapping[str, Any] | None = None,
) -> Any:
    """Return the object of this name in the scope, the registry or the mappings, or None.

    >>> get_registered_object("size", {"size": len}) is len, get_registered_object("size")
    (True, None)
    """
    places = (_scope.get(), _registered, custom_objects or {}, module_objects or {})
    return next((place[name] for place in places if name in place), None)


def get_custom_objects() -> dict[str, Any]:
    """Return the registered classes and functions by name; entries may be added and removed.

    >>> get_custom_objects()["cubed"] = lambda x: x**3
    >>> get_registered_object("cubed")(2)
    8
    >>> del get_custom_objects()["cubed"]
    """
    return _registered


@contextmanager
def custom_object_scope(custom_objects: Mapping[str, Any] | None) -> Iterator[None]:
    """Make user-defined classes and functions available by name inside a block.

    >>> from tapegrad.keras import activations
    >>> with custom_object_scope({"cubed": lambda x: x**3}):
    ...     activations.get("cubed")(2)
    8
    """
    token = _scope.set({**_scope.get(), **(custom_objects or {})})
    try:
        yield
    finally:
        _scope.reset(token)
