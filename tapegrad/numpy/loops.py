"""The dtypes in which a universal function computes, as NumPy resolves them.

Functions that NumPy does not have compute in the requested dtype, or in that of their operands.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.errors import DTypeError

CASTINGS = ("no", "equiv", "safe", "same_kind", "same_value", "unsafe")


def _ufunc(name: str) -> Any:
    found = getattr(np, name, None)
    return found if isinstance(found, np.ufunc) else None


@cache
def loop_dtypes(
    name: str, given: tuple[Any, ...], wanted: np.dtype[Any] | None, casting: Any
) -> tuple[Any, ...]:
    """Return the dtypes to which operands are converted, for given `dtype` and `casting`.

    >>> loop_dtypes("sin", (np.dtype("int64"),), np.dtype("float32"), "same_kind")[0].name
    'float32'
    """
    check_choice("casting", casting, CASTINGS)
    ufunc = _ufunc(name)
    given = tuple([np.dtype(bool) if kind is bool else kind for kind in given])
    if ufunc is None:
        return tuple([given[k] if wanted is None else wanted for k in range(len(given))])
    inputs, outputs = (None,) * ufunc.nin, (None,) * ufunc.nout
    options = {} if wanted is None else {"signature": (*inputs, *[wanted] * ufunc.nout)}
    # NumPy's resolve_dtypes crashes under "equiv" where it refuses the cast of a Python number.
    rule = "no" if casting == "equiv" else casting
    try:
        found = ufunc.resolve_dtypes((*given, *outputs), casting=rule, **options)
    except TypeError as error:
        raise DTypeError(_refusal(name, given, wanted, casting)) from error
    if casting == "equiv" and any(
        isinstance(kind, type) and np.dtype(kind) != loop
        for kind, loop in zip(given, found, strict=False)
    ):
        raise DTypeError(_refusal(name, given, wanted, casting))
    return tuple(found)


@cache
def reduction_dtype(name: str, given: np.dtype[Any], wanted: np.dtype[Any] | None) -> np.dtype[Any]:
    """Return the dtype in which a ufunc reduces operands of a dtype.

    >>> reduction_dtype("logical_and", np.dtype("float64"), None).name
    'bool'
    """
    ufunc = _ufunc(name)
    if ufunc is None:
        return given if wanted is None else wanted
    options = {} if wanted is None else {"signature": (wanted, None, None)}
    try:
        found = ufunc.resolve_dtypes(
            (None, given, None), casting="unsafe", reduction=True, **options
        )
    except TypeError as error:
        raise DTypeError(_refusal(f"{name}.reduce", (given,), wanted, "unsafe")) from error
    return found[-1]  # type: ignore[no-any-return]


def _refusal(name: str, given: Any, wanted: Any, casting: str) -> str:
    operands = " and ".join([getattr(kind, "__name__", str(kind)) for kind in given])
    result = "" if wanted is None else f" with dtype={wanted}"
    return (
        f"{name} does not support {operands}{result} and casting={casting!r}. Convert the operands "
        "by astype first."
    )
