"""Adaptive quadrature of functions: quad and quad_vec, by the Gauss-Kronrod rule.

Intervals are bisected without recording until the error is small, with one host read per round. The
recorded result is the rule over the final intervals. It is differentiable with respect to the
limits and everything that the function reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.autodiff.batching import vmap
from tapegrad.core.values.convert import read_on_host
from tapegrad.ops.products.functions import tensordot
from tapegrad.scipy.optimize.implicit import without_recording
from tapegrad.scipy.vocabulary import (
    arguments,
    largest,
    numbers_like,
    operand,
    operands,
    reshape_p,
    stack,
    sum_over,
)

Array = np.ndarray

# The 21-point Kronrod rule with the embedded 10-point Gauss rule.
_NODES = (
    *(0.9956571630258081, 0.9739065285171717, 0.9301574913557082, 0.8650633666889845),
    *(0.7808177265864169, 0.6794095682990244, 0.5627571346686047, 0.4333953941292472),
    *(0.2943928627014602, 0.14887433898163122),
)
_WEIGHTS = (
    *(0.011694638867371874, 0.032558162307964725, 0.054755896574351995, 0.07503967481091996),
    *(0.0931254545836976, 0.10938715880229764, 0.12349197626206584, 0.13470921731147334),
    *(0.14277593857706009, 0.14773910490133849),
)
_MIDDLE = 0.1494455540029169
_GAUSS = (
    *(0.0666713443086881, 0.1494513491505806, 0.21908636251598204, 0.26926671930999635),
    0.29552422471475287,
)


def _rule() -> tuple[Array, Array, Array]:
    """Return nodes in [0, 1], the Kronrod weights, and their difference from the Gauss weights."""
    nodes = np.array([-x for x in _NODES] + [0.0] + list(_NODES[::-1]))
    fine = np.array([*_WEIGHTS, _MIDDLE, *_WEIGHTS[::-1]])
    coarse = np.zeros(21)
    coarse[1:10:2] = _GAUSS
    coarse[11:20:2] = _GAUSS[::-1]
    return 0.5 * (nodes + 1.0), 0.5 * fine, 0.5 * (fine - coarse)


def quad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    *,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 50,
) -> tuple[Any, float]:
    """Return the integral of func(x, *args) from a to b and an error estimate.

    The limits may be infinite. The function takes a scalar; `vmap` evaluates it at many points at
    once. Finite limits and everything that the function reads get gradients.

    >>> import tapegrad
    >>> area, _ = quad(lambda x: tapegrad.exp(-x * x), -np.inf, np.inf)
    >>> abs(float(area) - math.sqrt(math.pi)) < 1e-8
    True
    """
    args = arguments(args)
    return _adaptive(lambda x: func(x, *args), a, b, epsabs, epsrel, limit)


def quad_vec(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    epsabs: float = 1e-200,
    epsrel: float = 1e-8,
    limit: int = 10000,
    *,
    args: Any = (),
) -> tuple[Any, float]:
    """Return the integral of a function with values of any shape and an error estimate; see `quad`.

    >>> import tapegrad
    >>> found, _ = quad_vec(lambda x: tapegrad.stack([x, x * x]), 0.0, 3.0)
    >>> found.round(6).tolist()
    [4.5, 9.0]
    """
    args = arguments(args)
    return _adaptive(lambda x: f(x, *args), a, b, epsabs, epsrel, limit)


def _adaptive(
    func: Callable[[Any], Any], a: Any, b: Any, epsabs: float, epsrel: float, limit: int
) -> tuple[Any, float]:
    mapped, like = _on_unit_interval(func, a, b)
    with without_recording():
        ends, error = _intervals(mapped, like, epsabs, epsrel, int(limit))
    sums, _ = _sums(mapped, like, ends)
    return sum_over(sums, 0), error


def _on_unit_interval(func: Callable[[Any], Any], a: Any, b: Any) -> tuple[Any, Any]:
    """Return the integrand mapped to [0, 1], and a tensor that fixes dtype and device."""
    low, high = (_infinite(end) for end in (a, b))
    if low and high:
        sign = 1.0 if low < high else -1.0 if low > high else 0.0

        def both(u: Any) -> Any:
            x = (2.0 * u - 1.0) / (u * (1.0 - u))
            width = (2.0 * u * u - 2.0 * u + 1.0) / (u * (1.0 - u)) ** 2
            return sign * width * func(x)

        return both, operand(0.0)
    if low or high:
        start = operand(b if low else a)
        out = low or high
        sign = out if high else -out

        def half(u: Any) -> Any:
            return sign / (1.0 - u) ** 2 * func(start + out * u / (1.0 - u))

        return half, start
    start, end = operands(a, b)
    return (lambda u: (end - start) * func(start + (end - start) * u)), start


def _infinite(end: Any) -> float:
    """Return 1 or -1 for an infinite limit and 0 for others; tensors count as finite."""
    is_number = isinstance(end, int | float | np.floating | np.integer)
    return math.copysign(1.0, end) if is_number and math.isinf(end) else 0.0


def _sums(mapped: Any, like: Any, ends: Array) -> tuple[Any, Any]:
    """Return the integral over each interval and its difference from the lower-order rule."""
    nodes, fine, rest = _rule()
    width = ends[:, 1:] - ends[:, :1]
    points = (ends[:, :1] + width * nodes).reshape(-1)
    values = vmap(mapped)(numbers_like(like, points))
    shape = values.shape[1:]
    values = reshape_p(values, shape=(len(ends), 21, *shape))
    scale = reshape_p(numbers_like(like, width), shape=(len(ends), *(1 for _ in shape)))
    rows = (numbers_like(like, weights) for weights in (fine, rest))
    whole, error_estimate = (tensordot(values, row, axes=[[1], [0]]) * scale for row in rows)
    return whole, error_estimate


def _intervals(
    mapped: Any, like: Any, epsabs: float, epsrel: float, limit: int
) -> tuple[Array, float]:
    """Bisect all intervals that are not accurate enough, until the error is small."""
    done = np.zeros((0, 2))
    open_ends = np.array([[0.0, 1.0]])
    done_error, done_size = 0.0, 0.0
    while True:
        sums, misses = _sums(mapped, like, open_ends)
        count = len(open_ends)
        flat = [reshape_p(abs(x), shape=(count, -1)) for x in (sums, misses)]
        sizes, errors = read_on_host(stack([largest(x, 1) for x in flat]), "quad").astype(float)
        # The Kronrod rule is much more accurate than its difference from the Gauss rule.
        with np.errstate(divide="ignore", invalid="ignore"):
            sharp = np.where(
                sizes > 0, sizes * np.minimum(1, (200 * errors / sizes) ** 1.5), errors
            )
        errors = np.where(np.isfinite(sharp), np.minimum(sharp, errors), errors)
        total = done_error + errors.sum()
        goal = max(epsabs, epsrel * (done_size + sizes.sum()))
        lengths = open_ends[:, 1] - open_ends[:, 0]
        is_fine = (errors <= goal * lengths) | (lengths < 1e-12)
        is_over = total <= goal or len(done) + 2 * count > limit
        if is_over or is_fine.all() or not np.isfinite(total):
            return np.concatenate([done, open_ends]), float(total)
        done = np.concatenate([done, open_ends[is_fine]])
        done_error += errors[is_fine].sum()
        done_size += sizes[is_fine].sum()
        halves = open_ends[~is_fine]
        middle = halves.mean(axis=1)
        left = np.stack([halves[:, 0], middle], axis=1)
        right = np.stack([middle, halves[:, 1]], axis=1)
        open_ends = np.concatenate([left, right])
