"""Truncated conjugate gradients on the quadratic model of a function.

The loop does not wait for the device. Once converged, further iterations change nothing. On the CPU
the loop stops at convergence, on a GPU as soon as the flag has arrived on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tapegrad.scipy.optimize.objective import dot
from tapegrad.scipy.sparse.linalg.krylov import ConvergenceFlag, length, ratio
from tapegrad.scipy.vocabulary import minimum, sqrt, where, zeros_like


class Model(NamedTuple):
    """A step, the decrease of the model, and whether the step ends on the boundary."""

    step: Any
    descent: Any
    is_on_border: Any


def steihaug_step(apply: Callable[[Any], Any], gradient: Any, radius: float) -> Model:
    """Minimize g·p + p·Hp / 2 over |p| <= radius by Steihaug's method.

    >>> import tapegrad
    >>> found = steihaug_step(lambda p: 2.0 * p, tapegrad.constant([1.0, 0.0]), 10.0)
    >>> found.step.tolist(), bool(found.is_on_border)
    ([-0.5, 0.0], False)
    """
    size = length(gradient)
    goal = minimum(sqrt(size), 0.5) * size
    p, r, d = zeros_like(gradient), gradient, -gradient
    border = is_over = size <= 0.0
    converged = ConvergenceFlag()
    for _ in range(max(2 * gradient.shape[0], 4)):
        if converged.is_known_true(is_over):
            break
        bent = apply(d)
        curve, rest = dot(d, bent), dot(r, r)
        alpha = ratio(rest, curve)
        far = length(p + alpha * d) >= radius
        leaves = ((curve <= 0.0) | far) & ~is_over
        alpha = where(leaves, _to_border(p, d, radius), alpha)
        alpha = where(is_over, 0.0, alpha)
        p, r = p + alpha * d, r + alpha * bent
        border = border | leaves
        is_over = is_over | leaves | (length(r) < goal)
        d = ratio(dot(r, r), rest) * d - r
    return Model(p, -0.5 * (dot(gradient, p) + dot(r, p)), border)


def _to_border(p: Any, d: Any, radius: float) -> Any:
    """Return the distance from p along d to the sphere."""
    a, b, c = dot(d, d), dot(p, d), dot(p, p) - radius * radius
    return ratio(sqrt(where(b * b - a * c > 0.0, b * b - a * c, 0.0)) - b, a)


def newton_direction(
    apply: Callable[[Any], Any], gradient: Any, iterations: int | None = None
) -> Any:
    """Return an approximate Newton direction; stop at negative curvature.

    >>> import tapegrad
    >>> newton_direction(lambda p: 2.0 * p, tapegrad.constant([1.0, 0.0])).tolist()
    [-0.5, 0.0]
    """
    size = length(gradient)
    goal = minimum(sqrt(size), 0.5) * size
    p, r, d = zeros_like(gradient), gradient, -gradient
    is_over = size <= 0.0
    converged = ConvergenceFlag()
    for count in range(iterations or max(2 * gradient.shape[0], 4)):
        if converged.is_known_true(is_over):
            break
        bent = apply(d)
        curve, rest = dot(d, bent), dot(r, r)
        is_flat = curve <= 3e-16 * dot(d, d)
        # If the first direction has negative curvature, use steepest descent.
        otherwise = 1.0 if count == 0 else 0.0
        alpha = where(is_over, 0.0, where(is_flat, otherwise, ratio(rest, curve)))
        p, r = p + alpha * d, r + alpha * bent
        is_over = is_over | is_flat | (length(r) <= goal)
        d = ratio(dot(r, r), rest) * d - r
    return p
