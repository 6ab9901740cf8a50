"""Random draws from distributions, over one stream of random numbers."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError
from tapegrad.numpy.values import as_array, deliver, floating, with_dtype
from tapegrad.ops import random_draws as draws
from tapegrad.ops.exponential import exp, log, log1p
from tapegrad.ops.indexing import getitem, setitem
from tapegrad.ops.linalg.decompositions import cholesky
from tapegrad.ops.picking import take
from tapegrad.ops.random_generator import Generator as Stream
from tapegrad.ops.reduction import sum as total
from tapegrad.ops.rounding import floor
from tapegrad.ops.selection import where
from tapegrad.ops.shape import moveaxis, reshape
from tapegrad.ops.sorting import argsort_p
from tapegrad.ops.trigonometric import tan


def shape_of(size: Any, *parameters: Any) -> tuple[int, ...]:
    """Return the shape of a draw: `size`, or what the parameters broadcast to."""
    if size is None:
        return np.broadcast_shapes(*[tuple(np.shape(_shaped(p))) for p in parameters])
    return tuple(int(n) for n in np.atleast_1d(np.asarray(size)))


def size_for(size: Any, out: Any) -> Any:
    """Return the size of a draw that is written into `out`, if that is given."""
    if size is not None:
        return size
    return () if out is None else tuple(out.shape)


def _shaped(parameter: Any) -> Any:
    return np.empty(tuple(parameter.shape)) if hasattr(parameter, "shape") else parameter


class Draws:
    """The distributions, over one stream of random numbers."""

    def __init__(self, seed: Any = None) -> None:
        if seed is None:
            seed = int.from_bytes(os.urandom(8), "little")
        self.stream = Stream.from_seed(word_of(seed))

    def _uniform(self, shape: tuple[int, ...]) -> Any:
        return draws.draw_uniform(self.stream, shape, 0, None, "float64")

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Draw numbers from [low, high)."""
        low, high = floating(low), floating(high)
        return low + (high - low) * self._uniform(shape_of(size, low, high))

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw from normal distributions."""
        loc, scale = floating(loc), floating(scale)
        shape = shape_of(size, loc, scale)
        return loc + scale * draws.draw_normal(self.stream, shape, 0.0, 1.0, "float64")

    def standard_normal(self, size: Any = None, dtype: Any = "float64", out: Any = None) -> Any:
        """Draw from the standard normal distribution."""
        return deliver(with_dtype(self.normal(size=size_for(size, out)), dtype), out)

    def lognormal(self, mean: Any = 0.0, sigma: Any = 1.0, size: Any = None) -> Any:
        """Draw numbers whose logarithms are normal."""
        return exp(self.normal(mean, sigma, size))

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw from exponential distributions."""
        scale = floating(scale)
        return -scale * log1p(-self._uniform(shape_of(size, scale)))

    def standard_exponential(self, size: Any = None) -> Any:
        """Draw from the exponential distribution of scale 1."""
        return self.exponential(1.0, () if size is None else size)

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw from Laplace distributions."""
        loc, scale = floating(loc), floating(scale)
        u = self._uniform(shape_of(size, loc, scale)) - 0.5
        return loc - scale * where(u < 0, -1.0, 1.0) * log1p(-2.0 * abs(u))

    def logistic(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw from logistic distributions."""
        loc, scale = floating(loc), floating(scale)
        u = self._uniform(shape_of(size, loc, scale))
        return loc + scale * (log(u) - log1p(-u))

    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw from Gumbel distributions."""
        loc, scale = floating(loc), floating(scale)
        return loc - scale * log(-log1p(-self._uniform(shape_of(size, loc, scale))))

    def standard_cauchy(self, size: Any = None) -> Any:
        """Draw from the Cauchy distribution."""
        return tan(np.pi * (self._uniform(shape_of(size, 0.0)) - 0.5))

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw from gamma distributions."""
        alpha, scale = floating(shape), floating(scale)
        wanted = shape_of(size, alpha, scale)
        return scale * draws.draw_gamma(self.stream, wanted, alpha, None, "float64")

    def standard_gamma(self, shape: Any, size: Any = None) -> Any:
        """Draw from gamma distributions of scale 1."""
        return self.gamma(shape, 1.0, size)

    def chisquare(self, df: Any, size: Any = None) -> Any:
        """Draw from chi-square distributions."""
        return self.gamma(floating(df) / 2.0, 2.0, size)

    def standard_t(self, df: Any, size: Any = None) -> Any:
        """Draw from Student's t distributions."""
        df = floating(df)
        shape = shape_of(size, df)
        return self.normal(size=shape) / (self.chisquare(df, shape) / df) ** 0.5

    def beta(self, a: Any, b: Any, size: Any = None) -> Any:
        """Draw from beta distributions."""
        a, b = floating(a), floating(b)
        shape = shape_of(size, a, b)
        first, second = self.gamma(a, 1.0, shape), self.gamma(b, 1.0, shape)
        return first / (first + second)

    def dirichlet(self, alpha: Any, size: Any = None) -> Any:
        """Draw vectors of shares that add up to 1."""
        alpha = floating(alpha)
        lead = () if size is None else shape_of(size)
        parts = self.gamma(alpha, 1.0, (*lead, *alpha.shape))
        return parts / total(parts, -1, True)

    def rayleigh(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw from Rayleigh distributions."""
        scale = floating(scale)
        return scale * (-2.0 * log1p(-self._uniform(shape_of(size, scale)))) ** 0.5

    def weibull(self, a: Any, size: Any = None) -> Any:
        """Draw from Weibull distributions of scale 1."""
        a = floating(a)
        return (-log1p(-self._uniform(shape_of(size, a)))) ** (1.0 / a)

    def pareto(self, a: Any, size: Any = None) -> Any:
        """Draw from Pareto distributions that begin at 0 (Lomax)."""
        a = floating(a)
        return exp(-log1p(-self._uniform(shape_of(size, a))) / a) - 1.0

    def power(self, a: Any, size: Any = None) -> Any:
        """Draw numbers below 1 with density a x ** (a - 1)."""
        a = floating(a)
        return self._uniform(shape_of(size, a)) ** (1.0 / a)

    def triangular(self, left: Any, mode: Any, right: Any, size: Any = None) -> Any:
        """Draw from distributions whose density is a triangle."""
        left, mode, right = floating(left), floating(mode), floating(right)
        u = self._uniform(shape_of(size, left, mode, right))
        split = (mode - left) / (right - left)
        low = left + (u * (right - left) * (mode - left)) ** 0.5
        high = right - ((1.0 - u) * (right - left) * (right - mode)) ** 0.5
        return where(u < split, low, high)

    def f(self, dfnum: Any, dfden: Any, size: Any = None) -> Any:
        """Draw from F distributions."""
        over, under = floating(dfnum), floating(dfden)
        shape = shape_of(size, over, under)
        return (self.chisquare(over, shape) / over) / (self.chisquare(under, shape) / under)

    def negative_binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        """Draw how many tries fail until `n` have succeeded, as int64."""
        n, p = floating(n), floating(p)
        return self.poisson(self.gamma(n, (1.0 - p) / p, shape_of(size, n, p)))

    def multinomial(self, n: int, pvals: Any, size: Any = None) -> Any:
        """Draw how often each of several outcomes comes in `n` tries, as int64."""
        lead, chances = () if size is None else shape_of(size), floating(pvals)
        count = chances.shape[-1]
        places = self.choice(count, (*lead, int(n)), p=chances)
        hits = reshape(places, (*places.shape, 1)) == as_array(np.arange(count))
        return total(with_dtype(hits, "int64"), -2)

    def poisson(self, lam: Any = 1.0, size: Any = None) -> Any:
        """Draw from Poisson distributions, as int64."""
        lam = floating(lam)
        return draws.draw_poisson(self.stream, shape_of(size, lam), lam, "int64")

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        """Draw how many of `n` tries succeed with probability `p`, as int64."""
        chance = floating(p)
        shape = shape_of(size, n, chance)
        tries = int(np.max(np.asarray(n)))
        hits = self._uniform((tries, *shape)) < chance
        counted = as_array(np.arange(tries).reshape(-1, *[1] * len(shape))) < as_array(n)
        return total(with_dtype(hits & counted, "int64"), 0)

    def bernoulli(self, p: Any = 0.5, size: Any = None) -> Any:
        """Draw truth values that hold with probability `p`."""
        chance = floating(p)
        return self._uniform(shape_of(size, chance)) < chance

    def geometric(self, p: Any, size: Any = None) -> Any:
        """Draw how many tries it takes until one succeeds, as int64."""
        chance = floating(p)
        u = self._uniform(shape_of(size, chance))
        return with_dtype(floor(log1p(-u) / log1p(-chance)), "int64") + 1

    def multivariate_normal(self, mean: Any, cov: Any, size: Any = None, **options: Any) -> Any:
        """Draw vectors from a normal distribution with a covariance matrix."""
        mean, cov = floating(mean), floating(cov)
        lead = () if size is None else shape_of(size)
        z = self.normal(size=(*lead, mean.shape[0]))
        return mean + z @ cholesky(cov).T

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """Return the numbers below `x`, or the slices of an array, in random order."""
        if isinstance(x, int):
            return self._order(x)
        values = as_array(x)
        return take(values, self._order(values.shape[axis]), axis)

    def _order(self, count: int) -> Any:
        keys = self._uniform((count,))
        return argsort_p(keys, axis=0, descending=False, stable=True)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Put the slices of an array into random order, in place."""
        setitem(x, ..., self.permutation(x, axis))

    def choice(
        self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0
    ) -> Any:
        """Draw from the numbers below `a` or from the slices of an array."""
        values = as_array(np.arange(a)) if isinstance(a, int) else as_array(a)
        count, shape = values.shape[axis], shape_of(size, 0)
        wanted = int(np.prod(shape))
        if not replace and wanted > count:
            raise ArgumentError(f"choice cannot draw {wanted} of {count} without replacement.")
        if not replace:
            # Keys of Gumbel's distribution: the largest are a draw with the right chances.
            keys = self.gumbel(size=(count,)) + (0.0 if p is None else log(floating(p)))
            places = argsort_p(keys, axis=0, descending=True, stable=True)[:wanted]
        elif p is None:
            places = draws.draw_integers(self.stream, (wanted,), 0, count, "int64")
        else:
            logits = log(floating(p))
            places = draws.draw_categorical(self.stream, reshape(logits, (1, count)), wanted, None)
        moved = moveaxis(values, axis, 0)
        taken = getitem(moved, reshape(places, shape))
        return moveaxis(taken, 0, axis) if axis and len(shape) == 1 else taken


def word_of(seed: Any) -> int:
    """Return a seed as one number: sequences of numbers are mixed into one."""
    if isinstance(seed, int | np.integer):
        return int(seed)
    if isinstance(seed, Draws):
        return seed.stream.key
    return int(np.random.SeedSequence(np.asarray(seed).tolist()).generate_state(1, np.uint64)[0])
