"""Reads of the sizes of recorded tensors by the user's code.

The user's code gets them as `Size`, and the package itself as plain ints.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from tapegrad.core.call_site import place_of
from tapegrad.core.values.sizes import Noted, is_followed, set_recorder
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.tensor_shape import TensorShape
from tapegrad.program.record.decisions import DecisionError, is_at_loop, may_convert
from tapegrad.program.record.recording import Recorded, Recording, current_recording

READERS = frozenset({
    *[("tapegrad.core.values.tensor", name) for name in ("get_shape", "size", "nbytes")],
    *[("tapegrad.numpy.grids", name) for name in ("shape", "size")],
    ("tapegrad.keras.ops.arrays", "shape"),
})  # fmt: skip
"""Functions that return sizes to their caller as they find them."""

CONVERTERS = frozenset({
    *[("tapegrad.ops.shape.functions", name) for name in ("shape", "shape_n", "size")],
})  # fmt: skip
"""Functions that return sizes as tensors, whose values cannot be followed."""

MANY_ROUNDS = 64
"""The least rounds of a `for` statement over a tensor that is converted to be recorded once."""

_tensor_length: Any = Tensor.__len__
_tensor_iterator: Any = Tensor.__iter__


def _recording_of(tensor: Any) -> tuple[Recording | None, tuple[int, ...]]:
    """Return the active recording if a tensor belongs to it, and the tensor's shape."""
    array = tensor.array
    shape = tuple(array.shape)
    return (None if type(array) is not Recorded else current_recording()), shape


def _reader(frame: FrameType | None) -> tuple[FrameType | None, bool]:
    """Return the frame that gets a size, and whether it is converted to a tensor on the way."""
    is_converted = False
    while frame is not None:
        place = (frame.f_globals.get("__name__"), frame.f_code.co_name)
        if place in CONVERTERS or (is_converted and place[1] == "<listcomp>"):
            is_converted = True
        elif place not in READERS:
            break
        frame = frame.f_back
    return frame, is_converted


def _noted_shape(tensor: Any) -> TensorShape:
    recording, shape = _recording_of(tensor)
    if recording is None:
        return TensorShape(shape)
    frame, is_converted = _reader(sys._getframe(1))
    if frame is None or not is_followed(frame):
        return TensorShape(shape)
    if is_converted:
        recording.size_notes.pin(shape)
        return TensorShape(shape)
    return TensorShape(recording.size_notes.shape(shape))


def _pin_length(tensor: Any, frame: FrameType) -> None:
    recording, shape = _recording_of(tensor)
    if recording is not None and shape and is_followed(frame):
        recording.size_notes.pin(shape[0])


def _noted_length(tensor: Any) -> Any:
    _pin_length(tensor, sys._getframe(1))
    return _tensor_length(tensor)


def _noted_iterator(tensor: Any) -> Any:
    frame = sys._getframe(1)
    _convert_loop(tensor, frame)
    _pin_length(tensor, frame)
    return _tensor_iterator(tensor)


def _convert_loop(tensor: Any, frame: FrameType) -> None:
    """Let a long `for` statement be converted, so that its body may be recorded once."""
    if current_recording() is None or not may_convert(frame.f_code) or not is_followed(frame):
        return
    shape = tensor.array.shape
    if shape and shape[0] >= MANY_ROUNDS and is_at_loop(frame):
        raise DecisionError(f"A loop at {place_of(frame)} is long.", frame, is_optional=True)


def _note(operation: Noted) -> None:
    recording = current_recording()
    if recording is not None:
        recording.size_notes.operations.append(operation)


def noting_size_reads(is_on: bool) -> None:
    """Start or stop to note how the sizes of tensors are read."""
    set_recorder(_note if is_on else None)
    if is_on:
        type.__setattr__(Tensor, "shape", property(_noted_shape))
    elif "shape" in vars(Tensor):
        type.__delattr__(Tensor, "shape")
    type.__setattr__(Tensor, "__len__", _noted_length if is_on else _tensor_length)
    type.__setattr__(Tensor, "__iter__", _noted_iterator if is_on else _tensor_iterator)
