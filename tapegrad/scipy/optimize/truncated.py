"""Conjugate gradients on the quadratic model of a function, cut off early.

Nothing is looked at while they run: what is over changes no more, so further rounds do no harm. On
the CPU the loop ends as soon as that is seen; on a device when the answer has come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tapegrad.scipy.optimize.objective import dot
from tapegrad.scipy.sparse.linalg.krylov import Watch, length, ratio
from tapegrad.scipy.vocabulary import minimum, sqrt, where, zeros_like


class Model(NamedTuple):
    """A step, how much the model descends by it, and whether it ends on the border."""

    step: Any
    descent: Any
    is_on_border: Any


def within(apply: Callable[[Any], Any], gradient: Any, radius: float) -> Model:
    """Minimise g·p + p·Hp / 2 over |p| <= radius, as Steihaug does.

    >>> import tapegrad
    >>> found = within(lambda p: 2.0 * p, tapegrad.constant([1.0, 0.0]), 10.0)
    >>> found.step.tolist(), bool(found.is_on_border)
    ([-0.5, 0.0], False)
    """
    size = length(gradient)
    goal = minimum(sqrt(size), 0.5) * size
    p, r, d = zeros_like(gradient), gradient, -gradient
    border = is_over = size <= 0.0
    watch = Watch()
    for _ in range(max(2 * gradient.shape[0], 4)):
        if watch.has_ended(is_over):
            break
        bent = apply(d)
        curve, rest = dot(d, bent), dot(r, r)
        pace = ratio(rest, curve)
        far = length(p + pace * d) >= radius
        leaves = ((curve <= 0.0) | far) & ~is_over
        pace = where(leaves, _to_border(p, d, radius), pace)
        pace = where(is_over, 0.0, pace)
        p, r = p + pace * d, r + pace * bent
        border = border | leaves
        is_over = is_over | leaves | (length(r) < goal)
        d = ratio(dot(r, r), rest) * d - r
    return Model(p, -0.5 * (dot(gradient, p) + dot(r, p)), border)


def _to_border(p: Any, d: Any, radius: float) -> Any:
    """How far along d it is from p to the sphere."""
    a, b, c = dot(d, d), dot(p, d), dot(p, p) - radius * radius
    return ratio(sqrt(where(b * b - a * c > 0.0, b * b - a * c, 0.0)) - b, a)


def newton_direction(apply: Callable[[Any], Any], gradient: Any, rounds: int | None = None) -> Any:
    """Return a direction of descent near Newton's; where the curvature is negative it stops.

    >>> import tapegrad
    >>> newton_direction(lambda p: 2.0 * p, tapegrad.constant([1.0, 0.0])).tolist()
    [-0.5, 0.0]
    """
    size = length(gradient)
    goal = minimum(sqrt(size), 0.5) * size
    p, r, d = zeros_like(gradient), gradient, -gradient
    is_over = size <= 0.0
    watch = Watch()
    for count in range(rounds or max(2 * gradient.shape[0], 4)):
        if watch.has_ended(is_over):
            break
        bent = apply(d)
        curve, rest = dot(d, bent), dot(r, r)
        is_flat = curve <= 3e-16 * dot(d, d)
        # The first direction is that of steepest descent, good enough by itself.
        otherwise = 1.0 if count == 0 else 0.0
        pace = where(is_over, 0.0, where(is_flat, otherwise, ratio(rest, curve)))
        p, r = p + pace * d, r + pace * bent
        is_over = is_over | is_flat | (length(r) <= goal)
        d = ratio(dot(r, r), rest) * d - r
    return p
