"""Steps that happen completely or not at all.

All variables of a step change together: one `apply_gradients`, one call of a program, one
`restore`, one update of a metric. If an exception ends the step, none has changed, or all have. The
exception may be any: an error, Ctrl-C, one that a signal handler or another thread raises.

Python delivers interrupts, switches threads and calls trace functions between its instructions,
never inside one call of a function that is written in C. So a step computes first and then replaces
all arrays in one such call, `store`. Three tools cover steps that cannot compute everything first:

- `restoring` keeps the old arrays and puts them back after an exception. It needs memory for both.
- `apply_parts` stores part by part and needs memory for one part. After an exception it completes
  the remaining parts and then raises it again.
- `deferring_signals` delays Ctrl-C and other signals, for kernels that write in place and are
  launched by Python code.
"""

from __future__ import annotations

import importlib
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

from tapegrad.core.backend.protocol import Array
from tapegrad.core.update_lock import other_threads, updating, updating_alone
from tapegrad.core.values.variable import Variable

_slot: Any = Variable.__dict__["array"]
array_of: Callable[[Variable], Array] = _slot.__get__
"""Return the real array of a variable, by a function in C."""
set_array: Callable[[Variable, Array], None] = _slot.__set__
"""Replace the real array of a variable, by a function in C; returns None."""

remove_array: Callable[[Variable], None] = _slot.__delete__
"""Take the real array from a variable, by a function in C; returns None."""

_exhaust = deque[Any](maxlen=0).extend
_ARRAY = repeat("array")
_is_recording: Callable[[], Any] = bool
"""Whether this thread records a function; variables then have other arrays than the real ones."""


def set_recording_check(check: Callable[[], Any]) -> None:
    """Set the function that says whether this thread records a function."""
    global _is_recording
    _is_recording = check


Part = tuple[Callable[..., tuple[list[Variable], list[Array]]], tuple[Any, ...]]
"""A function and its arguments. It computes the new arrays of variables and changes nothing."""


def arrays_of(variables: Iterable[Variable]) -> list[Array]:
    """Return the real arrays of variables; wait for those that a program overwrites.

    >>> len(arrays_of([Variable(1.0), Variable(2.0)]))
    2
    """
    try:
        return [*map(array_of, variables)]
    except AttributeError:
        with updating:
            return [*map(array_of, variables)]


def note_overwriting(variables: Iterable[Variable]) -> None:
    """Let other threads see that the arrays of variables have new values; needs the lock."""
    for variable in variables:
        variable.overwritten += 1


def store(variables: Sequence[Variable], arrays: Sequence[Array]) -> None:
    """Replace the arrays of several variables at once.

    >>> a, b = Variable(1.0), Variable(2.0)
    >>> store([a, b], [b.array, a.array])
    >>> float(a), float(b)
    (2.0, 1.0)
    """
    if _is_recording():
        for variable, array in zip(variables, arrays, strict=True):
            variable.array = array
        return
    # The old arrays are freed after the call, since a finalizer may run Python code.
    old = arrays_of(variables)
    _exhaust(map(set_array, variables, arrays))
    del old


def assign_together(variables: Sequence[Variable], values: Iterable[Any]) -> None:
    """Assign a value to each of several variables; if one does not fit, none changes.

    >>> a, b = Variable(1.0), Variable([2.0])
    >>> assign_together([a, b], [3.0, [4.0]])
    >>> float(a), b.numpy()
    (3.0, array([4.], dtype=float32))
    """
    arrays = [v.fitted(value) for v, value in zip(variables, values, strict=True)]
    with updating_alone():
        store(variables, arrays)


def call_with_arrays(
    variables: Sequence[Variable], arrays: Sequence[Array], function: Callable[..., Any], *args: Any
) -> Any:
    """Return `function(*args)` while variables have other arrays; then they get theirs back.

    >>> v = Variable(1.0)
    >>> call_with_arrays([v], [Variable(2.0).array], lambda: float(v)), float(v)
    (2.0, 1.0)
    """
    change: Callable[[Variable, Array], None] = _assign if _is_recording() else set_array
    before = [variable.array for variable in variables]
    # Made before the block, so that one call in C puts the arrays back.
    back = map(change, variables, before)
    try:
        _exhaust(map(change, variables, arrays))
        return function(*args)
    finally:
        _exhaust(back)


def _assign(variable: Variable, array: Array) -> None:
    variable.array = array


class restoring:  # noqa: N801  # used like a function
    """Give variables their old values back if the block raises an exception.

    >>> v = Variable(1.0)
    >>> try:
    ...     with restoring([v]):
    ...         _ = v.assign(2.0)
    ...         raise KeyboardInterrupt
    ... except KeyboardInterrupt:
    ...     print(float(v))
    1.0
    """

    __slots__ = ("_arrays", "_variables")

    def __init__(self, variables: Iterable[Variable]) -> None:
        self._variables = list(variables)

    def __enter__(self) -> None:
        self._arrays = [variable.array for variable in self._variables]

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            store(self._variables, self._arrays)


class Progress:
    """How many parts of a step are stored."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        # Its number is written like the array of a variable, in the call that stores a part.
        self.count: Any = object.__new__(Variable)
        set_array(self.count, 0)

    @property
    def stored(self) -> int:
        return int(array_of(self.count))


def apply_parts(parts: Sequence[Part], progress: Progress | None = None) -> None:
    """Compute and store part by part; an exception after the first store ends no step halfway.

    The remaining parts are then completed, and the exception is raised again. A part must not
    raise an error unless it is the first: everything that can fail is checked before.

    >>> a, b = Variable(1.0), Variable(2.0)
    >>> apply_parts([(lambda x: ([x], [b.array]), (a,)), (lambda x: ([x], [a.array]), (b,))])
    >>> float(a), float(b)
    (2.0, 2.0)
    """
    if _is_recording():  # an exception drops the whole recording
        for function, given in parts:
            store(*function(*given))
        return
    progress = Progress() if progress is None else progress
    try:
        _apply_rest(parts, progress)
    except BaseException:
        if progress.stored:
            _apply_rest(parts, progress)
        raise


def _apply_rest(parts: Sequence[Part], progress: Progress) -> None:
    """Apply the parts that are not stored yet."""
    done = progress.count
    for number in range(array_of(done), len(parts)):
        function, given = parts[number]
        variables, arrays = function(*given)
        if other_threads():  # one that records makes `array` a property
            _exhaust(map(set_array, (*variables, done), (*arrays, number + 1)))
        else:
            _exhaust(map(setattr, (*variables, done), _ARRAY, (*arrays, number + 1)))


_fast: Any = importlib.import_module("_signal")
"""The functions of `signal` without its enumerations, which take 20 times as long."""

_SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)


class deferring_signals:  # noqa: N801  # used like a function
    """Delay signals with a Python handler until the block ends; only in the main thread.

    Python runs handlers in the main thread, so other threads are never interrupted by them.

    >>> before = signal.signal(signal.SIGINT, signal.default_int_handler)
    >>> try:
    ...     with deferring_signals():
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("all of the step")
    ... except KeyboardInterrupt:
    ...     print("the interrupt")
    all of the step
    the interrupt
    >>> _ = signal.signal(signal.SIGINT, before)
    """

    __slots__ = ("_handlers", "_seen")

    def __enter__(self) -> None:
        self._seen: list[int] = []
        self._handlers: dict[int, Any] = {}
        if threading.get_ident() != threading.main_thread().ident:
            return
        for number in _SIGNALS:
            handler = _fast.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
                _fast.signal(number, self._note)

    def _note(self, number: int, frame: Any) -> None:
        self._seen.append(number)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            if _fast.getsignal(number) == self._note:  # the block may have set another one
                _fast.signal(number, handler)
        for number in self._seen:
            self._handlers[number](number, None)
