"""A recording sees its own thread only, and only that thread sees its recorded arrays.

Variables never hold recorded arrays. While a function is recorded, the attribute `array` of all
variables is a property: the recording's thread gets the recorded arrays, which belong to the
recording, and every other thread gets the real ones. Whatever other threads write is not recorded,
and an interrupted recording has changed nothing.

The attribute `array` of tensors is a property at that time, too. It finds the tensors that the
function did not compute itself, such as those of a closure. Likewise the attributes that the thread
reads of layers, optimizers and modules are noted, and what it does with the sizes of tensors.

Outside of recordings all of them are plain attributes, which cost nothing more.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tapegrad.core.call_site import call_site
from tapegrad.core.observed import Observed
from tapegrad.core.values.sizes import Size, plain_sizes
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import RecordingError
from tapegrad.ops.indexing.views import WRITE_GUARDS
from tapegrad.program.record.recording import Recorded, Recording, current_recording, set_recording
from tapegrad.program.record.size_reads import noting_size_reads

_variable_array: Any = Variable.__dict__["array"]
_tensor_array: Any = Tensor.__dict__["array"]
_get_tensor_array, _set_tensor_array = _tensor_array.__get__, _tensor_array.__set__
# A finalizer may end an abandoned recording while this thread holds it.
_lock = threading.RLock()
_active: set[Recording] = set()
"""The recordings of all threads."""


class _VariableArray:
    """The attribute `array` of variables while a function is recorded."""

    def __get__(self, variable: Any, owner: type | None = None) -> Any:
        if variable is None:
            return self
        recording = current_recording()
        if recording is None:
            return _variable_array.__get__(variable)
        return recording.array_of(variable)

    def __set__(self, variable: Any, array: Any) -> None:
        recording = current_recording()
        if recording is None:
            _variable_array.__set__(variable, array)
        else:
            recording.assign(variable, array)


class _TensorArray:
    """The attribute `array` of tensors while a function is recorded."""

    def __get__(self, tensor: Any, owner: type | None = None) -> Any:
        if tensor is None:
            return self
        array = _get_tensor_array(tensor)
        recording = current_recording()
        if recording is None:
            return array
        if type(array) is not Recorded:
            recording.note_tensor(tensor, array)
        elif array.recording is not recording:
            recording.note_outer_tensor(tensor)
        return array

    def __set__(self, tensor: Any, array: Any) -> None:
        if type(array) is not Recorded:
            recording = current_recording()
            if recording is not None:
                recording.note_new_tensor(tensor)
        _set_tensor_array(tensor, array)


@contextmanager
def recorded_by(recording: Recording) -> Iterator[None]:
    """Record what this thread computes inside the block."""
    around = current_recording()  # that of a loop, if this is the one of its body
    try:
        _active.add(recording)
        _update_attributes()
        set_recording(recording)
        yield
    finally:
        if current_recording() in (recording, None):
            set_recording(around)
        _active.discard(recording)
        _update_attributes()


def _update_attributes() -> None:
    """Set the attributes that fit the active recordings.

    An interrupt at the end of a recording leaves properties, which the next recording removes.
    """
    with _lock:
        _active.difference_update([one for one in [*_active] if one.closed])
        noting_size_reads(bool(_active))
        if not _active:
            _set_attributes(_variable_array, _tensor_array, {})
        else:  # also those that are set, since an interrupt may have left some of them unset
            _set_attributes(_VariableArray(), _TensorArray(), _OBSERVED)


def _set_attributes(of_variables: Any, of_tensors: Any, of_observed: dict[str, Any]) -> None:
    type.__setattr__(Variable, "array", of_variables)
    type.__setattr__(Tensor, "array", of_tensors)
    type.__setattr__(Observed, "__setattr__", of_observed.get("__setattr__", _set))
    if of_observed:
        type.__setattr__(Observed, "__getattribute__", of_observed["__getattribute__"])
    elif "__getattribute__" in vars(Observed):
        type.__delattr__(Observed, "__getattribute__")


_set: Any = Observed.__setattr__


def _set_noted(self: Observed, name: str, value: Any) -> None:
    """Write an attribute of an observed object while a function is recorded."""
    recording = current_recording()
    if type(value) is Size and recording is not None:
        recording.size_notes.pin(plain_sizes(value))  # whoever reads it cannot follow it
    _set(self, name, plain_sizes(value))
    if recording is not None:
        recording.note_write(self, name)


def _get_noted(self: Observed, name: str) -> Any:
    """Read an attribute of an observed object while a function is recorded."""
    recording = current_recording()
    if recording is None:
        return object.__getattribute__(self, name)
    try:
        value = object.__getattribute__(self, name)
    except AttributeError:
        recording.note_read(self, name)  # the attribute may be added later
        raise
    if name in object.__getattribute__(self, "__dict__"):
        recording.note_read(self, name, value)
    return value


def _refuse_outside_write(tensor: Any) -> None:
    """Raise if the function that is being recorded writes to a tensor that it did not make."""
    recording = current_recording()
    if recording is None:
        return
    if recording.branch_writes is not None:
        recording.branch_writes.note(tensor)
    if not isinstance(tensor, Tensor):
        return
    array = _tensor_array.__get__(tensor)
    if type(array) is Recorded:
        recording.check_write(array)
    elif not recording.has_made(tensor):
        raise RecordingError(
            f"A function that is being recorded writes to a tensor from outside at {call_site()}. "
            "Later calls replay the recording and would not write to it. Pass the tensor as an "
            "argument, use a Variable, or run the function eagerly with "
            "function(jit=False)."
        )


WRITE_GUARDS.append(_refuse_outside_write)


_OBSERVED = {"__getattribute__": _get_noted, "__setattr__": _set_noted}


def _start_child() -> None:
    """Forget the recordings of the parent's other threads, which do not exist in a forked child."""
    global _lock
    _lock = threading.RLock()
    own = current_recording()
    _active.intersection_update([] if own is None else [own])
    _update_attributes()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_child)
