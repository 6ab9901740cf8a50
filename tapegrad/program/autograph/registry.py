"""The functions that have been converted, and their code while a recording is active.

A converted function keeps its original code except during recordings: eager calls, debuggers and
profilers see the user's code. Converted code computes the same, so other threads may run it.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, TracebackType
from typing import Any

from tapegrad.program.autograph import operators
from tapegrad.program.autograph.code import converted_code, inner_codes
from tapegrad.program.autograph.frames import functions_in
from tapegrad.program.autograph.source import NotConvertible
from tapegrad.program.record.decisions import set_final

_lock = threading.RLock()
_converted: dict[int, tuple[CodeType, CodeType]] = {}
"""Original and converted code, by the number of the original one."""
_made: dict[int, CodeType] = {}
"""The code of all converted functions, and of the functions in them."""
_functions: weakref.WeakSet[FunctionType] = weakref.WeakSet()
_active = 0


def convert(code: CodeType, is_again: bool, trace: TracebackType | None) -> None:
    """Convert the functions that have a code object, from the next recording on.

    Raise `NotConvertible` if that is impossible. `is_again` if they have been converted for this
    recording and still decide: then the function that defines them anew is converted with them.
    `trace` leads to the call, in whose frames functions are found that the garbage collector does
    not know, because `gc.freeze` was called.
    """
    with _lock:
        if not is_again:
            known = [*_all_functions(code.co_filename), *functions_in(trace)]
            _add(code, [one for one in known if one.__code__ is code])
            return
        around = _around(code)
        if around is None:
            raise NotConvertible(f"the function that defines {code.co_name!r} is not known")
        _add(*around)


def _add(code: CodeType, owners: list[FunctionType]) -> None:
    if id(code) not in _converted:
        try:
            made = converted_code(code, operators)
        except NotConvertible:
            set_final(code)
            raise
        _converted[id(code)] = code, made
        for one in inner_codes(made):
            set_final(one)
            _made[id(one)] = one
    _functions.update(owners)


def _around(code: CodeType) -> tuple[CodeType, list[FunctionType]] | None:
    """Return the code that defines a function, which has not been converted, and its functions."""
    owners = [
        one
        for one in _all_functions(code.co_filename)
        if one.__code__ is not code
        and id(one.__code__) not in _converted
        and any(inner is code for inner in inner_codes(one.__code__))
    ]
    if not owners:
        return None
    inner = min(owners, key=lambda one: len(inner_codes(one.__code__)))
    return inner.__code__, [one for one in owners if one.__code__ is inner.__code__]


def _all_functions(filename: str) -> list[FunctionType]:
    """Return the functions of a file."""
    return [
        one
        for one in gc.get_objects()
        if type(one) is FunctionType and one.__code__.co_filename == filename
    ]


def is_converted(code: CodeType) -> bool:
    """Whether a code object is the result of a conversion."""
    return id(code) in _made


def adopt(function: Any) -> None:
    """Register a function whose code has been converted for another one, such as a new closure."""
    code = getattr(function, "__code__", None)
    if type(function) is FunctionType and id(code) in _converted:
        with _lock:
            _functions.add(function)


@contextmanager
def converted_functions() -> Iterator[None]:
    """Let converted functions run their converted code inside the block."""
    global _active
    if not _functions:
        yield
        return
    with _lock:
        _active += 1
        for one in [*_functions]:
            pair = _converted.get(id(one.__code__))
            if pair is not None:
                one.__code__ = pair[1]
    try:
        yield
    finally:
        with _lock:
            _active -= 1
            if not _active:
                _restore()


def _restore() -> None:
    originals = {id(made): code for code, made in _converted.values()}
    for one in [*_functions]:
        original = originals.get(id(one.__code__))
        if original is not None:
            one.__code__ = original
