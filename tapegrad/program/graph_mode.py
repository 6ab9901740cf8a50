"""TensorFlow's names for code that runs while a graph is built, where tapegrad records a function.

Operations have no names and run in the order of the program, so most of these have little to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from tapegrad.core.recorder import EMPTY, using_stack
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentTypeError
from tapegrad.program.record.recording import current_recording, set_recording

_scope: ContextVar[str] = ContextVar("tapegrad_name_scope", default="")


def executing_eagerly() -> bool:
    """Return whether operations run now and for this call only: not while a function is recorded.

    >>> executing_eagerly()
    True
    """
    return current_recording() is None


def inside_function() -> bool:
    """Return whether the code runs in a function that is being recorded.

    >>> inside_function()
    False
    """
    return not executing_eagerly()


class name_scope(ContextDecorator):  # noqa: N801  # TensorFlow's name
    """Enter a scope of names; the block gets the whole name, with the scopes around it.

    Only the code of the program sees the name: operations have no names, and those of variables are
    the ones that they were given.

    >>> with name_scope("model"), name_scope("layer") as name:
    ...     name
    'model/layer/'
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise ArgumentTypeError(
                f"name_scope takes a string as the name. Got {type(name).__name__}: {name!r}."
            )
        self.name = name

    def __enter__(self) -> str:
        around = _scope.get()
        if self.name.endswith("/"):  # a whole name, as an earlier block got it
            entered = self.name
        else:
            entered = f"{around}{self.name}/" if self.name else ""
        _scope.set(entered)
        self._around = around
        return entered

    def __exit__(self, *_: object) -> None:
        _scope.set(self._around)

    def _recreate_cm(self) -> name_scope:
        return name_scope(self.name)  # a decorated function may call itself


def is_symbolic_tensor(tensor: Any) -> bool:
    """Return whether a value is a tensor of a function that is being recorded, or one of Keras.

    >>> is_symbolic_tensor([1.0])
    False
    """
    if isinstance(tensor, Tensor):
        return inside_function()
    return hasattr(tensor, "keras_history") or type(tensor).__name__ == "KerasTensor"


def get_static_value(tensor: Any, partial: bool = False) -> Any:
    """Return the value of a tensor as an array, or None while a function is recorded.

    >>> get_static_value([1, 2]).tolist()
    [1, 2]
    """
    if not isinstance(tensor, Tensor):
        return np.asarray(tensor)
    return None if inside_function() else tensor.numpy()


def tuple_of(tensors: Any, control_inputs: Any = None, name: str | None = None) -> list[Any]:
    """Return the tensors in a list: all of them have been computed already.

    >>> tuple_of([1, 2])
    [1, 2]
    """
    if not isinstance(tensors, list | tuple):
        raise ArgumentTypeError(f"tuple takes a list of tensors. Got {type(tensors).__name__}.")
    return list(tensors)


@contextmanager
def control_dependencies(control_inputs: Any) -> Iterator[None]:
    """Run the block after the given operations, which have run already.

    Operations run in the order of the program. In a recorded function assignments, prints and
    assertions keep this order, so nothing is left to do.

    >>> import tapegrad
    >>> total = tapegrad.Variable(0.0)
    >>> with control_dependencies([total.assign_add(2.0)]):
    ...     float(total)
    2.0
    """
    if control_inputs is not None and not isinstance(control_inputs, list | tuple):
        raise ArgumentTypeError(
            "control_dependencies takes a list of tensors and operations, or None. "
            f"Got {type(control_inputs).__name__}."
        )
    yield


@contextmanager
def init_scope() -> Iterator[None]:
    """Run the block eagerly, unseen by tapes and by the function that is being recorded.

    The block runs once, when the function is recorded, e.g. to make a variable. It cannot use the
    tensors that the function computes.

    >>> import tapegrad
    >>> @tapegrad.function
    ... def is_eager(x):
    ...     with tapegrad.init_scope():
    ...         inside = executing_eagerly()
    ...     return inside, executing_eagerly()
    >>> is_eager(tapegrad.constant(1.0))
    (True, False)
    """
    recording = current_recording()
    with using_stack(EMPTY):
        set_recording(None)
        try:
            yield
        finally:
            set_recording(recording)


def group(*inputs: Any, name: str | None = None) -> None:
    """Accept operations that belong together and return None: all of them have run already.

    >>> import tapegrad
    >>> a, b = tapegrad.Variable(0.0), tapegrad.Variable(0.0)
    >>> group(a.assign(1.0), b.assign(2.0))
    >>> float(a + b)
    3.0
    """


def no_op(name: str | None = None) -> None:
    """Do nothing, e.g. in a branch of `cond`.

    >>> no_op()
    """
