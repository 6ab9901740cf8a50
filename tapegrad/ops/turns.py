"""Whose turn it is: operators leave to the other side what they cannot make a tensor of.

Python asks `x.__add__(y)` first. A tensor answers NotImplemented where it cannot take `y` and the
type of `y` has a method of its own for the purpose, `__radd__`. Plain mistakes raise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from tapegrad.core.backend import find_backend
from tapegrad.core.convert import NUMBERS, adapter_of, has_mask
from tapegrad.core.primitive import INTERPRETERS, bind_any
from tapegrad.core.tensor import Tensor
from tapegrad.errors import ArgumentTypeError

Function = Callable[..., Any]

_RAISE = object()
_HAVE_NO_SAY = {"builtins", "numpy", "fractions", "decimal", "datetime", "scipy", "cupyx"}
"""Whose types are taken, or are mistakes: sparse ones of SciPy would compute and not record."""


def in_turn(
    function: Function,
    reflected: str,
    otherwise: Any = _RAISE,
    beside_others: Function | None = None,
) -> Function:
    """Return a function of two operands as an operator; `reflected` is the other side's method.

    `otherwise` is the answer where neither side has one; without it the mistake is raised.
    `beside_others` computes where the second operand is no tensor.

    What is neither tensor nor number leaves a fast path (fastpath.py) through its `bind`, so such a
    function becomes an operator by another one there. A function around it would cost every `x * y`
    a tenth of a microsecond.
    """

    def bind(primitive: Any, operands: Any, params: dict[str, Any]) -> Any:
        call = partial(bind_any, primitive, operands, params)
        return _answer(call, operands[1], reflected, otherwise)

    def operate(x: Any, y: Any) -> Any:
        if type(y) is Tensor or (beside_others is None and type(y) in NUMBERS):
            return function(x, y)
        return _answer(partial(beside_others or function, x, y), y, reflected, otherwise)

    with_bind: Function | None = getattr(function, "with_bind", None)
    return operate if with_bind is None else cast(Function, with_bind(bind))


def _answer(call: Callable[[], Any], other: Any, reflected: str, otherwise: Any) -> Any:
    kind = type(other)
    keeps_apart = getattr(kind, "__array_ufunc__", False) is None  # NumPy's word for it
    if keeps_apart and not _is_known(other) and _may_answer(kind, reflected):
        return NotImplemented
    try:
        return call()
    except ArgumentTypeError:
        if _may_answer(kind, reflected):
            return NotImplemented
        if otherwise is _RAISE or has_mask(other):
            raise
        return otherwise


def _is_known(other: Any) -> bool:
    """Whether the engine has a way to take this kind of value, whatever it says to NumPy."""
    kind = type(other)
    return kind in INTERPRETERS or find_backend(kind) is not None or adapter_of(other) is not None


def _may_answer(kind: type, reflected: str) -> bool:
    method = getattr(kind, reflected, None)
    if method is None or method is getattr(object, reflected, None):
        return False
    return kind.__module__.partition(".")[0] not in _HAVE_NO_SAY
