"""Mutants that no test can catch, because the program behaves the same with them."""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {
    "tapegrad/numpy/differences.py | interp | comparison 1 | at > knots[-1] -> at >= knots[-1]": (
        "The next statement replaces the result at the last knot, whatever this one gave there."
    ),
}
"""Why each is equivalent, by its name."""
