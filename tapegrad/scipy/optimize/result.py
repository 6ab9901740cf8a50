"""What a search hands back: SciPy's results, whose fields are attributes and keys."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError, TapegradError


class OptimizeError(TapegradError, RuntimeError):
    """A function that returns no report of its search has found nothing."""


class OptimizeResult(dict[str, Any]):
    """Where a search ended and how it went; fields are keys and attributes, as SciPy's are.

    x         the point, a tensor where the start lay; with derivatives if a tape is open
    fun, jac  the value, a number, and the gradient
    nit, nfev, njev, nhev    iterations, and evaluations of the function and its derivatives
    success, status, message    whether it went well, as a number and in words

    >>> found = OptimizeResult(x=1.0, success=True)
    >>> found.x, found["success"]
    (1.0, True)
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(
                f"This result has no field {name!r}; it has {', '.join(self)}."
            ) from error

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]

    def __repr__(self) -> str:
        width = max(map(len, self), default=0)
        return "\n".join(f"{name:>{width}}: {value!r}" for name, value in self.items())


_TOLERANCES = ("gtol", "ftol", "xtol", "xatol", "fatol")


def chosen_options(
    method: str, known: dict[str, Any], tol: float | None, options: dict[str, Any] | None
) -> dict[str, Any]:
    """Return all options of a method: `known` holds the defaults, `tol` is for its tolerances."""
    own = options or {}
    unknown = sorted(own.keys() - known.keys())
    if unknown:
        raise ArgumentError(
            f"{method} takes the options {', '.join(known)}. Got {', '.join(unknown)}."
        )
    default = {} if tol is None else {name: tol for name in _TOLERANCES if name in known}
    return {**known, **default, **own}


WORDS = {
    0: "Found a minimum within the tolerances.",
    1: "Stopped at the maximum number of iterations.",
    2: "Stopped where rounding hides any further descent; the tolerances may not be met.",
    3: "Stopped at the maximum number of evaluations.",
    4: "Stopped: no point that keeps the constraints was found.",
    99: "Stopped by the callback.",
}
"""What a status means."""
