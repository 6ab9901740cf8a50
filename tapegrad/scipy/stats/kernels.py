"""Kernel density estimation with Gaussian kernels."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.linalg.decompositions import cholesky
from tapegrad.ops.linalg.solve import triangular_solve
from tapegrad.ops.reduction.logsumexp import logsumexp
from tapegrad.scipy.vocabulary import (
    exp,
    expand_dims,
    log,
    matrix_diag_part,
    matrix_transpose,
    ndtr,
    operand,
    operands,
    reshape_p,
    sum_over,
)


class gaussian_kde:  # noqa: N801  # SciPy's name
    """A Gaussian kernel density estimate; SciPy's `gaussian_kde`.

    `dataset` holds one point per column, or is a vector of numbers. Points, weights, bandwidth and
    evaluation points are differentiable.

    >>> density = gaussian_kde([0.0, 1.0, 3.0])
    >>> round(float(density(1.0)[0]), 6)
    0.214895
    """

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
        data = operand(dataset)
        data = reshape_p(data, shape=(1, -1)) if data.ndim < 2 else data
        if data.shape[1] < 2:
            raise ArgumentError(f"gaussian_kde needs at least two points. Got {data.shape[1]}.")
        self.dataset = data
        self.d, self.n = data.shape
        if weights is None:
            self.weights = operands(data, [1 / self.n] * self.n)[1]
        else:
            given = operands(data, weights)[1]
            if given.shape != (self.n,):
                raise ShapeError(
                    f"gaussian_kde needs one weight for each of {self.n} points. "
                    f"Got shape {given.shape}."
                )
            self.weights = given / sum_over(given)
        self.neff = 1 / sum_over(self.weights * self.weights)
        self.set_bandwidth(bw_method)

    def scotts_factor(self) -> Any:
        """Return Scott's factor n ** (-1 / (d + 4))."""
        return self.neff ** (-1 / (self.d + 4))

    def silverman_factor(self) -> Any:
        """Return Silverman's factor."""
        return (self.neff * (self.d + 2) / 4) ** (-1 / (self.d + 4))

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Set the bandwidth factor that scales the covariance of the points."""
        if bw_method is None or bw_method == "scott":
            self.factor = self.scotts_factor()
        elif isinstance(bw_method, str) and bw_method == "silverman":
            self.factor = self.silverman_factor()
        elif callable(bw_method):
            self.factor = bw_method(self)
        elif isinstance(bw_method, str):
            raise ArgumentError(
                "bw_method must be 'scott', 'silverman', a number or a function. "
                f"Got {bw_method!r}."
            )
        else:
            self.factor = operands(self.dataset, bw_method)[1]
        gap = self.dataset - sum_over(self.weights * self.dataset, -1, True)
        degrees = 1 - sum_over(self.weights * self.weights)
        self.covariance = (gap * self.weights) @ matrix_transpose(gap) / degrees * self.factor**2

    def logpdf(self, x: Any) -> Any:
        """Return the logarithm of the density at points, one per column."""
        points = self._points(x)
        factor = cholesky(self.covariance)
        here, there = triangular_solve(factor, points), triangular_solve(factor, self.dataset)
        gap = expand_dims(here, -1) - expand_dims(there, -2)
        volume = sum_over(log(matrix_diag_part(factor)), -1) + 0.5 * self.d * math.log(2 * math.pi)
        return logsumexp(log(self.weights) - 0.5 * sum_over(gap * gap, 0), -1) - volume

    def evaluate(self, points: Any) -> Any:
        """Return the density at points, one per column."""
        return exp(self.logpdf(points))

    __call__ = evaluate
    pdf = evaluate

    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """Return the probability between two bounds, for one-dimensional data.

        >>> round(float(gaussian_kde([0.0, 1.0, 3.0]).integrate_box_1d(-50.0, 50.0)), 6)
        1.0
        """
        if self.d != 1:
            raise ArgumentError(
                f"integrate_box_1d needs one-dimensional data. Got {self.d} dimensions."
            )
        low, high = operands(self.dataset, low, high)[1:]
        deviation = self.covariance[0, 0] ** 0.5
        fraction = ndtr((high - self.dataset[0]) / deviation) - ndtr(
            (low - self.dataset[0]) / deviation
        )
        return sum_over(self.weights * fraction)

    def _points(self, x: Any) -> Any:
        points = operands(self.dataset, x)[1]
        if points.ndim < 2:
            shape = (self.d, 1) if self.d > 1 else (1, -1)
            points = reshape_p(points, shape=shape)
        if points.shape[0] != self.d:
            raise ShapeError(
                f"points of gaussian_kde need {self.d} coordinates along the first axis. "
                f"Got shape {points.shape}."
            )
        return points
