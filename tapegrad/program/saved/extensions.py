"""Extension types in saved functions: the name of the class, its plain fields, and its tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

from tapegrad.errors import ArgumentError

CLASSES: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""The extension types of this process by the name under which they are saved."""


def saved_name(kind: type) -> str:
    """Return `__name__` from the body of a class, or its module and name."""
    return str(kind.__dict__.get("__name__") or f"{kind.__module__}.{kind.__qualname__}")


def is_extension(value: Any) -> bool:
    """Whether a value is of an extension type.

    >>> is_extension([1])
    False
    """
    return CLASSES.get(saved_name(type(value))) is type(value)


def encoded_extension(value: Any, encode: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a value of an extension type as JSON values."""
    (held, plain), parts = value.__tf_flatten__()
    fields = {name: encode(one) for name, one in plain}
    return {"extension": [saved_name(type(value)), list(held), fields, [encode(p) for p in parts]]}


def parts_of(content: Any, value: Any, decode: Callable[[Any], Any]) -> Sequence[Any] | None:
    """Return the fields with tensors of an argument that has the saved form, or None."""
    name, held, plain, _ = content
    if not is_extension(value) or saved_name(type(value)) != name:
        return None
    (own_held, own_plain), parts = value.__tf_flatten__()
    wanted = {key: decode(one) for key, one in plain.items()}
    return parts if list(own_held) == held and dict(own_plain) == wanted else None


def made_extension(content: Any, parts: Sequence[Any], decode: Callable[[Any], Any]) -> Any:
    """Return a value of an extension type with these fields with tensors."""
    name, held, plain, _ = content
    kind = CLASSES.get(name)
    if kind is None:
        raise ArgumentError(
            f"The saved function returns {name!r:.80}, an extension type that is not defined in "
            "this process. Import the module that defines it."
        )
    fields = tuple((key, decode(one)) for key, one in plain.items())
    return kind.__tf_unflatten__((tuple(held), fields), tuple(parts))


def decoded(tree: Any) -> Any:
    """Return containers of plain values from JSON values.

    >>> decoded({"tuple": [1, {"dict": {"a": None}}]})
    (1, {'a': None})
    """
    if not isinstance(tree, Mapping):
        return tree
    ((kind, content),) = tree.items()
    if kind == "dict":
        return {key: decoded(one) for key, one in content.items()}
    return (tuple if kind == "tuple" else list)(decoded(one) for one in content)
