"""Find the functions that the frames of a traceback refer to."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import FunctionType, MethodType, TracebackType
from typing import Any


def functions_in(trace: TracebackType | None) -> Iterator[FunctionType]:
    """Yield the functions in the variables of frames, and the methods of objects in them."""
    while trace is not None:
        frame = trace.tb_frame
        for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
            yield from _functions_of(value)
        trace = trace.tb_next


def _functions_of(value: Any) -> Iterator[FunctionType]:
    if isinstance(value, functools.partial):
        value = value.func
    if isinstance(value, MethodType):
        value = value.__func__
    if isinstance(value, FunctionType):
        yield value
        value = getattr(value, "__wrapped__", None)
    for kind in value.__mro__ if isinstance(value, type) else type(value).__mro__:
        for one in vars(kind).values():
            inner = getattr(one, "__func__", one)
            if isinstance(inner, FunctionType):
                yield inner
