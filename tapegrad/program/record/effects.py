"""Side effects of programs: print values and check assertions.

Inside a recorded function, effects are steps of the program, which keep their order and are never
merged. They read values on the host, so on a GPU they run between CUDA graphs. In a branch that is
not taken they do nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
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


class _Print:
    """A print action: a structure with placeholders for tensors."""

    def __init__(
        self, inputs: Sequence[Any], stream: Any, summarize: int, sep: str, end: str
    ) -> None:
        flat = nest.flatten(list(inputs))
        self._structure = nest.pack_sequence_as(list(inputs), [None] * len(flat))
        self._leaves = [_PLACE if _has_value(leaf) else _without_repr(leaf) for leaf in flat]
        self._stream = stream
        self._summarize = summarize
        self._sep = sep
        self._end = end

    def __repr__(self) -> str:
        return "print"

    def __call__(self, values: Sequence[np.ndarray]) -> None:
        texts = iter([_Shown(_text(value, self._summarize)) for value in values])
        leaves = [next(texts) if leaf is _PLACE else leaf for leaf in self._leaves]
        shown = nest.pack_sequence_as(self._structure, leaves)
        stream = sys.stderr if self._stream is None else self._stream
        stream.write(self._sep.join(map(str, shown)) + self._end)


_PLACE = object()


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
    act(_Print(inputs, output_stream, summarize, sep, end), tensors, "print()")
