"""The user's functions in a pipeline: how they are called, and what is said if they fail."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any

from tapegrad.core.device import device
from tapegrad.data.structure import to_host, to_host_tensors
from tapegrad.errors import ArgumentTypeError
from tapegrad.program.turns import working

_NOTE = "This happened in the step"


class noting:  # noqa: N801  # a function to its users
    """Add the name of the step to errors, whichever thread they are raised in."""

    __slots__ = ("_step",)

    def __init__(self, step: str) -> None:
        self._step = step

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, StopIteration):
            # It would end the loop of whoever reads the dataset, as if all had been read.
            message = f"The step {self._step} of a tapegrad dataset raised StopIteration."
            raise RuntimeError(message) from error
        # The innermost step is where it happened; those around it only passed it on.
        if isinstance(error, Exception) and not is_noted(error):
            error.add_note(f"{_NOTE} {self._step} of a tapegrad dataset.")


def is_noted(error: Exception) -> bool:
    """Tell whether an error has been seen by a step, as those of the user's functions are."""
    return any(note.startswith(_NOTE) for note in getattr(error, "__notes__", ()))


class Call:
    """A function of the user's, run eagerly on the host, unseen by tapes and recordings.

    It gets the entries of a tuple as arguments, and anything else as one argument.
    """

    def __init__(self, step: str, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise ArgumentTypeError(
                f"{step} takes a function. Got {type(function).__name__}: {function!r}."
            )
        self._function = function
        self._name = f"{step}({getattr(function, '__name__', type(function).__name__)})"
        self._step = step
        self._context = Context().run(_host_context)

    def raw(self, element: Any) -> Any:
        """Return what the function returns for a host element, as it is."""
        with noting(self._name):
            return self._context.copy().run(self._called, element)

    def __call__(self, element: Any) -> Any:
        """Return what the function returns as a host element."""
        with noting(self._name):
            return to_host(self._context.copy().run(self._called, element), self._step)

    def _called(self, element: Any) -> Any:
        tensors = to_host_tensors(element)
        with working():
            return self._function(*tensors) if type(tensors) is tuple else self._function(tensors)


def _host_context() -> Context:
    """A context without recorders, in which new tensors are placed on the host."""
    with device("cpu"):
        return copy_context()
