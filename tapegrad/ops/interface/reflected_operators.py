"""Reflected operators: return NotImplemented so that the other operand can answer.

Python calls `x.__add__(y)` first. A tensor returns NotImplemented if it cannot convert `y` and the
type of `y` defines the reflected method `__radd__`. Otherwise it raises.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from tapegrad.core.backend.registry import find_backend
from tapegrad.core.primitive.primitive import INTERPRETERS, bind_any
from tapegrad.core.values.convert import NUMBERS, adapter_of, has_mask
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentTypeError

Function = Callable[..., Any]

_RAISE = object()
_NEVER_DEFER = {"builtins", "numpy", "fractions", "decimal", "datetime", "scipy", "cupyx"}
"""Packages whose types never answer: they are converted, or an error is raised.

The sparse arrays of SciPy, for example, would compute a result without recording it.
"""


def as_operator(
    function: Function,
    reflected: str,
    otherwise: Any = _RAISE,
    for_host_values: Function | None = None,
) -> Function:
    """Return a function of two operands as an operator; `reflected` is the reflected method.

    `otherwise` is the result if neither operand has an answer; without it the error is raised.
    `for_host_values` replaces the function if the second operand is not a tensor.

    A function with a fast path (fastpath.py) calls its `bind` for operands that are neither tensors
    nor numbers. The operator replaces this `bind` instead of wrapping the function: a wrapper would
    cost time in every `x * y`.
    """

    def bind(primitive: Any, operands: Any, params: dict[str, Any]) -> Any:
        call = partial(bind_any, primitive, operands, params)
        return _call_or_defer(call, operands[1], reflected, otherwise)

    def operate(x: Any, y: Any) -> Any:
        if type(y) is Tensor or (for_host_values is None and type(y) in NUMBERS):
            return function(x, y)
        return _call_or_defer(partial(for_host_values or function, x, y), y, reflected, otherwise)

    with_bind: Function | None = getattr(function, "with_bind", None)
    return operate if with_bind is None else cast(Function, with_bind(bind))


def _call_or_defer(call: Callable[[], Any], other: Any, reflected: str, otherwise: Any) -> Any:
    other_type = type(other)
    # __array_ufunc__ = None is NumPy's convention for types that want to handle operators.
    opts_out = getattr(other_type, "__array_ufunc__", False) is None
    if opts_out and not _is_known(other) and _may_answer(other_type, reflected):
        return NotImplemented
    try:
        return call()
    except ArgumentTypeError:
        if _may_answer(other_type, reflected):
            return NotImplemented
        if otherwise is _RAISE or has_mask(other):
            raise
        return otherwise


def _is_known(other: Any) -> bool:
    """Return whether tapegrad can convert the value, even if its type opts out of ufuncs."""
    known = type(other) in INTERPRETERS or find_backend(type(other)) is not None
    return known or adapter_of(other) is not None


def _may_answer(other_type: type, reflected: str) -> bool:
    method = getattr(other_type, reflected, None)
    if method is None or method is getattr(object, reflected, None):
        return False
    return other_type.__module__.partition(".")[0] not in _NEVER_DEFER
