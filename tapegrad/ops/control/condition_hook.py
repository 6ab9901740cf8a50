"""The hook by which recorded functions handle conditions whose value is not known.

While a function is recorded, the value of a condition is valid for the current call only. Later
calls replay the recording, so both branches are recorded and the condition selects their results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Branch = Callable[[], Any]

_rules: list[tuple[Callable[[Any], bool], Callable[[Any, Branch, Branch], Any]]] = []
_errors: list[Callable[[str, str], Exception]] = []


def register_choice(
    is_undecided: Callable[[Any], bool],
    choose: Callable[[Any, Branch, Branch], Any],
    error_of: Callable[[str, str], Exception],
) -> None:
    """Register the test for undecided conditions, and the function that selects by one.

    `error_of` is called with a message and a short reason. It returns an error that lets the
    recorded function run eagerly, or reaches the user with the message where it must be recorded.
    """
    _rules[:] = [(is_undecided, choose)]
    _errors[:] = [error_of]


def not_recordable(message: str, reason: str) -> Exception:
    """Return the error of control flow that cannot be recorded."""
    return _errors[0](message, reason)


def is_undecided(condition: Any) -> bool:
    """Return whether Python must not read the value of a condition."""
    return any(test(condition) for test, _ in _rules)


def choose(condition: Any, true_fn: Branch, false_fn: Branch) -> Any:
    """Run both branches and select, element by element, the results of the chosen branch."""
    return _rules[0][1](condition, true_fn, false_fn)
