"""What kind of numbers does a value hold? Answers for tensors, raw arrays and Python numbers."""

from __future__ import annotations

from typing import Any

from tapegrad.core.convert import NUMBERS

_KINDS = {bool: "b", int: "i", float: "f", complex: "c"}
_BY_NAME = {"bool": "b", "int": "i", "uint": "u", "float": "f", "bfloat": "f", "complex": "c"}


def kind_of(value: Any) -> str:
    """Return NumPy's letter: b, i, u, f or c.

    >>> kind_of(1.0), kind_of(True)
    ('f', 'b')
    """
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return _KINDS.get(type(value), "")
    kind = getattr(dtype, "kind", "V")
    if kind != "V":
        return str(kind)
    # A backend's own dtype object, or bfloat16, which has NumPy's kind "V": go by the name.
    return _BY_NAME.get(str(dtype).rpartition(".")[2].rstrip("0123456789"), "")


def is_complex(value: Any) -> bool:
    """Whether the value is of a complex type.

    >>> is_complex(1j), is_complex(2.0)
    (True, False)
    """
    return kind_of(value) == "c"


def is_integer(value: Any) -> bool:
    """Whether the value holds integers or truth values.

    >>> is_integer(3), is_integer(3.0)
    (True, False)
    """
    return kind_of(value) in ("b", "i", "u")


def as_arrays(xp: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Turn a Python number among two operands into an array like the other (in kernels)."""
    if type(x) in NUMBERS:
        return xp.asarray(x, dtype=y.dtype, device=y.device), y
    if type(y) in NUMBERS:
        return x, xp.asarray(y, dtype=x.dtype, device=x.device)
    return x, y
