"""Conditions that cannot be read yet: how control flow learns of recordings, which lie above ops.

While a function is recorded, a condition has a value only for the call at hand. Later calls replay
what is recorded, so both branches are, and the condition chooses between their results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Branch = Callable[[], Any]

_rules: list[tuple[Callable[[Any], bool], Callable[[Any, Branch, Branch], Any]]] = []


def register_choice(
    is_undecided: Callable[[Any], bool], choose: Callable[[Any, Branch, Branch], Any]
) -> None:
    """Set how to tell that a condition cannot be read, and how to choose by it all the same."""
    _rules[:] = [(is_undecided, choose)]


def is_undecided(condition: Any) -> bool:
    """Whether a condition has no value that Python may look at."""
    return any(asks(condition) for asks, _ in _rules)


def choose(condition: Any, true_fn: Branch, false_fn: Branch) -> Any:
    """Run both branches and return the result, element by element, of the one that counts."""
    return _rules[0][1](condition, true_fn, false_fn)
