"""Gaussian, uniform and derivative filters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.values.convert import NUMBERS, read_on_host
from tapegrad.errors import ArgumentError, DTypeError
from tapegrad.scipy.ndimage.boundaries import filter_mode
from tapegrad.scipy.ndimage.correlation import correlate1d
from tapegrad.scipy.ndimage.results import (
    Store,
    apply_to_parts,
    normalize_filter_axes,
    per_axis,
    storing,
)
from tapegrad.scipy.vocabulary import exp, is_complex, numbers_like, operand, sqrt, sum_over

Step = Callable[[Any, int, str, Any], Any]
Derivative = Callable[[Any, int, str, Any, Store], Any]


def gaussian_weights(sigma: Any, order: int, radius: int) -> Any:
    """Return the sampled Gaussian, or a derivative of it, as weights for correlation.

    A derivative is the Gaussian times a polynomial p; the next one has p' - x / sigma^2 p.
    """
    if type(sigma) in NUMBERS or isinstance(sigma, np.ndarray | np.generic):
        sigma = float(sigma)
        x: Any = np.arange(-radius, radius + 1, dtype=np.float64)
        bell = np.exp(-0.5 / (sigma * sigma) * x**2)
        bell = bell / bell.sum()
    else:
        x = numbers_like(sigma, np.arange(-radius, radius + 1))
        bell = exp(-0.5 / (sigma * sigma) * x * x)
        bell = bell / sum_over(bell)
    factors: list[Any] = [1.0]
    for _ in range(order):
        slopes = [*[(k + 1) * factors[k + 1] for k in range(len(factors) - 1)], 0.0, 0.0]
        falls = [0.0, *[-f / (sigma * sigma) for f in factors]]
        factors = [slope + fall for slope, fall in zip(slopes, falls, strict=True)]
    polynomial: Any = 0.0
    for factor in reversed(factors):
        polynomial = polynomial * x + factor
    # Correlation reverses the weights, which changes the sign of odd derivatives.
    return polynomial * bell * (-1.0) ** order


def gaussian_filter1d(
    input: Any,
    sigma: Any,
    axis: int = -1,
    order: int = 0,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | None = None,
) -> Any:
    """Filter an image along an axis with a Gaussian or a derivative of it.

    With `radius` given, sigma may be a tensor and is differentiable.

    >>> gaussian_filter1d([0.0, 0.0, 1.0, 0.0, 0.0], 1.0).round(4).tolist()
    [0.0584, 0.2421, 0.3989, 0.2421, 0.0584]
    """
    if order not in range(100):
        raise ArgumentError(f"gaussian_filter1d needs a non-negative integer order. Got {order!r}.")
    if radius is None:
        radius = int(
            truncate * float(read_on_host(sigma, "gaussian_filter1d without radius")) + 0.5
        )
    if radius not in range(10**9):
        raise ArgumentError(
            f"gaussian_filter1d needs a non-negative integer radius. Got {radius!r}."
        )
    sigma = sigma if type(sigma) in NUMBERS or not hasattr(sigma, "shape") else operand(sigma)
    weights = gaussian_weights(sigma, int(order), int(radius))
    return correlate1d(input, weights, axis, output, mode, cval)


def gaussian_filter(
    input: Any,
    sigma: Any,
    order: Any = 0,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: Any = None,
    axes: Any = None,
) -> Any:
    """Filter an image with a Gaussian along all axes, or along `axes`.

    >>> gaussian_filter(np.ones((2, 2)), 2.0).round(6).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    name = "gaussian_filter"
    chosen = normalize_filter_axes(axes, np.ndim(input), name)
    step = _gaussian_step(chosen, sigma, order, truncate, radius, name)
    modes = per_axis(mode, len(chosen), "mode", name)
    return _one_after_another(input, chosen, modes, output, step, cval, name)


def _gaussian_step(
    chosen: Sequence[int], sigma: Any, order: Any, truncate: float, radius: Any, name: str
) -> Step:
    """Return the filter along one of the chosen axes."""
    sigmas = per_axis(sigma, len(chosen), "sigma", name)
    orders = per_axis(order, len(chosen), "order", name)
    reaches = per_axis(radius, len(chosen), "radius", name)

    def step(x: Any, axis: int, mode: str, cval: Any) -> Any:
        k = chosen.index(axis)
        small = type(sigmas[k]) in NUMBERS and sigmas[k] <= 1e-15
        if small:
            return x
        return gaussian_filter1d(
            x, sigmas[k], axis, orders[k], None, mode, cval, truncate, radius=reaches[k]
        )

    return step


def uniform_filter1d(
    input: Any,
    size: int,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """Return the mean of `size` neighbours along an axis.

    >>> uniform_filter1d([1.0, 2.0, 6.0], 3).round(4).tolist()
    [1.3333, 3.0, 4.6667]
    """
    if int(size) < 1:
        raise ArgumentError(f"uniform_filter1d needs a size of at least 1. Got {size}.")

    def apply(x: Any, cval: Any) -> Any:
        return correlate1d(x, np.ones(int(size)), axis, None, mode, cval, origin) / float(size)

    return apply_to_parts(input, cval, output, apply, "uniform_filter1d")


def uniform_filter(
    input: Any,
    size: Any = 3,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """Return the mean over a box of neighbours.

    >>> uniform_filter(np.array([[0.0, 9.0], [0.0, 0.0]]), 3, mode="constant").tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    name = "uniform_filter"
    chosen = normalize_filter_axes(axes, np.ndim(input), name)
    sizes = per_axis(size, len(chosen), "size", name)
    origins = per_axis(origin, len(chosen), "origin", name)
    modes = per_axis(mode, len(chosen), "mode", name)

    def step(x: Any, axis: int, mode: str, cval: Any) -> Any:
        k = chosen.index(axis)
        return (
            x
            if sizes[k] <= 1
            else uniform_filter1d(x, sizes[k], axis, None, mode, cval, origins[k])
        )

    return _one_after_another(input, chosen, modes, output, step, cval, name)


def sobel(
    input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0
) -> Any:
    """Apply a Sobel filter: differences along an axis, smoothed along the others.

    >>> sobel(np.array([[0.0, 1.0, 3.0]] * 2)).tolist()
    [[4.0, 12.0, 8.0], [4.0, 12.0, 8.0]]
    """
    return _slopes(input, axis, output, mode, cval, [1.0, 2.0, 1.0], "sobel")


def prewitt(
    input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0
) -> Any:
    """Apply a Prewitt filter: differences along an axis, summed over neighbours in the others.

    >>> prewitt(np.array([[0.0, 1.0, 3.0]] * 2)).tolist()
    [[3.0, 9.0, 6.0], [3.0, 9.0, 6.0]]
    """
    return _slopes(input, axis, output, mode, cval, [1.0, 1.0, 1.0], "prewitt")


def _slopes(
    input: Any, axis: int, output: Any, mode: Any, cval: Any, smooth: Sequence[float], name: str
) -> Any:
    rank = np.ndim(input)
    chosen = normalize_filter_axes(axis, rank, name)
    modes = per_axis(mode, rank, "mode", name)

    def step(x: Any, k: int, mode: str, cval: Any) -> Any:
        return correlate1d(x, [-1.0, 0.0, 1.0] if k in chosen else smooth, k, None, mode, cval)

    order = [*chosen, *[k for k in range(rank) if k not in chosen]]
    return _one_after_another(input, order, [modes[k] for k in order], output, step, cval, name)


def laplace(
    input: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None
) -> Any:
    """Return the Laplacian: the sum of second differences along all axes, or along `axes`.

    >>> laplace([0.0, 1.0, 4.0, 9.0]).tolist()
    [1.0, 2.0, 2.0, -5.0]
    """

    def step(x: Any, axis: int, mode: str, cval: Any, store: Store) -> Any:
        return store(correlate1d(x, [1.0, -2.0, 1.0], axis, None, mode, cval))

    return _summed(input, axes, mode, output, step, cval, "laplace")


def gaussian_laplace(
    input: Any,
    sigma: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    *,
    axes: Any = None,
    **kwargs: Any,
) -> Any:
    """Return the Laplacian of an image smoothed by a Gaussian.

    >>> gaussian_laplace(np.eye(3), 1.0).round(3).tolist()[0]
    [-0.385, 0.037, 0.348]
    """
    name = "gaussian_laplace"
    chosen = normalize_filter_axes(axes, np.ndim(input), name)
    step = _gaussian_derivative(chosen, sigma, 2, name, **kwargs)
    return _summed(input, axes, mode, output, step, cval, name)


def _gaussian_derivative(
    chosen: Sequence[int],
    sigma: Any,
    order: int,
    name: str,
    truncate: float = 4.0,
    radius: Any = None,
) -> Derivative:
    """Return the Gaussian filter with a derivative of this order along one axis."""

    def derivative(x: Any, axis: int, mode: str, cval: Any, store: Store) -> Any:
        orders = [order if k == axis else 0 for k in chosen]
        step = _gaussian_step(chosen, sigma, orders, truncate, radius, name)
        for k in chosen:
            x = store(step(x, k, mode, cval))
        return x

    return derivative


def gaussian_gradient_magnitude(
    input: Any,
    sigma: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    *,
    axes: Any = None,
    **kwargs: Any,
) -> Any:
    """Return the gradient magnitude of an image smoothed by a Gaussian.

    >>> gaussian_gradient_magnitude(np.eye(3), 1.0).round(3).tolist()[0]
    [0.153, 0.202, 0.132]
    """
    name = "gaussian_gradient_magnitude"
    chosen = normalize_filter_axes(axes, np.ndim(input), name)
    if is_complex(operand(input)):
        raise DTypeError(f"{name} needs a real image. Filter the real and imaginary parts.")
    step = _gaussian_derivative(chosen, sigma, 1, name, **kwargs)

    def square(x: Any, axis: int, mode: str, cval: Any, store: Store) -> Any:
        y = step(x, axis, mode, cval, store)
        return y * y

    return _summed(input, axes, mode, output, square, cval, name, finish=sqrt)


def _one_after_another(
    input: Any,
    axes: Sequence[int],
    modes: Sequence[str],
    output: Any,
    step: Step,
    cval: Any,
    name: str,
) -> Any:
    modes = [filter_mode(mode, name) for mode in modes]
    store = storing(input, output)

    def apply(x: Any, cval: Any) -> Any:
        for axis, mode in zip(axes, modes, strict=True):
            x = store(step(x, axis, mode, cval))
        return x

    return apply_to_parts(input, cval, output, apply, name)


def _summed(
    input: Any,
    axes: Any,
    mode: Any,
    output: Any,
    step: Derivative,
    cval: Any,
    name: str,
    finish: Callable[[Any], Any] | None = None,
) -> Any:
    chosen = normalize_filter_axes(axes, np.ndim(input), name)
    modes = per_axis(mode, len(chosen), "mode", name)
    store = storing(input, output)

    def apply(x: Any, cval: Any) -> Any:
        parts = [step(x, axis, mode, cval, store) for axis, mode in zip(chosen, modes, strict=True)]
        y = sum(parts[1:], parts[0])
        return y if finish is None else finish(y)

    return apply_to_parts(input, cval, output, apply, name)
