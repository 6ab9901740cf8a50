"""Side effects of programs: print values and check assertions.

Inside a recorded function, effects are steps of the program, which keep their order and are never
merged. They read values on the host, so on a GPU they run between CUDA graphs. In a branch that is
not taken they do nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any

import numpy as np

from tapegrad.core.backend.registry import backend_of
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.core.values import host, nest
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.strings import StringTensor, shown_texts
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentTypeError
from tapegrad.program.record.recording import current_recording

Action = Callable[[Sequence[np.ndarray]], None]

_silent: ContextVar[bool] = ContextVar("tapegrad_silent", default=False)
_withheld: ContextVar[bool] = ContextVar("tapegrad_withheld", default=False)


@contextmanager
def silence() -> Iterator[None]:
    """Disable effects inside the block, which repeats an earlier computation."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


@contextmanager
def without_effects() -> Iterator[None]:
    """Record effects inside the block, but let them not happen: the call itself is not made."""
    token = _withheld.set(True)
    try:
        yield
    finally:
        _withheld.reset(token)


def _act(xp: Any, condition: Any, *arrays: Any, action: Action) -> Any:
    """Call `action` with the values on the host if the condition is true; return the condition."""
    is_silent = _silent.get() or _withheld.get()
    if not is_silent and bool(backend_of(condition).to_host(condition)):
        _happen(action, lambda: [backend_of(array).to_host(array) for array in arrays])
    return condition


class Attempt:
    """One of several attempts to run the same code; counts the effects that have happened."""

    def __init__(self, before: int) -> None:
        self._before = before
        self.count = 0

    def is_next_done(self) -> bool:
        """Whether an earlier attempt has had the next effect."""
        return self.count < self._before


_attempt: ContextVar[Attempt | None] = ContextVar("tapegrad_attempt", default=None)


@contextmanager
def attempt_after(count: int) -> Iterator[Attempt]:
    """Run code of which the first effects have happened in an earlier attempt."""
    found = Attempt(count)
    token = _attempt.set(found)
    try:
        yield found
    finally:
        _attempt.reset(token)


def _happen(action: Action, values: Callable[[], Sequence[np.ndarray]]) -> None:
    attempt = _attempt.get()
    if attempt is None:
        action(values())
        return
    if not attempt.is_next_done():
        action(values())
    attempt.count += 1


act_p = Primitive("act", _act, differentiable=False)
act_p.effects = True


def act(action: Action, tensors: Sequence[Any], how: str) -> None:
    """Call `action` with the values of tensors, now and in each replay of a recorded function."""
    if _silent.get():
        return
    arrays = [tensor.array for tensor in tensors]
    recording = current_recording()
    if recording is None:
        _happen(action, lambda: [host.fetch(array, None, how) for array in arrays])
        return
    if recording.condition is None:
        condition: Any = recording.adopted(to_tensor(True).array)
    else:
        condition = recording.condition.array
    recording.run(act_p, [condition, *map(recording.adopted, arrays)], {"action": action})


class _Shown:
    """The placeholder of a tensor in a printed structure."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


class Print:
    """A print action: text with the numbers of the tensors that are printed between.

    >>> Print(["x is ", 0, "\\n"], sys.stdout)([np.array([1.0, 2.0])])
    x is [1. 2.]
    """

    def __init__(self, pieces: Sequence[str | int], stream: Any = None, summarize: int = 3) -> None:
        self.pieces = [*pieces]
        self.stream = stream
        self.summarize = summarize

    def __repr__(self) -> str:
        return "print"

    def __call__(self, values: Sequence[np.ndarray]) -> None:
        texts = [
            piece if isinstance(piece, str) else _text(values[piece], self.summarize)
            for piece in self.pieces
        ]
        stream = sys.stderr if self.stream is None else self.stream
        stream.write("".join(texts))


def print_again(pieces: Sequence[str | int], to_output: bool, summarize: int) -> Print:
    """Return the action of a `print` that was read from a file."""
    return Print(pieces, _Output() if to_output else None, summarize)


class _Output:
    """Standard output at the time of writing, which tests and notebooks replace."""

    def write(self, text: str) -> None:
        sys.stdout.write(text)


def _pieces(inputs: Sequence[Any], sep: str, end: str) -> list[str | int]:
    """Return what is printed, with the numbers of tensors in their places."""
    flat = nest.flatten(list(inputs))
    numbers = count()
    leaves = [
        _Shown(f"\0{next(numbers)}\0") if _has_value(leaf) else _without_repr(leaf) for leaf in flat
    ]
    shown = nest.pack_sequence_as(list(inputs), leaves)
    parts = re.split("\0([0-9]+)\0", sep.join(map(str, shown)) + end)
    return [int(part) if place % 2 else part for place, part in enumerate(parts)]


def _without_repr(leaf: Any) -> Any:
    """Return text as it is printed, which is known when a function is recorded."""
    return _Shown(shown_texts(leaf.array)) if isinstance(leaf, StringTensor) else leaf


def _has_value(leaf: Any) -> bool:
    return isinstance(leaf, Tensor | Variable)


def _text(value: np.ndarray, summarize: int) -> str:
    if value.ndim == 0:
        return str(value[()])
    most = sys.maxsize if summarize < 0 else 2 * summarize
    edge = None if summarize < 0 else summarize
    return np.array2string(value, threshold=most, edgeitems=edge)


def print_tensors(
    *inputs: Any,
    output_stream: Any = None,
    summarize: int = 3,
    sep: str = " ",
    end: str = "\n",
    name: str | None = None,
) -> None:
    """Print values like TensorFlow's `tf.print`; a recorded function prints on each call.

    `output_stream` is a file (standard error if None). Of long axes, the first and the last
    `summarize` entries are printed, or all with -1.

    >>> import sys
    >>> import tapegrad
    >>> tapegrad.print("x is", tapegrad.constant([1.0, 2.0]), output_stream=sys.stdout)
    x is [1. 2.]
    """
    if output_stream is not None and not hasattr(output_stream, "write"):
        raise ArgumentTypeError(
            "output_stream must be a file such as sys.stdout. "
            f"Got an output_stream of type {type(output_stream).__name__}."
        )
    tensors = [leaf for leaf in nest.flatten(list(inputs)) if _has_value(leaf)]
    act(Print(_pieces(inputs, sep, end), output_stream, summarize), tensors, "print()")
