"""Dtype kinds of tensors, backend arrays and Python numbers."""

from __future__ import annotations

from typing import Any

from tapegrad.core.values.convert import NUMBERS
from tapegrad.errors import DTypeError

_KINDS = {bool: "b", int: "i", float: "f", complex: "c"}
_BY_NAME = {"bool": "b", "int": "i", "uint": "u", "float": "f", "bfloat": "f", "complex": "c"}


def kind_of(value: Any) -> str:
    """Return the letter of NumPy's `dtype.kind`: b, i, u, f or c.

    >>> kind_of(1.0), kind_of(True)
    ('f', 'b')
    """
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return _KINDS.get(type(value), "")
    kind = getattr(dtype, "kind", "V")
    if kind != "V":
        return str(kind)
    # A dtype object of a backend, or bfloat16, whose NumPy kind is "V": use the name.
    return _BY_NAME.get(str(dtype).rpartition(".")[2].rstrip("0123456789"), "")


def is_complex(value: Any) -> bool:
    """Return whether the value has a complex dtype.

    >>> is_complex(1j), is_complex(2.0)
    (True, False)
    """
    return kind_of(value) == "c"


def is_integer(value: Any) -> bool:
    """Return whether the value has an integer or boolean dtype.

    >>> is_integer(3), is_integer(3.0)
    (True, False)
    """
    return kind_of(value) in ("b", "i", "u")


def require_floating(name: str, value: Any) -> None:
    """Raise if a value has an integer or boolean dtype.

    >>> require_floating("softmax", 1.0)
    """
    if is_integer(value):
        raise DTypeError(
            f"{name} needs floating-point values. Got {value.dtype}; cast them first, e.g. with "
            "tapegrad.cast(x, 'float32')."
        )


def require_integers(name: str, what: str, value: Any) -> None:
    """Raise if a value, such as a tensor of indices, has no integer dtype.

    >>> require_integers("one_hot", "indices", 3)
    """
    if kind_of(value) not in ("i", "u", "b"):
        raise DTypeError(f"{name} needs integers for {what}. Got {value.dtype}; cast them first.")


def as_arrays(xp: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Convert a Python number among two kernel operands to an array like the other."""
    if type(x) in NUMBERS:
        return xp.asarray(x, dtype=y.dtype, device=y.device), y
    if type(y) in NUMBERS:
        return x, xp.asarray(y, dtype=x.dtype, device=x.device)
    return x, y
