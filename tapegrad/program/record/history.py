"""`gradients` differentiates inside a recorded function without a tape in the user's code.

The first call ends the recording. It is made again with a tape around the body of each function,
which watches the arguments, the variables, and the requested tensors from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tapegrad.autodiff.arguments import UnconnectedGradients
from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.call_site import call_site
from tapegrad.core.recorder import active_stack
from tapegrad.core.values import nest
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, TapeError
from tapegrad.program.record.recording import Recorded, current_recording

_watched: ContextVar[tuple[Any, ...] | None] = ContextVar("tapegrad_history", default=None)
"""What the tapes of a recording watch beside arguments and variables; None if it has no tapes."""


class HistoryNeeded(BaseException):  # it never leaves the package
    """The recording must be made again with tapes that watch these tensors and variables, too.

    Code that is being recorded may handle any Exception, and must not handle this one.
    """

    def __init__(self, watched: tuple[Any, ...]) -> None:
        super().__init__(watched)
        self.watched = watched


class HistoryTape(GradientTape):
    """A tape around the body of a function, for `gradients`; users do not see it."""

    def __init__(self) -> None:
        super().__init__(persistent=True)

    def has(self, source: Any) -> bool:
        """Return whether the tape knows everything that was computed from a source."""
        if isinstance(source, Variable):
            return source.trainable or source.number in self._variables
        return bool(self._source_nodes(source))

    def _begin(self) -> None:
        """Record the sweep without the warning that a tape of the user's code deserves."""
        self._swept = self._asked = self._found = ()


@contextmanager
def keeping_history(watched: tuple[Any, ...] | None) -> Iterator[None]:
    """Let `followed` functions in the block have tapes, which watch these values, too."""
    token = _watched.set(watched)
    try:
        yield
    finally:
        _watched.reset(token)


def with_history(record: Callable[[], Any]) -> Any:
    """Call `record`, which records a function, again with tapes if the function needs them."""
    watched: tuple[Any, ...] | None = None
    while True:
        try:
            with keeping_history(watched):
                return record()
        except HistoryNeeded as needed:
            watched = (*(watched or ()), *needed.watched)


def followed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with a tape around its body if the recording keeps a history."""
    watched = _watched.get()
    if watched is None:
        return function

    def call(*args: Any, **kwargs: Any) -> Any:
        with HistoryTape() as tape:
            for leaf in (*nest.flatten((args, kwargs)), *watched):
                if isinstance(leaf, Tensor | Variable) and leaf.dtype.is_differentiable:
                    tape.watch(leaf)
            return function(*args, **kwargs)

    return call


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    gate_gradients: bool = False,
    aggregation_method: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = UnconnectedGradients.NONE,
) -> list[Any]:
    """Return the gradients of the sum of `ys` with respect to each of `xs`, in a function.

    It works while a `function` is recorded, and needs no tape. `xs` are arguments of the function,
    variables, and what was computed from them. Outside of functions, use `GradientTape` or `grad`.

    >>> import tapegrad
    >>> @tapegrad.function
    ... def second_derivative(x):
    ...     (slope,) = gradients(x**3, x)
    ...     return gradients(slope, x)[0]
    >>> float(second_derivative(tapegrad.constant(2.0)))
    12.0
    """
    if stop_gradients is not None:
        raise ArgumentError("gradients has no stop_gradients. Use tapegrad.stop_gradient on them.")
    if current_recording() is None:
        raise TapeError(
            "gradients() works only while a tapegrad.function is recorded. Use GradientTape or "
            "tapegrad.grad elsewhere."
        )
    targets = nest.flatten(ys)
    sources = [x if isinstance(x, Variable) else to_tensor(x) for x in nest.flatten(xs)]
    tapes = _tapes_of(sources)
    results: list[Any] = [None] * len(sources)
    for tape in dict.fromkeys(tapes):  # usually there is one
        places = [place for place, other in enumerate(tapes) if other is tape]
        wanted = [sources[place] for place in places]
        found = tape.gradient(targets, wanted, grad_ys, unconnected_gradients)
        for place, gradient in zip(places, found, strict=True):
            results[place] = gradient
    return results


def _tapes_of(sources: Sequence[Any]) -> list[HistoryTape]:
    """Return the outermost tape that follows each source; end the recording if one has none."""
    tapes = [one for one in active_stack().recorders if isinstance(one, HistoryTape)]
    found = [
        next((t for t in tapes if t.has(x) or not x.dtype.is_differentiable), None) for x in sources
    ]
    watched = _watched.get()
    lost = [x for x, tape in zip(sources, found) if tape is None]
    new = [
        x for x in lost if _is_from_outside(x) and not any(x is known for known in watched or ())
    ]
    if watched is None or new:
        raise HistoryNeeded(tuple(new))
    if lost:
        raise TapeError(
            f"gradients() at {call_site()} got a source that is neither an argument of the "
            "function, nor a variable or a tensor from outside, nor computed from these. Make it "
            "an argument, or use a GradientTape that watches it."
        )
    return [tape for tape in found if tape is not None]


def _is_from_outside(source: Any) -> bool:
    """Whether a source existed before the recording."""
    recording = current_recording()
    is_made_here = recording is not None and recording.has_made(source)
    return not is_made_here and (isinstance(source, Variable) or type(source.array) is not Recorded)
