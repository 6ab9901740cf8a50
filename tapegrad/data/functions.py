"""Calls of user functions in a pipeline, and notes about them in errors."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any

from tapegrad.core.values.device import device
from tapegrad.core.values.strings import StringTensor
from tapegrad.core.values.tensor import Tensor
from tapegrad.data.captured import with_current_values
from tapegrad.data.structure import own_host, to_host_tensors
from tapegrad.errors import ArgumentTypeError
from tapegrad.program.record.recording_lock import working

_TENSORS = (Tensor, StringTensor)
_NOTE = "This happened in the step"


class annotate_errors:  # noqa: N801  # a function to its users
    """Add the name of the step to errors, in whichever thread they are raised."""

    __slots__ = ("_step",)

    def __init__(self, step: str) -> None:
        self._step = step

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, StopIteration):
            # StopIteration would end the loop that reads the dataset, as if it were complete.
            message = f"The step {self._step} of a tapegrad dataset raised StopIteration."
            raise RuntimeError(message) from error
        # Only the innermost step adds a note; the error passes through the outer ones.
        if isinstance(error, Exception) and not is_annotated(error):
            error.add_note(f"{_NOTE} {self._step} of a tapegrad dataset.")


def is_annotated(error: Exception) -> bool:
    """Return whether an error carries the note of a step."""
    return any(note.startswith(_NOTE) for note in getattr(error, "__notes__", ()))


class Call:
    """A user function, run eagerly on the host, without tapes and recordings.

    The entries of a tuple become separate arguments; any other element is one argument.
    """

    def __init__(self, step: str, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise ArgumentTypeError(
                f"{step} takes a function. Got {type(function).__name__}: {function!r}."
            )
        self._function = with_current_values(function)
        self._name = f"{step}({getattr(function, '__name__', type(function).__name__)})"
        self._step = step
        self._context = Context().run(_host_context)

    def raw(self, element: Any) -> Any:
        """Return the function's result for a host element, unconverted."""
        with annotate_errors(self._name):
            return self._context.copy().run(self._called, element)

    def __call__(self, element: Any) -> Any:
        """Return the function's result, converted to a host element."""
        with annotate_errors(self._name):
            result = self._context.copy().run(self._called, element)
            if type(result) is list and any([isinstance(one, _TENSORS) for one in result]):
                result = tuple(result)  # e.g. of decode_csv, as in TensorFlow
            # A function may fill the same array in every call, but not the same tensor.
            return own_host(result, self._step, are_new=_TENSORS)

    def _called(self, element: Any) -> Any:
        tensors = to_host_tensors(element)
        with working():
            return self._function(*tensors) if type(tensors) is tuple else self._function(tensors)


def _host_context() -> Context:
    """Return a context without recorders, in which new tensors are placed on the host."""
    with device("cpu"):
        return copy_context()
