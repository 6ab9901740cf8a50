"""Entropies of probabilities and of samples, and circular statistics."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.argument_checks import check_choice
from tapegrad.errors import ArgumentError
from tapegrad.ops.indexing.sorting import sort
from tapegrad.scipy.stats.samples import Values, read_values, root
from tapegrad.scipy.vocabulary import (
    atan2,
    broadcast_arrays,
    concat,
    cos,
    expand_dims,
    floor,
    log,
    mean,
    moveaxis,
    operands,
    sin,
    where,
)
from tapegrad.special_functions.entropy import entr, rel_entr


def entropy(
    pk: Any,
    qk: Any = None,
    base: Any = None,
    axis: Any = 0,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """Return the entropy of probabilities, or their relative entropy to qk; both are normalized.

    >>> round(float(entropy([1.0, 1.0], base=2)), 6)
    1.0
    """
    if base is not None and base <= 0:
        raise ArgumentError(f"entropy needs a positive base. Got {base!r}.")
    if qk is None:
        values = read_values(pk, axis, nan_policy, "entropy")
        y = entr(values.x / values.total(values.x))
    else:
        check_choice("nan_policy of entropy with qk", nan_policy, ("propagate",))
        pk, qk = broadcast_arrays(*operands(pk, qk))
        values, others = (read_values(x, axis, nan_policy, "entropy") for x in (pk, qk))
        normalized = [one.x / one.total(one.x) for one in (values, others)]
        y = rel_entr(*normalized)
    total = values.without_axis(values.total(y), keepdims)
    return total if base is None else total / math.log(base)


def differential_entropy(
    values: Any,
    *,
    window_length: int | None = None,
    base: Any = None,
    axis: int = 0,
    method: str = "auto",
    keepdims: bool = False,
) -> Any:
    """Estimate the differential entropy of the distribution of a sample.

    The methods are "vasicek", "van es", "ebrahimi", and "auto", which depends on the sample size.

    >>> round(float(differential_entropy([0.0, 1.0, 3.0, 4.0], window_length=1)), 6)
    2.314382
    """
    sample = read_values(values, axis, "propagate", "differential_entropy")
    x = sort(moveaxis(sample.x, sample.axis, -1), -1)
    n = x.shape[-1]
    window = math.floor(math.sqrt(n) + 0.5) if window_length is None else window_length
    if not 2 <= 2 * window < n:
        raise ArgumentError(
            "differential_entropy needs a window_length of at least 1 and below half of the "
            f"sample size {n}. Got {window}."
        )
    if method == "auto":
        method = "van es" if n <= 10 else "ebrahimi" if n <= 1000 else "vasicek"
    if method not in _METHODS:
        raise ArgumentError(
            f"method of differential_entropy must be one of {', '.join(_METHODS)}, auto. "
            f"Got {method!r}."
        )
    y = _METHODS[method](x, window, n)
    y = y if base is None else y / math.log(base)
    return sample.without_axis(expand_dims(y, sample.axis), keepdims)


def _steps(x: Any, window: int) -> Any:
    """Return the spacings between the values `window` positions after and before each value."""
    first, last = x[..., :1], x[..., -1:]
    padded = concat([first] * window + [x] + [last] * window, -1)
    return padded[..., 2 * window :] - padded[..., : -2 * window]


def _vasicek(x: Any, window: int, n: int) -> Any:
    return mean(log(n / (2 * window) * _steps(x, window)), -1)


def _van_es(x: Any, window: int, n: int) -> Any:
    spacings = x[..., window:] - x[..., :-window]
    spread = mean(log((n + 1) / window * spacings), -1)
    harmonic = sum(1 / k for k in range(window, n + 1))
    return spread + harmonic + math.log(window) - math.log(n + 1)


def _ebrahimi(x: Any, window: int, n: int) -> Any:
    weights = [
        1 + (i - 1) / window if i <= window else 2.0 if i < n - window + 1 else 1 + (n - i) / window
        for i in range(1, n + 1)
    ]
    steps = _steps(x, window)
    factors = operands(steps, [n / (c * window) for c in weights])[1]
    return mean(log(factors * steps), -1)


_METHODS = {"vasicek": _vasicek, "van es": _van_es, "ebrahimi": _ebrahimi}


# Angles


def _direction(
    samples: Any, high: float, low: float, axis: Any, nan_policy: str, name: str
) -> tuple[Values, Any, Any]:
    """Return the means of the sines and cosines of angles between low and high."""
    values = read_values(samples, axis, nan_policy, name)
    turn = 2 * math.pi / (high - low)
    angle = values.x * turn
    return values, values.mean(sin(angle)), values.mean(cos(angle))


def circmean(
    samples: Any,
    high: float = 2 * math.pi,
    low: float = 0,
    axis: Any = None,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """Return the circular mean of angles between `low` and `high`.

    >>> round(float(circmean([10.0, 350.0], high=360.0)) % 360, 6) in (0.0, 360.0)
    True
    """
    values, sine, cosine = _direction(samples, high, low, axis, nan_policy, "circmean")
    turns = atan2(sine, cosine) / (2 * math.pi) - low / (high - low)
    y = (turns - floor(turns)) * (high - low) + low
    return values.without_axis(y, keepdims)


def circvar(
    samples: Any,
    high: float = 2 * math.pi,
    low: float = 0,
    axis: Any = None,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """Return the circular variance: 1 minus the length of the mean direction.

    >>> round(float(circvar([0.0, 3.141592653589793])), 6)
    1.0
    """
    values, sine, cosine = _direction(samples, high, low, axis, nan_policy, "circvar")
    length = root(sine * sine + cosine * cosine)
    return values.without_axis(where(length > 1, 0.0, 1 - length), keepdims)


def circstd(
    samples: Any,
    high: float = 2 * math.pi,
    low: float = 0,
    axis: Any = None,
    nan_policy: str = "propagate",
    *,
    normalize: bool = False,
    keepdims: bool = False,
) -> Any:
    """Return the circular standard deviation, in radians with `normalize`.

    >>> round(float(circstd([0.0, 1.570796326794897])), 6)
    0.832555
    """
    values, sine, cosine = _direction(samples, high, low, axis, nan_policy, "circstd")
    # Rounding may make the mean direction of equal angles slightly longer than 1.
    square = sine * sine + cosine * cosine
    y = root(-log(where(square > 1, 1.0, square)))
    y = y if normalize else y * (high - low) / (2 * math.pi)
    return values.without_axis(y, keepdims)
