"""Record a call, and convert the functions in which it decides by values of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from tapegrad.core.call_site import is_of_user
from tapegrad.errors import ArgumentError
from tapegrad.program.autograph.decided import BranchRaised, decision_count
from tapegrad.program.autograph.element_loops import ElementLoops
from tapegrad.program.autograph.registry import adopt, convert, converted_functions, is_converted
from tapegrad.program.autograph.source import NotConvertible
from tapegrad.program.loops.body_recording import NotOneLoop
from tapegrad.program.record.decisions import DecisionError, converting, set_final
from tapegrad.program.record.effects import attempt_after
from tapegrad.program.record.history import with_history

Made = TypeVar("Made")

MOST_CONVERSIONS = 100
"""After how many conversions the recording of one call ends."""


class RunEagerly(Exception):  # noqa: N818  # it never leaves the package
    """A call cannot be recorded because of its control flow; the argument says why and where.

    `effects` is the number of prints and assertions that have happened already.
    """

    effects = 0

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    @property
    def is_by_rounds(self) -> bool:
        """Whether the rounds of a loop over a dataset are recorded."""
        return isinstance(self.reason, ByRounds)


class ByRounds(str):
    """Why a function runs its Python code and records the rounds of its loops over datasets."""

    __slots__ = ()


@contextmanager
def must_be_recorded(refusal: str) -> Iterator[None]:
    """Raise an ArgumentError that begins with `refusal` if a call in the block runs eagerly."""
    try:
        yield
    except RunEagerly as error:
        raise ArgumentError(f"{refusal}: {error.reason}.") from error


def run_python(
    reason: str, loops: ElementLoops, function: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """Run the Python code of a function that is not recorded as a whole."""
    if not isinstance(reason, ByRounds):
        return function(*args, **kwargs)
    with loops.active(), converted_functions():
        return function(*args, **kwargs)


def recorded_with_conversions(record: Callable[[], Made], function: Any) -> Made:
    """Call `record`, which records a call of a function, until all decisions are converted."""
    adopt(getattr(function, "__func__", function))
    done = Done()
    try:
        return with_history(lambda: _recorded(record, done))  # type: ignore[no-any-return]
    except RunEagerly as error:
        error.effects = done.effects
        raise


class Done:
    """What earlier attempts to record a call have done."""

    def __init__(self) -> None:
        self.effects = 0
        self.converted: set[int] = set()

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Run an attempt, in which effects of earlier ones do not happen again."""
        with attempt_after(self.effects) as attempt:
            try:
                yield
            finally:
                self.effects = max(self.effects, attempt.count)


def _recorded(record: Callable[[], Made], done: Done) -> Made:
    last = ""
    for _ in range(MOST_CONVERSIONS):
        before = decision_count()
        try:
            with converting(), converted_functions(), done.attempt():
                return record()
        except DecisionError as error:
            last = f"{error.what} at {error.site}"
            if error.reads_elements:
                raise RunEagerly(_by_rounds(error, last)) from error
            if not error.is_convertible or is_converted(error.code):
                raise RunEagerly(last) from error
            try:
                convert(error.code, id(error.code) in done.converted, error.__traceback__)
                done.converted.add(id(error.code))
            except NotConvertible as reason:
                if not error.is_optional:
                    raise RunEagerly(f"{last}: {reason}") from error
                set_final(error.code)  # it does not ask again
        except (NotConvertible, NotOneLoop, BranchRaised) as error:
            raise RunEagerly(f"{_place(error)}: {error}") from error
        except Exception as error:
            if decision_count() == before:
                raise
            # Eager mode does not run all the code that a recording runs, so it may not fail.
            shown = "RecursionError" if isinstance(error, RecursionError) else repr(error)
            raise RunEagerly(f"{_place(error)}: {shown}") from error
    raise RunEagerly(last)


def _by_rounds(error: DecisionError, reason: str) -> str:
    """Convert the function that reads a dataset, if it does so in a loop; return the reason."""
    if not is_converted(error.code):
        if not error.is_in_loop:
            return reason
        try:
            convert(error.code, False, error.__traceback__)
        except NotConvertible:
            return reason
    return ByRounds(f"{reason}; the rounds of its loop are recorded")


def _place(error: BaseException) -> str:
    """Return a phrase with the last line of the user's code that an error comes from."""
    found, trace = "", error.__traceback__
    while trace is not None:
        if is_of_user(trace.tb_frame):
            found = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"its control flow cannot be recorded at {found}"
