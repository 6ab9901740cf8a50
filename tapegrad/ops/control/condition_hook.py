"""The hook by which recorded functions handle conditions whose value is not known.

While a function is recorded, the value of a condition is valid for the current call only. Later
calls replay the recording, so both branches are recorded and the condition selects their results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Branch = Callable[[], Any]

_rules: list[tuple[Callable[[Any], bool], Callable[[Any, Branch, Branch], Any]]] = []


def register_choice(
    is_undecided: Callable[[Any], bool], choose: Callable[[Any, Branch, Branch], Any]
) -> None:
    """Register the test for undecided conditions, and the function that selects by one."""
    _rules[:] = [(is_undecided, choose)]


def is_undecided(condition: Any) -> bool:
    """Return whether Python must not read the value of a condition."""
    return any(test(condition) for test, _ in _rules)


def choose(condition: Any, true_fn: Branch, false_fn: Branch) -> Any:
    """Run both branches and select, element by element, the results of the chosen branch."""
    return _rules[0][1](condition, true_fn, false_fn)
