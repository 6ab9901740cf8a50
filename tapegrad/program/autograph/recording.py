"""Record a call, and convert the functions in which it decides by values of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tapegrad.program.autograph.branches import BranchRaised
from tapegrad.program.autograph.decided import decision_count
from tapegrad.program.autograph.registry import adopt, convert, converted_functions, is_converted
from tapegrad.program.autograph.source import NotConvertible
from tapegrad.program.loops.body_recording import NotOneLoop
from tapegrad.program.record.decisions import DecisionError, set_final

Made = TypeVar("Made")

MOST_CONVERSIONS = 100
"""After how many conversions the recording of one call ends."""


class RunEagerly(Exception):  # noqa: N818  # it never leaves the package
    """A call cannot be recorded because of its control flow; the argument says why and where."""


def recorded_with_conversions(record: Callable[[], Made], function: Any) -> Made:
    """Call `record`, which records a call of a function, until all decisions are converted."""
    adopt(getattr(function, "__func__", function))
    last = ""
    seen: set[int] = set()
    for _ in range(MOST_CONVERSIONS):
        before = decision_count()
        try:
            with converted_functions():
                return record()
        except DecisionError as error:
            last = f"{error.what} at {error.site}"
            if not error.is_convertible or is_converted(error.code):
                raise RunEagerly(last) from error
            try:
                convert(error.code, id(error.code) in seen, error.__traceback__)
                seen.add(id(error.code))
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
            raise RunEagerly(f"{_place(error)}: {error!r}") from error
    raise RunEagerly(last)


def _place(error: BaseException) -> str:
    """Return a phrase with the last line of the user's code that an error comes from."""
    found, trace = "", error.__traceback__
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__"))
        if not module.startswith("tapegrad."):
            found = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"its control flow cannot be recorded at {found}"
