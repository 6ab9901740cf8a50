"""Assertions as steps of programs: a test by name, so that files can hold it, and a message."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, NonFiniteError

ERRORS: dict[str, type[Exception]] = {
    one.__name__: one for one in (ArgumentError, AssertionError, NonFiniteError)
}


def _near(x: Any, y: Any, rtol: float, atol: float) -> Any:
    return np.abs(x - y) <= atol + rtol * np.abs(y)


TESTS: dict[str, Callable[..., Any]] = {
    "true": lambda x: x,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "near": _near,
    "positive": lambda x: x > 0,
    "non_negative": lambda x: x >= 0,
    "negative": lambda x: x < 0,
    "non_positive": lambda x: x <= 0,
    "finite": np.isfinite,
}


class Check:
    """Raises unless a test holds for all elements.

    >>> Check("positive", "x > 0", "The step is wrong", "train.py:3")([np.array([2.0])])
    """

    def __init__(
        self,
        test: str,
        wanted: str,
        message: str | None,
        place: str,
        error: str = "ArgumentError",
        options: Mapping[str, float] | None = None,
    ) -> None:
        self.test, self.wanted, self.message = test, wanted, message
        self.place, self.error, self.options = place, error, dict(options or {})

    def __repr__(self) -> str:
        return self.wanted

    def __call__(self, values: Sequence[np.ndarray]) -> None:
        found = TESTS[self.test](*values, **self.options)
        holds = np.broadcast_arrays(np.asarray(found), *values)
        wrong = ~holds[0].astype(bool)
        if wrong.any():
            shown = " and ".join(str(value[wrong][:3].tolist()) for value in holds[1:])
            reason = f"{self.message}. " if self.message else ""
            raise ERRORS[self.error](
                f"{reason}The assertion at {self.place} requires {self.wanted}. "
                f"{int(wrong.sum())} of {wrong.size} elements fail, such as {shown}."
            )


class SavedAssertionError(AssertionError):
    """An `assert` statement of a function that was read from a file does not hold."""


class Assertion:
    """Raises an AssertionError unless the first value is true; the others are its arguments."""

    def __init__(
        self, message: Sequence[Any], error: type[AssertionError] = AssertionError
    ) -> None:
        self.message = [*message]
        self._error = error

    def __repr__(self) -> str:
        return "assert"

    def __call__(self, values: Sequence[np.ndarray]) -> None:
        if not values[0]:
            raise self._error(*self.message, *[value[()] for value in values[1:]])
