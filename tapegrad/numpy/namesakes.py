"""Lookup of the tapegrad function that replaces a NumPy function called with a tensor.

`ops.interface.numpy_protocol` uses it. A function without a replacement raises an error that
names the nearest alternative.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tapegrad import numpy as names
from tapegrad.errors import ArgumentTypeError
from tapegrad.numpy import emath, fft, linalg, polynomial, special, stride_tricks

Function = Callable[..., Any]

HOMES: dict[str, Any] = {
    "numpy": names,
    "numpy.fft": fft,
    "numpy.lib.scimath": emath,
    "numpy.lib.stride_tricks": stride_tricks,
    "numpy.linalg": linalg,
    "numpy.polynomial.polynomial": polynomial.polynomial,
}
"""NumPy's modules and their replacements; a name may occur in several modules."""

_UFUNCS: dict[str, Any] = {"_ones_like": names.ones_like}
"""Replacements of ufuncs whose names do not occur in `tapegrad.numpy`."""

_DATES = "Tensors cannot hold dates. Call it on x.numpy() instead, and keep dates in NumPy arrays."
_FIELDS = (
    "Tensors have no fields: keep a dictionary with one tensor per field, and join fields with "
    "tapegrad.numpy.stack."
)
_TEXT = "Tensors cannot hold text: keep it in NumPy arrays, and call it on x.numpy().astype(str)."

WAYS = {
    "asfortranarray": "Tensors are always in C order: use tapegrad.numpy.asarray.",
    "busday_count": _DATES,
    "busday_offset": _DATES,
    "datetime_as_string": _DATES,
    "fromstring": "Parse the text with NumPy and pass the array to tapegrad.numpy.asarray.",
    "is_busday": _DATES,
    "isnat": _DATES,
    "numpy.char": _TEXT,
    "numpy.lib.recfunctions": _FIELDS,
    "numpy.strings": _TEXT,
}
"""The alternative to suggest, by the name of a function or of its module."""

_OTHERWISE = "Call it on x.numpy() instead; the result is then not recorded."


def namesake(function: Any) -> Function:
    """Return the replacement of a NumPy function that is not a ufunc.

    >>> import numpy as np
    >>> namesake(np.linalg.solve) is linalg.solve
    True
    """
    home = HOMES.get(function.__module__)
    found: Function | None = getattr(home, function.__name__, None)
    if found is None:
        way = WAYS.get(function.__name__) or WAYS.get(function.__module__, _OTHERWISE)
        module = function.__module__.replace("numpy", "np", 1)
        raise ArgumentTypeError(f"{module}.{function.__name__} does not support tensors. {way}")
    return found


def ufunc_method(ufunc: Any, method: str) -> Function:
    """Return the replacement of a method of a ufunc; its call is the method `__call__`.

    >>> import numpy as np
    >>> ufunc_method(np.add, "reduce")([1.0, 2.0]).tolist()
    3.0
    """
    name, home = ufunc.__name__, _home_of(ufunc)
    ours = _UFUNCS.get(name) if home == "np" else None
    ours = ours or getattr(_PLACES.get(home), name, None)
    if ours is None:
        way = WAYS.get(name, _TEXT) if home == "np" else _OTHERWISE
        raise ArgumentTypeError(f"{home}.{name} does not support tensors. {way}")
    answer: Function | None = getattr(ours, method, None)
    if answer is None:
        raise ArgumentTypeError(
            f"{home}.{name}.{method} does not support tensors: {name} takes {ufunc.nin} operand(s) "
            f"and returns {ufunc.nout}. Call {home}.{name} itself."
        )
    return answer


_PLACES: dict[str, Any] = {"np": names, "scipy.special": special}


def _home_of(ufunc: Any) -> str:
    """Return the library of a ufunc: other libraries may use the same names."""
    if getattr(sys.modules["numpy._core.umath"], ufunc.__name__, None) is ufunc:
        return "np"
    scipys = getattr(sys.modules.get("scipy.special"), "_ufuncs", None)
    return "scipy.special" if getattr(scipys, ufunc.__name__, None) is ufunc else "ufunc"
