"""Measures of similarity of images: PSNR, SSIM and multi-scale SSIM."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_count
from tapegrad.core.primitive.operand import as_operand, common_operands
from tapegrad.errors import ArgumentError, DTypeError, ShapeError
from tapegrad.ops.composed import is_tensor
from tapegrad.ops.convolution.functions import depthwise_conv2d
from tapegrad.ops.convolution.pooling import avg_pool2d
from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.elementwise.activations import relu
from tapegrad.ops.elementwise.exponential import log
from tapegrad.ops.elementwise.powers import power, squared_difference
from tapegrad.ops.image.pixels import as_stack, convert_image_dtype, in_single, is_floating
from tapegrad.ops.indexing.gather import place_next_to
from tapegrad.ops.reduction.functions import reduce_mean, reduce_prod
from tapegrad.ops.shape.functions import broadcast_static_shape, broadcast_to, reshape
from tapegrad.ops.shape.joining import stack
from tapegrad.ops.shape.padding import pad

SCALE_WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
"""The exponents of the five scales that Wang, Simoncelli and Bovik found by experiments."""


def _pair(name: str, first: Any, second: Any, max_val: Any) -> tuple[Any, Any, Any]:
    """Return two stacks of images and their largest value as floats of one dtype."""
    a, b = (as_stack(x, name) for x in common_operands(first, second))
    if a.dtype != b.dtype:
        raise DTypeError(f"{name} needs images of one dtype. Got {a.dtype} and {b.dtype}.")
    if a.shape[-3:] != b.shape[-3:]:
        raise ShapeError(
            f"{name} needs images of one height, width and number of channels. "
            f"Got shapes {tuple(a.shape)} and {tuple(b.shape)}."
        )
    if is_floating(a):
        largest = in_single(as_operand(max_val)) if is_tensor(max_val) else float(max_val)
        return in_single(a), in_single(b), largest
    largest = float(max_val) / np.iinfo(numpy_dtype_of(a)).max
    return convert_image_dtype(a, "float32"), convert_image_dtype(b, "float32"), largest


def psnr(a: Any, b: Any, max_val: Any, name: str | None = None) -> Any:
    """Return the peak signal-to-noise ratio of each pair of images, in decibels.

    `max_val` is the difference between the largest and the smallest possible pixel.

    >>> float(psnr([[[0.0]]], [[[1.0]]], 10.0))
    20.0
    """
    x, y, largest = _pair("psnr", a, b, max_val)
    error = reduce_mean(squared_difference(x, y), (-3, -2, -1))
    per_decade = 10.0 / math.log(10.0)
    peak = log(largest) if is_tensor(largest) else math.log(largest)
    return 2.0 * per_decade * peak - per_decade * log(error)


class _Window:
    """Local means under a Gaussian window, and the constants of SSIM."""

    def __init__(self, size: Any, sigma: Any, k1: Any, k2: Any, largest: Any, name: str) -> None:
        self.size = check_count("filter_size", size, name, least=1)
        self.name = name
        if not sigma > 0:
            raise ArgumentError(f"{name} needs a filter_sigma above 0. Got {sigma!r}.")
        places = np.arange(self.size) - (self.size - 1) / 2
        line = np.exp(-0.5 * (places / sigma) ** 2)
        self.line = line / line.sum()
        self.c1, self.c2 = (k1 * largest) ** 2, (k2 * largest) ** 2

    def mean(self, x: Any) -> Any:
        """Return the means at all places where the window lies inside the images."""
        *lead, height, width, depth = x.shape
        y = reshape(x, (math.prod(lead), height, width, depth))
        line = self.line.astype(numpy_dtype_of(x))
        for shape in ((self.size, 1, 1, 1), (1, self.size, 1, 1)):
            window = np.broadcast_to(line.reshape(shape), (*shape[:2], depth, 1))
            y = depthwise_conv2d(y, place_next_to(x, np.ascontiguousarray(window)), 1, "VALID")
        return reshape(y, (*lead, *y.shape[1:]))

    def parts(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Return luminance and contrast-structure of SSIM at each place and channel."""
        if min(x.shape[-3:-1]) < self.size:
            raise ShapeError(
                f"{self.name} needs images of at least {self.size} x {self.size} pixels for its "
                f"filter_size. Got {x.shape[-3]} x {x.shape[-2]}."
            )
        mean_x, mean_y = self.mean(x), self.mean(y)
        product, squares = 2.0 * mean_x * mean_y, mean_x * mean_x + mean_y * mean_y
        luminance = (product + self.c1) / (squares + self.c1)
        of_products = 2.0 * self.mean(x * y) - product
        of_squares = self.mean(x * x + y * y) - squares
        return luminance, (of_products + self.c2) / (of_squares + self.c2)


def _broadcast(x: Any, y: Any) -> tuple[Any, Any]:
    if x.shape == y.shape:
        return x, y
    shape = tuple(broadcast_static_shape(tuple(x.shape), tuple(y.shape)))
    return broadcast_to(x, shape), broadcast_to(y, shape)


def ssim(
    img1: Any,
    img2: Any,
    max_val: Any,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    return_index_map: bool = False,
) -> Any:
    """Return the structural similarity of each pair of images, 1 for equal images.

    With `return_index_map`, the result has one number per place of the window.

    >>> import tapegrad
    >>> x = tapegrad.reshape(tapegrad.range(64.0), (8, 8, 1))
    >>> float(ssim(x, x, 64.0, filter_size=5))
    1.0
    """
    x, y, largest = _pair("ssim", img1, img2, max_val)
    window = _Window(filter_size, filter_sigma, k1, k2, largest, "ssim")
    luminance, structure = window.parts(*_broadcast(x, y))
    return reduce_mean(luminance * structure, -1 if return_index_map else (-3, -2, -1))


def ssim_multiscale(
    img1: Any,
    img2: Any,
    max_val: Any,
    power_factors: Sequence[float] = SCALE_WEIGHTS,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Any:
    """Return the structural similarity at several scales, each half as fine as the one before.

    The result is the product of the similarities of the scales to the `power_factors`.

    >>> import tapegrad
    >>> x = tapegrad.reshape(tapegrad.range(144.0), (12, 12, 1))
    >>> float(ssim_multiscale(x, x, 144.0, (0.5, 0.5), filter_size=5))
    1.0
    """
    x, y, largest = _pair("ssim_multiscale", img1, img2, max_val)
    factors = [float(factor) for factor in power_factors]
    if not factors:
        raise ArgumentError("ssim_multiscale needs at least one power factor. Got none.")
    window = _Window(filter_size, filter_sigma, k1, k2, largest, "ssim_multiscale")
    x, y = _broadcast(x, y)
    found = []
    for scale in range(len(factors)):
        if scale:
            x, y = _halved(x), _halved(y)
        luminance, structure = window.parts(x, y)
        is_last = scale == len(factors) - 1
        found.append(relu(reduce_mean(luminance * structure if is_last else structure, (-3, -2))))
    powers = place_next_to(x, np.array(factors, numpy_dtype_of(x)))
    return reduce_mean(reduce_prod(power(stack(found, -1), powers), -1), -1)


def _halved(x: Any) -> Any:
    """Return images of half the size; the last row or column of an odd size is repeated."""
    *lead, height, width, depth = x.shape
    x = reshape(x, (math.prod(lead), height, width, depth))
    x = pad(x, [(0, 0), (0, height % 2), (0, width % 2), (0, 0)], "SYMMETRIC")
    y = avg_pool2d(x, 2, 2, "VALID")
    return reshape(y, (*lead, *y.shape[1:]))
