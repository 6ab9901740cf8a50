"""SciPy's OptimizeResult and OptimizeError, and the options of a method."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError, TapegradError


class OptimizeError(TapegradError, RuntimeError):
    """A function that returns only the solution did not find one."""


class OptimizeResult(dict[str, Any]):
    """The result of an optimization; fields are keys and attributes, as in SciPy.

    x         the solution, a tensor on the device of x0; differentiable if a tape is recording
    fun, jac  the value as a Python float, and the gradient
    nit, nfev, njev, nhev    numbers of iterations and of evaluations of fun and its derivatives
    success, status, message    whether the search converged, as a bool, a code and a text

    >>> found = OptimizeResult(x=1.0, success=True)
    >>> found.x, found["success"]
    (1.0, True)
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(
                f"OptimizeResult has no field {name!r}. It has {', '.join(self)}."
            ) from error

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]

    def __repr__(self) -> str:
        width = max(map(len, self), default=0)
        return "\n".join(f"{name:>{width}}: {value!r}" for name, value in self.items())


_TOLERANCES = ("gtol", "ftol", "xtol", "xatol", "fatol")


def merge_options(
    method: str, known: dict[str, Any], tol: float | None, options: dict[str, Any] | None
) -> dict[str, Any]:
    """Merge the user's options into the defaults `known`; `tol` sets all tolerances."""
    own = options or {}
    unknown = sorted(own.keys() - known.keys())
    if unknown:
        raise ArgumentError(
            f"{method} accepts the options {', '.join(known)}. Got {', '.join(unknown)}."
        )
    default = {} if tol is None else {name: tol for name in _TOLERANCES if name in known}
    return {**known, **default, **own}


MESSAGES = {
    0: "Found a minimum within the tolerances.",
    1: "Stopped at the maximum number of iterations.",
    2: "Stopped because rounding errors prevent further descent. The tolerances may not be met.",
    3: "Stopped at the maximum number of evaluations.",
    4: "Stopped without finding a point that satisfies the constraints.",
    99: "Stopped by the callback.",
}
"""Messages by status."""
