"""Decisions by the values of tensors while a function is recorded.

A replay would not decide again, so a decision in Python ends the recording. The function that
decides is converted then, and recorded again; see `tapegrad.program.autograph`.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType, FrameType

from tapegrad.core.call_site import place_of
from tapegrad.errors import RecordingError

_final: dict[int, CodeType] = {}
_converts: ContextVar[bool] = ContextVar("tapegrad_conversions", default=False)

_GET_ITER, _FOR_ITER = dis.opmap["GET_ITER"], dis.opmap["FOR_ITER"]


class DecisionError(RecordingError):
    """The Python code decides by a value that the recording computes.

    `code` is that of the function that decides, and `site` its line. The recording can be made
    without a conversion if the decision `is_optional`, and a conversion does not help unless it
    `is_convertible`. If it `reads_elements` of a dataset in a loop, the rounds can be recorded.
    """

    # Keras rewrites errors of layers, but not those with this mark; the recorder needs this one.
    _keras_call_info_injected = True

    def __init__(
        self,
        message: str,
        frame: FrameType,
        is_optional: bool = False,
        what: str = "it decides by the value of a tensor",
        is_convertible: bool = True,
        reads_elements: bool = False,
    ) -> None:
        super().__init__(message)
        self.what = what
        self.is_convertible = is_convertible
        self.reads_elements = reads_elements
        self.is_in_loop = is_next_of_loop(frame) or (reads_elements and is_inside_loop(frame))
        self.code = frame.f_code
        self.site = place_of(frame)
        self.is_optional = is_optional


def set_final(code: CodeType) -> None:
    """Note that a function has been converted, or cannot be."""
    _final[id(code)] = code  # keeps the number from being reused


def may_convert(code: CodeType) -> bool:
    """Whether the recording can be made again with a function converted."""
    return _converts.get() and _final.get(id(code)) is not code


@contextmanager
def converting() -> Iterator[None]:
    """Let recordings inside the block end at decisions that a conversion would record."""
    token = _converts.set(True)
    try:
        yield
    finally:
        _converts.reset(token)


def error_of_read(message: str, frame: FrameType, called: FrameType) -> RecordingError:
    """Return the error of user's code that reads a value in a frame by the function it called."""
    name = called.f_code.co_name
    if name == "__bool__":
        return DecisionError(message, frame)
    if name == "__index__" and may_convert(frame.f_code):
        # `range(n)` in a loop can be converted; other uses of numbers cannot.
        return DecisionError(message, frame, is_optional=True)
    return RecordingError(message)


def is_next_of_loop(frame: FrameType) -> bool:
    """Whether a frame is in a `for` statement that asks for the next entry."""
    return frame.f_code.co_code[frame.f_lasti] == _FOR_ITER


def is_inside_loop(frame: FrameType) -> bool:
    """Whether the instruction of a frame is in a `for` statement of its function."""
    code = [*dis.get_instructions(frame.f_code)]
    spans = [(one.offset, one.argval) for one in code if one.opcode == _FOR_ITER]
    return any(start < frame.f_lasti < end for start, end in spans)


def is_at_loop(frame: FrameType) -> bool:
    """Whether a frame has just begun a `for` statement, and not a comprehension or a call."""
    code, place = frame.f_code.co_code, frame.f_lasti
    return code[place] == _GET_ITER and code[place + 2] == _FOR_ITER
