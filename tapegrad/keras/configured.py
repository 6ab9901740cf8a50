"""Objects that store their constructor arguments, and tables that look up objects by name.

A `Table` looks up everything that users may give by name (an activation, an initializer, a loss):
by that name, by a configuration, or as the object itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from functools import cache
from types import FunctionType
from typing import Any, ClassVar, Self, TypeVar

from tapegrad.core.observed import Observed
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras.naming import snake_case
from tapegrad.keras.registry import get_registered_name, get_registered_object

Kind = TypeVar("Kind")
keeps_objects: ContextVar[bool] = ContextVar("keeps_objects", default=False)


class Configured(Observed):
    """Base class of objects that store the arguments of their constructor.

    >>> class Scale(Configured):
    ...     def __init__(self, factor=2.0, name=None):
    ...         self.factor = factor
    >>> Scale(3.0).get_config()
    {'factor': 3.0, 'name': None}
    >>> Scale.from_config({"factor": 4.0}).factor
    4.0
    """

    assigned_on_change = frozenset({"_options", "_outputs", "_regularized", "_stack", "_variables"})
    needs_own_config: ClassVar[bool] = False
    """Whether a subclass with a constructor must define `get_config` to be saved."""
    _arguments: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        self = super().__new__(cls)
        self._arguments = _bound(cls, args, kwargs)
        return self

    def get_config(self) -> dict[str, Any]:
        """Return the constructor arguments of this object."""
        return {name: plain(value) for name, value in self._arguments.items()}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Create an object from the result of `get_config`."""
        return cls(**config)


@contextmanager
def keeping_objects() -> Iterator[None]:
    """Make `get_config` return objects instead of configurations, for another serializer."""
    token = keeps_objects.set(True)
    try:
        yield
    finally:
        keeps_objects.reset(token)


def _bound(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    if inspect.getattr_static(cls, "__init__") is object.__init__:
        if args or kwargs:
            raise TypeError(f"{cls.__name__}() takes no arguments")
        return {}
    try:
        found = signature_of(cls).bind(None, *args, **kwargs)
    except TypeError:
        return dict(kwargs)  # the constructor raises the error
    found.apply_defaults()
    arguments = dict(list(found.arguments.items())[1:])
    for name, parameter in signature_of(cls).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            arguments.update(arguments.pop(name, {}))
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            arguments.update(_of_base(cls, name, arguments.pop(name)))
    return arguments


def _of_base(cls: type, name: str, args: tuple[Any, ...]) -> dict[str, Any]:
    """Return the arguments `*args` of a constructor by the names that the base class has."""
    if not args:
        return {}
    makers = list(dict.fromkeys(inspect.getattr_static(base, "__init__") for base in cls.__mro__))
    parameters = list(inspect.signature(makers[1]).parameters.values())[1:]
    names = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    return dict(zip(names, args)) if len(args) <= len(names) else {name: args}


def arguments_of_base(cls: type) -> frozenset[str]:
    """Return the names that the constructors of the classes of this package take.

    >>> class Scale(Configured):
    ...     def __init__(self, factor=2.0):
    ...         self.factor = factor
    >>> "factor" in arguments_of_base(Scale)
    True
    """
    makers = [vars(base).get("__init__") for base in cls.__mro__[:-1]
              if base.__module__.startswith("tapegrad.")]  # fmt: skip
    return frozenset(name for make in makers if make for name in inspect.signature(make).parameters)


@cache
def signature_of(cls: type) -> inspect.Signature:
    """Return the signature of the constructor of a class, with `self`."""
    # The signature of the class would be that of `__new__` above.
    return inspect.signature(inspect.getattr_static(cls, "__init__"))


def arguments_in(names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a constructor from `locals()` at its first line."""
    return {name: value for name, value in names.items() if name not in ("self", "__class__")}


def accepted(cls: type, config: Mapping[str, Any]) -> dict[str, Any]:
    """Drop name, trainable and dtype from a configuration if the constructor does not take them."""
    parameters = signature_of(cls).parameters
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    refused = {"name", "trainable", "dtype"} - ({*config} if takes_all else {*parameters})
    return {key: value for key, value in config.items() if key not in refused}


def with_defaults(**defaults: Any) -> Callable[[type[Kind]], type[Kind]]:
    """Give a class the constructor of its base class with other defaults.

    >>> class Scale(Configured):
    ...     def __init__(self, factor=2.0, name=None):
    ...         self.factor = factor
    >>> @with_defaults(name="half", factor=0.5)
    ... class Half(Scale):
    ...     pass
    >>> Half().factor, Half().get_config()
    (0.5, {'factor': 0.5, 'name': 'half'})
    """

    def decorated(cls: Any) -> Any:
        base = cls.__init__
        code, known = base.__code__, base.__defaults__
        names = code.co_varnames[code.co_argcount - len(known) : code.co_argcount]
        values = tuple(defaults.get(name, value) for name, value in zip(names, known))
        own = FunctionType(code, base.__globals__, "__init__", values, base.__closure__)
        own.__annotations__, own.__qualname__ = base.__annotations__, f"{cls.__qualname__}.__init__"
        cls.__init__ = own
        return cls

    return decorated


def computing(
    function: Callable[..., Any], name: str | None = None
) -> Callable[[type[Kind]], type[Kind]]:
    """Set the `_function` of a class; its name is the default name of instances."""

    def decorated(cls: Any) -> Any:
        cls._function = staticmethod(function)
        return with_defaults(name=name or function.__name__)(cls)

    return decorated


def described(value: Any) -> dict[str, Any]:
    """Return the class name, or the name in the registry, and the configuration of an object."""
    if keeps_objects.get():
        kept: dict[str, Any] = value  # under keeping_objects(), callers expect the object
        return kept
    return {"class_name": get_registered_name(type(value)), "config": value.get_config()}


def described_or_named(value: Any) -> Any:
    """Return the description of an object, the name of a function, or None for None."""
    if value is None:
        return None
    return get_registered_name(value) if isinstance(value, FunctionType) else described(value)


def plain(value: Any) -> Any:
    """Return a value as JSON values: objects become their class name and configuration."""
    if keeps_objects.get():
        return value
    if isinstance(value, Configured):
        return described(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if callable(value) and not isinstance(value, type):
        return getattr(value, "__name__", str(value))
    return value


def subclasses(base: type, names: Mapping[str, Any]) -> dict[str, type]:
    """Return the subclasses of a base among the names of a module, by class name.

    >>> subclasses(int, {"bool": bool, "int": int, "float": float})
    {'bool': <class 'bool'>}
    """
    kinds = [kind for kind in names.values() if isinstance(kind, type) and kind is not base]
    return {kind.__name__: kind for kind in kinds if issubclass(kind, base)}


def in_small_letters(names: Iterable[str], module: Mapping[str, Any]) -> dict[str, Any]:
    """Return the lower-case entries of a module, except for the functions of its table."""
    known = [name for name in names if name.islower()]
    return {name: module[name] for name in known if name not in ("deserialize", "get", "serialize")}


class Table(Mapping[str, Any]):
    """Classes or functions of one kind by name; case and underscores are ignored.

    >>> colours = Table("colour", {"red": str.upper})
    >>> colours.get("Red")("x")
    'X'
    >>> colours.get("rod")
    Traceback (most recent call last):
    tapegrad.errors.ArgumentError: There is no colour 'rod'. Did you mean 'red'? Known: red.
    """

    def __init__(self, kind: str, entries: Mapping[str, Any]) -> None:
        self._kind = kind
        self._article = "an" if kind[0] in "aeiou" else "a"
        self._entries = dict(entries)
        self._known = {_key(name): entry for name, entry in entries.items()}

    def __getitem__(self, name: str) -> Any:
        return self._known[_key(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, name: str, entry: Any) -> None:
        """Add an entry under a name."""
        self._entries[name] = self._known[_key(name)] = entry

    def with_more(self, entries: Mapping[str, Any] | None) -> Table:
        """Return a table with more entries, which override entries of the same name."""
        return Table(self._kind, {**self._entries, **entries}) if entries else self

    def get(self, identifier: Any, default: Any = None) -> Any:
        """Return the object for a name, a configuration, a class or an object.

        None gives the default.
        """
        if identifier is None:
            return default
        if isinstance(identifier, Mapping):
            return self._from_config(identifier)
        if isinstance(identifier, str):
            found = self._named(identifier)
            return found() if isinstance(found, type) else found
        if isinstance(identifier, type):
            return identifier()
        if callable(identifier) or isinstance(identifier, Configured):
            return identifier
        raise ArgumentTypeError(
            f"{self._article.capitalize()} {self._kind} must be a name, a configuration or an "
            f"object. Got {type(identifier).__name__}: {identifier!r}."
        )

    def _from_config(self, config: Mapping[str, Any]) -> Any:
        if "class_name" not in config:
            raise ArgumentError(
                f"The configuration of {self._article} {self._kind} needs a 'class_name'. "
                f"Got {dict(config)}."
            )
        found = self._named(config["class_name"])
        if not isinstance(found, type):
            return found
        given = config.get("config", {})
        return found.from_config(given) if hasattr(found, "from_config") else found(**given)

    def _named(self, name: str) -> Any:
        found = get_registered_object(name) or self._known.get(_key(name))
        if found is None and ">" in name:  # registered under another package, or custom_objects
            alone = name.rpartition(">")[2]
            found = get_registered_object(alone) or self._known.get(_key(alone))
        if found is None:
            by_key = {_key(known): known for known in self._entries}
            close = get_close_matches(_key(name), list(by_key), 1, 0.5)
            hint = f" Did you mean {_in_style_of(name, by_key[close[0]])!r}?" if close else ""
            names = ", ".join(sorted(self._entries))
            raise ArgumentError(f"There is no {self._kind} {name!r}.{hint} Known: {names}.")
        return found


def _in_style_of(name: str, known: str) -> str:
    """Return a known name in lower case with underscores if the other one is written so."""
    return snake_case(known) if name.islower() else known


def _key(name: str) -> str:
    """Return a name without underscores in lower case, as the lookup key."""
    return name.replace("_", "").lower()
