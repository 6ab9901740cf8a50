"""Effects of programs in files: prints and assertions, which are data and no code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tapegrad.errors import FileFormatError
from tapegrad.program.record.checks import ERRORS, TESTS, Assertion, Check, SavedAssertionError
from tapegrad.program.record.effects import Action, Print, print_again


def effect_as_data(action: Any) -> tuple[str, dict[str, Any]]:
    """Return the name and the parameters of an effect, or raise a TypeError.

    >>> effect_as_data(Assertion(["x is negative"]))
    ('assert', {'message': ['x is negative']})
    """
    if isinstance(action, Print) and action.stream in (None, sys.stdout, sys.stderr):
        to_output = action.stream is not None and action.stream is not sys.stderr
        given = {"pieces": action.pieces, "to_output": to_output, "summarize": action.summarize}
        return "print", given
    if isinstance(action, Check):
        return "check", {name: getattr(action, name) for name in (*_TEXTS, "message", "options")}
    if isinstance(action, Assertion):
        return "assert", {"message": action.message}
    raise TypeError(f"{action!r} is no data.")


def _print(params: dict[str, Any], values: int) -> Print:
    pieces = params.get("pieces")
    if not isinstance(pieces, list) or not all(
        [type(one) is str or (type(one) is int and one in range(values)) for one in pieces]
    ):
        raise FileFormatError(f"A print in the program has the text {pieces!r:.99}.")
    return print_again(pieces, params.get("to_output") is True, int(params.get("summarize", 3)))


def _check(params: dict[str, Any], values: int) -> Check:
    texts = [params.get(name) for name in _TEXTS]
    options, message = params.get("options"), params.get("message")
    is_known = texts[0] in TESTS and texts[3] in ERRORS
    are_texts = all([type(one) is str for one in [*texts, message or ""]])
    if not is_known or not are_texts or not isinstance(options, dict):
        raise FileFormatError(f"An assertion in the program has the test {texts[0]!r:.99}.")
    test, wanted, place, error = map(str, texts)
    return Check(test, wanted, message, place, error, options)


def _assertion(params: dict[str, Any], values: int) -> Assertion:
    message = params.get("message")
    if not isinstance(message, list) or not values:
        raise FileFormatError(f"An assertion in the program has the message {message!r:.99}.")
    return Assertion(message, SavedAssertionError)


_TEXTS = ("test", "wanted", "place", "error")

EFFECTS: dict[str, Callable[[dict[str, Any], int], Action]] = {
    "print": _print,
    "check": _check,
    "assert": _assertion,
}
"""What makes an effect from its parameters in a file and the number of its values."""
