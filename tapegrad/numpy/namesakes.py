"""Which function here answers a function of NumPy's that was called with a tensor, and which none.

`tapegrad.ops.numpy_protocol` asks. What no function answers is refused with a sentence that names
the nearest way.
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
"""Where the functions of each of NumPy's modules are answered: two modules may share a name."""

_UFUNCS: dict[str, Any] = {"_ones_like": names.ones_like}
"""What answers ufuncs under names that have no namesake."""

_DATES = "Tensors hold no dates. Call it on x.numpy() instead, and keep dates in NumPy's arrays."
_FIELDS = (
    "Tensors have no fields: keep a dictionary with one tensor per field, and join fields by "
    "tapegrad.numpy.stack."
)
_TEXT = "Tensors hold no text: keep it in NumPy's arrays, and call it on x.numpy().astype(str)."

WAYS = {
    "asfortranarray": "Elements are always in C's order: use tapegrad.numpy.asarray.",
    "busday_count": _DATES,
    "busday_offset": _DATES,
    "datetime_as_string": _DATES,
    "fromstring": "Read the text by NumPy and give the array to tapegrad.numpy.asarray.",
    "is_busday": _DATES,
    "isnat": _DATES,
    "numpy.char": _TEXT,
    "numpy.lib.recfunctions": _FIELDS,
    "numpy.strings": _TEXT,
}
"""The nearest way, by the name of a function or of the module that it is in."""

_OTHERWISE = "Call it on x.numpy() instead (its result is then not recorded)."


def namesake(function: Any) -> Function:
    """Return what answers a function of NumPy's that is no ufunc.

    >>> import numpy as np
    >>> namesake(np.linalg.solve) is linalg.solve
    True
    """
    home = HOMES.get(function.__module__)
    found: Function | None = getattr(home, function.__name__, None)
    if found is None:
        way = WAYS.get(function.__name__) or WAYS.get(function.__module__, _OTHERWISE)
        module = function.__module__.replace("numpy", "np", 1)
        raise ArgumentTypeError(f"{module}.{function.__name__} has no form for tensors. {way}")
    return found


def ufunc_method(ufunc: Any, method: str) -> Function:
    """Return what answers a method of a ufunc; its call is the method `__call__`.

    >>> import numpy as np
    >>> ufunc_method(np.add, "reduce")([1.0, 2.0]).tolist()
    3.0
    """
    name, home = ufunc.__name__, _home_of(ufunc)
    ours = _UFUNCS.get(name) if home == "np" else None
    ours = ours or getattr(_PLACES.get(home), name, None)
    if ours is None:
        way = WAYS.get(name, _TEXT) if home == "np" else _OTHERWISE
        raise ArgumentTypeError(f"{home}.{name} has no form for tensors. {way}")
    answer: Function | None = getattr(ours, method, None)
    if answer is None:
        raise ArgumentTypeError(
            f"{home}.{name}.{method} has no form for tensors: {name} takes {ufunc.nin} operand(s) "
            f"and gives {ufunc.nout}. Call {home}.{name} itself."
        )
    return answer


_PLACES: dict[str, Any] = {"np": names, "scipy.special": special}


def _home_of(ufunc: Any) -> str:
    """Whose ufunc it is: others than NumPy's may have the same names."""
    if getattr(sys.modules["numpy._core.umath"], ufunc.__name__, None) is ufunc:
        return "np"
    scipys = getattr(sys.modules.get("scipy.special"), "_ufuncs", None)
    return "scipy.special" if getattr(scipys, ufunc.__name__, None) is ufunc else "ufunc"
