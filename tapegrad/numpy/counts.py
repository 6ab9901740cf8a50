"""Discrete distributions; samples are int64 and have no derivative."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.numpy.distributions import Continuous, accepted
from tapegrad.numpy.streams import check, positive, shape_of
from tapegrad.numpy.values import as_array, floating, is_array, with_dtype
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.elementwise.exponential import exp, expm1, log, log1p
from tapegrad.ops.elementwise.rounding import floor
from tapegrad.ops.elementwise.selection import clip, maximum, minimum, where
from tapegrad.ops.elementwise.special_functions import lgamma
from tapegrad.ops.random import primitives as draws
from tapegrad.ops.reduction.primitives import sum as total
from tapegrad.ops.shape.functions import broadcast_to
from tapegrad.ops.shape.joining import stack

_BELOW_1 = float(np.nextafter(1.0, 0.0))
_FEW_TRIES = 32
_LARGEST = 2**53


def _most(count: Any) -> int:
    """Return the largest count, or the largest possible one if the counts are on a device."""
    if is_array(count):
        return _LARGEST
    return int(np.max(np.asarray(count), initial=0))


def _whole(x: Any) -> Any:
    return with_dtype(x, "int64")


class Counts(Continuous):
    """The discrete distributions."""

    def bernoulli(self, p: Any = 0.5, size: Any = None) -> Any:
        """Draw booleans that are true with probability `p`."""
        chance = floating(check("p", p, 0, 1))
        return self._uniform(shape_of(size, chance)) < chance

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        """Draw the number of successes in `n` trials with probability `p`."""
        most = _most(check("n", n, 0))
        tries, chance = floating(n), floating(check("p", p, 0, 1))
        return _whole(self._successes(tries, chance, shape_of(size, tries, chance), most))

    def _successes(self, tries: Any, chance: Any, shape: tuple[int, ...], most: int) -> Any:
        """Draw a binomial count in float64.

        The median of n uniform numbers has a beta distribution. Comparing it with the probability
        decides half of the numbers (Devroye, X.4.3). The last few are drawn directly.
        """
        tries, chance = (broadcast_to(stop_gradient(x), shape) for x in (tries, chance))
        found, few = 0.0 * tries, min(most, _FEW_TRIES)
        while most > _FEW_TRIES:
            middle = floor((tries + 1.0) / 2.0)
            is_left = tries > _FEW_TRIES
            first = self.gamma(where(is_left, middle, 1.0), 1.0, shape)
            second = self.gamma(where(is_left, tries + 1.0 - middle, 1.0), 1.0, shape)
            split = first / (first + second)
            is_above = split <= chance
            rest = where(is_above, tries - middle, middle - 1.0)
            # Rounding must not move a probability out of [0, 1] or produce 0 / 0.
            above = (chance - split) / where(split < 1.0, 1.0 - split, 1.0)
            below = chance / where(split > 0.0, split, 1.0)
            found = where(is_left & is_above, found + middle, found)
            chance = where(is_left, clip(where(is_above, above, below), 0.0, 1.0), chance)
            tries = where(is_left, rest, tries)
            most //= 2
        drawn = self._uniform((few, *shape)) < chance
        numbers = np.arange(few, dtype=float).reshape(-1, *[1] * len(shape))
        return found + total(with_dtype(drawn & (as_array(numbers, tries) < tries), "float64"), 0)

    def multinomial(self, n: Any, pvals: Any, size: Any = None) -> Any:
        """Draw the number of occurrences of each outcome in `n` trials.

        Further axes of `pvals` and of `n` describe further distributions.
        """
        most, chances = _most(check("n", n, 0)), floating(check("pvals", pvals, 0, 1))
        if not is_array(pvals) and np.sum(np.asarray(pvals)[..., :-1], -1).max() > 1.0 + 1e-12:
            raise ArgumentError(
                f"The sum of pvals without the last must be at most 1. Got {pvals}."
            )
        left = floating(n)
        shape = shape_of(size, left, chances[..., 0])
        left, share, parts = broadcast_to(left, shape), 1.0 + 0.0 * chances[..., 0], []
        for k in range(chances.shape[-1] - 1):
            p = chances[..., k]
            chance = clip(p / where(share > 0.0, share, 1.0), 0.0, 1.0)
            parts.append(self._successes(left, chance, shape, most))
            left, share = left - parts[-1], share - p
        return _whole(stack([*parts, left], axis=-1))

    def poisson(self, lam: Any = 1.0, size: Any = None) -> Any:
        """Draw from Poisson distributions."""
        lam = floating(check("lam", lam, 0))
        return draws.draw_poisson(self.stream, shape_of(size, lam), lam, "int64")

    def negative_binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        """Draw the number of failures before the `n`-th success."""
        n = positive("n", n)
        p = floating(check("p", p, 0, 1, above=True))
        return self.poisson(self.gamma(n, (1.0 - p) / p, shape_of(size, n, p)))

    def geometric(self, p: Any, size: Any = None) -> Any:
        """Draw the number of trials up to the first success."""
        chance = floating(check("p", p, 0, 1, above=True))
        u = self._uniform(shape_of(size, chance))
        fails = log1p(-where(chance < 1.0, chance, 0.5))
        return _whole(where(chance < 1.0, floor(log1p(-u) / fails), 0.0)) + 1

    def logseries(self, p: Any, size: Any = None) -> Any:
        """Draw from logarithmic series distributions: P(k) is proportional to p ** k / k.

        A geometric number with a random probability (Kemp, 1981).
        """
        p = stop_gradient(floating(check("p", p, 0, _BELOW_1)))
        shape = shape_of(size, p)
        fails = log1p(-p) * self._inside(shape)  # the logarithm of the failure probability
        goes_on = -expm1(fails)
        steps = log(self._inside(shape)) / log(where(goes_on > 0.0, goes_on, 1e-300))
        return _whole(clip(1.0 + floor(steps), 1.0, float(2**62)))

    def zipf(self, a: Any, size: Any = None) -> Any:
        """Draw from Zipf distributions: P(k) is proportional to k ** -a.

        Values beyond the range of int64 are drawn again.
        """
        less = stop_gradient(floating(check("a", a, 1, above=True))) - 1.0
        shape = shape_of(size, less)
        less = broadcast_to(less, shape)
        top = exp(math.log(2.0) * less)

        def propose() -> tuple[Any, Any]:
            k = floor(exp(-log(self._inside(shape)) / less))
            is_small = k < float(2**62)
            k = where(is_small, k, 1.0)
            t = exp(less * log1p(1.0 / k))
            is_taken = self._uniform(shape) * k * (t - 1.0) / (top - 1.0) <= t / top
            return k, is_taken & is_small

        return _whole(accepted(0.0 * less + 1.0, propose))

    # Draws without replacement

    def hypergeometric(self, ngood: Any, nbad: Any, nsample: Any, size: Any = None) -> Any:
        """Draw the number of good items among `nsample` of `ngood` good and `nbad` bad items."""
        good, bad = floating(check("ngood", ngood, 0)), floating(check("nbad", nbad, 0))
        taken = floating(check("nsample", nsample, 0))
        if not any(is_array(part) for part in (ngood, nbad, nsample)) and np.any(
            np.asarray(ngood) + np.asarray(nbad) < np.asarray(nsample)
        ):
            raise ArgumentError(f"nsample must be at most ngood + nbad. Got {nsample}.")
        return _whole(self._good_ones(good, bad, taken, shape_of(size, good, bad, taken)))

    def _good_ones(self, good: Any, bad: Any, taken: Any, shape: tuple[int, ...]) -> Any:
        """Draw a hypergeometric count in float64, by the ratio of uniforms (Stadlober, 1990).

        Counts the rarer type in the smaller of the sample and its complement.
        """
        good, bad, taken = (stop_gradient(x) for x in (good, bad, taken))
        everything = good + bad
        few, many = minimum(good, bad), maximum(good, bad)
        part = minimum(taken, everything - taken)
        share = few / where(everything > 0.0, everything, 1.0)
        spread = part * share * (1.0 - share) * (everything - part)
        deviation = (spread / maximum(everything - 1.0, 1.0) + 0.5) ** 0.5
        centre = part * share + 0.5
        width = 2.0 * math.sqrt(2.0 / math.e) * deviation + (3.0 - 2.0 * math.sqrt(3.0 / math.e))
        mode = floor((part + 1.0) * (few + 1.0) / (everything + 2.0))
        end = minimum(minimum(part, few) + 1.0, floor(centre + 16.0 * deviation))

        def log_weight(k: Any) -> Any:
            inside = lgamma(k + 1.0) + lgamma(few - k + 1.0)
            return -inside - lgamma(part - k + 1.0) - lgamma(many - part + k + 1.0)

        peak = log_weight(mode)

        def propose() -> tuple[Any, Any]:
            u = self._inside(shape)
            x = centre + width * (self._uniform(shape) - 0.5) / u
            is_inside = (x >= 0.0) & (x < end)
            k = floor(where(is_inside, x, 0.0))
            return k, is_inside & (2.0 * log(u) <= log_weight(k) - peak)

        rare = accepted(broadcast_to(mode, shape), propose)
        found = where(good > bad, part - rare, rare)
        return where(part < taken, good - found, found)

    def multivariate_hypergeometric(
        self, colors: Any, nsample: Any, size: Any = None, method: str = "marginals"
    ) -> Any:
        """Draw the number of items of each colour in a sample without replacement."""
        check_choice("method", method, ("marginals", "count"))
        counts = floating(check("colors", colors, 0))
        if len(counts.shape) != 1:
            raise ShapeError(f"colors must be a vector. Got shape {counts.shape}.")
        if not is_array(colors) and np.any(np.asarray(nsample) > np.sum(np.asarray(colors))):
            raise ArgumentError(f"nsample must be at most the sum of colors. Got {nsample}.")
        lead = () if size is None else shape_of(size)
        left, taken, parts = total(counts), broadcast_to(floating(nsample), lead), []
        for k in range(counts.shape[0] - 1):
            left = left - counts[k]
            parts.append(self._good_ones(counts[k], left, taken, lead))
            taken = taken - parts[-1]
        return _whole(stack([*parts, taken], axis=-1))
