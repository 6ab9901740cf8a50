"""Samples of functions of images, against their definitions in loops over pixels."""

from __future__ import annotations

import colorsys
import math
from typing import Any

import numpy as np

from tapegrad.ops.image import (
    adjustments,
    boxes,
    colours,
    cropping,
    edges,
    orientation,
    pixels,
    resizing,
    sampling,
    similarity,
)
from tapegrad.testing.sample import Sample, ValueSample, distinct, fixed, named, normal, uniform

_WINDOWS: dict[str, tuple[float, Any]] = {
    "bilinear": (1, lambda d: 1 - d),
    "bicubic": (2, lambda d: _piecewise(d, (1.5, -2.5, 0, 1), (-0.5, 2.5, -4, 2))),
    "mitchellcubic": (
        2,
        lambda d: _piecewise(d, (7 / 6, -2, 0, 8 / 9), (-7 / 18, 2, -10 / 3, 16 / 9)),
    ),
    "lanczos3": (3, lambda d: np.sinc(d) * np.sinc(d / 3)),
    "lanczos5": (5, lambda d: np.sinc(d) * np.sinc(d / 5)),
    "gaussian": (1.5, lambda d: math.exp(-2 * d * d)),
}


def _piecewise(d: float, near: Any, far: Any) -> float:
    return float(np.polyval(near if d < 1 else far, d))


def _resampled(line: Any, wanted: int, method: str, antialias: bool) -> Any:
    """Return a line of pixels in another length, one result at a time."""
    n = len(line)
    step = n / wanted
    found = []
    for i in range(wanted):
        if method == "nearest":
            found.append(line[min(n - 1, math.floor((i + 0.5) * step))])
            continue
        total, weights = 0.0, 0.0
        for j in range(n):
            if method == "area":
                weight = max(0.0, min((i + 1) * step, j + 1) - max(i * step, j))
            else:
                radius, window = _WINDOWS[method]
                stretch = max(1.0, step) if antialias else 1.0
                distance = abs((i + 0.5) * step - (j + 0.5)) / stretch
                weight = window(distance) if distance < radius else 0.0
            total, weights = total + weight * line[j], weights + weight
        found.append(total / weights)
    return np.array(found)


def _resized(x: Any, size: Any, method: str = "bilinear", antialias: bool = False) -> Any:
    for axis, wanted in zip((-3, -2), size):
        x = np.apply_along_axis(_resampled, axis, x, wanted, method, antialias)
    return x


def _resize(method: str, shape: Any, size: Any, antialias: bool = False) -> Sample:
    return Sample(
        f"resize-{method}{'-antialias' if antialias else ''}",
        lambda x: resizing.resize(x, size, method, antialias=antialias),
        [normal(*shape)],
        lambda x: _resized(x, size, method, antialias),
    )


def _crop_and_resize(x: Any, corners: Any, method: str = "bilinear") -> Any:
    result = np.full((len(corners), 3, 2, x.shape[-1]), 0.5)
    height, width = x.shape[1:3]
    for k, (top, left, bottom, right) in enumerate(corners):
        for i, j in np.ndindex(3, 2):
            y = (top + (bottom - top) * i / 2) * (height - 1)
            z = (left + (right - left) * j) * (width - 1)
            if 0 <= y <= height - 1 and 0 <= z <= width - 1:
                result[k, i, j] = _pixel(x[k % 2], y, z, method)
    return result


def _pixel(image: Any, y: float, z: float, method: str) -> Any:
    if method == "nearest":
        return image[math.floor(y + 0.5), math.floor(z + 0.5)]
    total = 0.0
    for i, j in np.ndindex(image.shape[:2]):
        total = total + max(0, 1 - abs(y - i)) * max(0, 1 - abs(z - j)) * image[i, j]
    return total


def _patches(x: Any, size: Any, stride: Any, rate: Any, border: Any = ((0, 0), (0, 0))) -> Any:
    x = np.pad(x, ((0, 0), *border, (0, 0)))
    counts = [
        (n - (k - 1) * r - 1) // s + 1
        for n, k, s, r in zip(x.shape[1:3], size, stride, rate, strict=True)
    ]
    result = np.zeros((x.shape[0], *counts, size[0] * size[1] * x.shape[3]))
    for i, j in np.ndindex(*counts):
        top, left = i * stride[0], j * stride[1]
        rows = slice(top, top + (size[0] - 1) * rate[0] + 1, rate[0])
        columns = slice(left, left + (size[1] - 1) * rate[1] + 1, rate[1])
        result[:, i, j] = x[:, rows, columns].reshape(x.shape[0], -1)
    return result


def _by_colour(function: Any) -> Any:
    return lambda x: np.apply_along_axis(lambda c: np.array(function(*c)), -1, x)


def _hue_turned(x: Any, delta: float) -> Any:
    def turn(red: float, green: float, blue: float) -> Any:
        hue, saturation, value = colorsys.rgb_to_hsv(red, green, blue)
        return colorsys.hsv_to_rgb((hue + delta) % 1.0, saturation, value)

    return _by_colour(turn)(x)


def _saturated(x: Any, factor: float) -> Any:
    def scale(red: float, green: float, blue: float) -> Any:
        hue, saturation, value = colorsys.rgb_to_hsv(red, green, blue)
        return colorsys.hsv_to_rgb(hue, min(1.0, saturation * factor), value)

    return _by_colour(scale)(x)


def _standardized(x: Any) -> Any:
    axes = (-3, -2, -1)
    return (x - x.mean(axes, keepdims=True)) / x.std(axes, keepdims=True)


def _structure(x: Any, y: Any, size: int) -> tuple[Any, Any]:
    """Return the mean of SSIM and of its second factor, from one window at a time."""
    steps = np.arange(size) - (size - 1) / 2
    window = np.exp(-(steps[:, None] ** 2 + steps**2) / 4.5)
    window = (window / window.sum())[..., None]
    whole, second = [], []
    for i, j in np.ndindex(x.shape[-3] - size + 1, x.shape[-2] - size + 1):
        a, b = (z[..., i : i + size, j : j + size, :] for z in (x, y))
        mean_a, mean_b, aa, bb, ab = (
            (window * z).sum((-3, -2)) for z in (a, b, a * a, b * b, a * b)
        )
        light = (2 * mean_a * mean_b + 1e-4) / (mean_a**2 + mean_b**2 + 1e-4)
        spread = aa - mean_a**2 + bb - mean_b**2 + 9e-4
        shape = (2 * (ab - mean_a * mean_b) + 9e-4) / spread
        whole.append(light * shape)
        second.append(shape)
    return np.mean(whole, 0), np.mean(second, 0)


def _multiscale(x: Any, y: Any) -> Any:
    def halved(z: Any) -> Any:
        z = np.pad(z, ((0, 0), (0, z.shape[1] % 2), (0, z.shape[2] % 2), (0, 0)), "edge")
        parts = z.reshape(z.shape[0], z.shape[1] // 2, 2, z.shape[2] // 2, 2, -1)
        return parts.mean((2, 4))

    _, first = _structure(x, y, 3)
    last, _ = _structure(halved(x), halved(y), 3)
    return (np.maximum(first, 0) ** 0.4 * np.maximum(last, 0) ** 0.6).mean(-1)


def _variation(x: Any) -> Any:
    axes = (-3, -2, -1)
    return np.abs(np.diff(x, axis=-3)).sum(axes) + np.abs(np.diff(x, axis=-2)).sum(axes)


def _gradients(x: Any) -> Any:
    nothing = [(0, 0), (0, 0), (0, 0), (0, 0)]
    down, across = list(nothing), list(nothing)
    down[1] = across[2] = (0, 1)
    return np.pad(np.diff(x, axis=1), down), np.pad(np.diff(x, axis=2), across)


def _sobel(x: Any) -> Any:
    x = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), "reflect")
    slopes = np.array([[-1, -2, -1], [0, 0, 0], [1, 2, 1]])
    result = np.zeros((x.shape[0], x.shape[1] - 2, x.shape[2] - 2, x.shape[3], 2))
    for i, j in np.ndindex(*result.shape[1:3]):
        part = x[:, i : i + 3, j : j + 3]
        for k, kernel in enumerate((slopes, slopes.T)):
            result[:, i, j, :, k] = (part * kernel[..., None]).sum((1, 2))
    return result


_BOXES = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.1, 1.0, 1.1], [2.0, 2.0, 3.0, 4.0]]
_COLOUR = uniform(0.1, 0.9, 2, 3, 3)

SAMPLES = [
    _resize("bilinear", (2, 3, 4, 2), (5, 3)),
    _resize("bilinear", (2, 7, 9, 1), (3, 4), True),
    _resize("bicubic", (4, 5, 2), (6, 3)),
    _resize("bicubic", (9, 7, 1), (4, 8), True),
    _resize("nearest", (2, 3, 4, 2), (5, 3)),
    _resize("area", (2, 5, 4, 2), (3, 6)),
    _resize("lanczos3", (6, 7, 1), (4, 9)),
    _resize("lanczos5", (6, 7, 1), (4, 9), True),
    _resize("gaussian", (6, 5, 1), (4, 7), True),
    _resize("mitchellcubic", (6, 5, 1), (4, 7)),
    Sample(
        "resize-long",  # by gathers
        lambda x: resizing.resize(x, (1, 90)),
        [normal(1, 140, 1)],
        lambda x: _resized(x, (1, 90)),
    ),
    Sample(
        "resize_with_pad",
        lambda x: resizing.resize_with_pad(x, 4, 3),
        [normal(2, 4, 1)],
        lambda x: np.pad(_resized(x, (1, 3)), ((1, 2), (0, 0), (0, 0))),
    ),
    Sample(
        "resize_with_crop_or_pad",
        lambda x: cropping.resize_with_crop_or_pad(x, 2, 6),
        [normal(5, 3, 2)],
        lambda x: np.pad(x[1:3], ((0, 0), (1, 2), (0, 0))),
    ),
    Sample(
        "central_crop",
        lambda x: cropping.central_crop(x, 0.5),
        [normal(2, 5, 4, 1)],
        lambda x: x[:, 1:4, 1:3],
    ),
    Sample(
        "crop_to_bounding_box",
        lambda x: cropping.crop_to_bounding_box(x, 1, 0, 2, 3),
        [normal(4, 5, 2)],
        lambda x: x[1:3, :3],
    ),
    Sample(
        "pad_to_bounding_box",
        lambda x: cropping.pad_to_bounding_box(x, 1, 0, 4, 3),
        [normal(2, 2, 2)],
        lambda x: np.pad(x, ((1, 1), (0, 1), (0, 0))),
    ),
    Sample(
        "crop_and_resize",
        lambda x, c: sampling.crop_and_resize(
            x, c, np.array([0, 1, 0]), (3, 2), extrapolation_value=0.5
        ),
        [normal(2, 4, 5, 2), uniform(0.15, 1.3, 3, 4)],
        _crop_and_resize,
    ),
    Sample(
        "crop_and_resize-nearest",
        lambda x: sampling.crop_and_resize(
            x, np.array([[0.1, 0.9, 0.8, 0.2]]), np.array([0]), (3, 2), "nearest"
        ),
        [normal(2, 4, 5, 2)],
        lambda x: _crop_and_resize(x, [(0.1, 0.9, 0.8, 0.2)], "nearest"),
    ),
    Sample(
        "extract_patches",
        lambda x: cropping.extract_patches(x, (1, 2, 3, 1), (1, 1, 2, 1), (1, 2, 1, 1), "VALID"),
        [normal(2, 5, 6, 2)],
        lambda x: _patches(x, (2, 3), (1, 2), (2, 1)),
    ),
    Sample(
        "extract_patches-same",
        lambda x: cropping.extract_patches(x, (1, 3, 2, 1), (1, 2, 2, 1), (1, 1, 1, 1), "SAME"),
        [normal(1, 4, 5, 1)],
        lambda x: _patches(x, (3, 2), (2, 2), (1, 1), ((0, 1), (0, 1))),
    ),
    Sample(
        "extract_patches-apart",
        lambda x: cropping.extract_patches(x, (1, 2, 3, 1), (1, 2, 3, 1), (1, 1, 1, 1), "VALID"),
        [normal(2, 4, 7, 2)],
        lambda x: _patches(x, (2, 3), (2, 3), (1, 1)),
    ),
    named(orientation.flip_left_right, [normal(2, 3, 4, 1)], lambda x: x[:, :, ::-1]),
    named(orientation.flip_up_down, [normal(3, 4, 1)], lambda x: x[::-1]),
    named(colours.rgb_to_grayscale, [_COLOUR], lambda x: (x @ [0.2989, 0.5870, 0.1140])[..., None]),
    named(colours.grayscale_to_rgb, [normal(2, 3, 1)], lambda x: np.repeat(x, 3, -1)),
    named(colours.rgb_to_hsv, [_COLOUR], _by_colour(colorsys.rgb_to_hsv)),
    named(colours.hsv_to_rgb, [_COLOUR], _by_colour(colorsys.hsv_to_rgb)),
    Sample(
        "rgb_to_yiq",
        lambda x: colours.rgb_to_yiq(x)[..., 0],
        [_COLOUR],
        lambda x: x @ [0.299, 0.587, 0.114],
    ),
    Sample(
        "yiq_to_rgb",
        lambda x: colours.yiq_to_rgb(x)[..., 0],
        [_COLOUR],
        lambda x: x @ [1.0, 0.95598634, 0.6208248],
    ),
    Sample(
        "rgb_to_yuv",
        lambda x: colours.rgb_to_yuv(x)[..., 0],
        [_COLOUR],
        lambda x: x @ [0.299, 0.587, 0.114],
    ),
    Sample(
        "yuv_to_rgb",
        lambda x: colours.yuv_to_rgb(x)[..., 2],
        [_COLOUR],
        lambda x: x @ [1.0, 2.03206185, 0.0],
    ),
    Sample(
        "convert_image_dtype",
        lambda x: pixels.convert_image_dtype(x, x.dtype),
        [normal(2, 3)],
        lambda x: x,
    ),
    ValueSample(
        "convert_image_dtype-bytes",
        lambda x: pixels.convert_image_dtype(x, "uint8", saturate=True),
        [fixed([-0.5, 0.0, 0.25, 1.0, 7.0])],
        lambda x: np.array([0, 0, 63, 255, 255]),
    ),
    Sample("adjust_brightness", adjustments.adjust_brightness, [normal(2, 3, 1), normal()], np.add),
    Sample(
        "adjust_contrast",
        adjustments.adjust_contrast,
        [normal(2, 3, 4, 2), normal()],
        lambda x, f: (x - x.mean((1, 2), keepdims=True)) * f + x.mean((1, 2), keepdims=True),
    ),
    Sample(
        "adjust_gamma",
        lambda x, g: adjustments.adjust_gamma(x, g, 3.0),
        [uniform(0.2, 2.0, 2, 3), uniform(0.5, 2.0)],
        lambda x, g: 3.0 * x**g,
    ),
    Sample("adjust_hue", adjustments.adjust_hue, [_COLOUR, fixed(0.3)], _hue_turned),
    Sample("adjust_saturation", adjustments.adjust_saturation, [_COLOUR, fixed(0.7)], _saturated),
    named(adjustments.per_image_standardization, [normal(2, 3, 4, 2)], _standardized),
    Sample(
        "psnr",
        lambda x, y: similarity.psnr(x, y, 2.0),
        [normal(2, 3, 4, 1), normal(2, 3, 4, 1)],
        lambda x, y: 10 * np.log10(4.0 / ((x - y) ** 2).mean((1, 2, 3))),
    ),
    Sample(
        "ssim",
        lambda x, y: similarity.ssim(x, y, 1.0, filter_size=3),
        [uniform(0.0, 1.0, 2, 5, 4, 2), uniform(0.0, 1.0, 2, 5, 4, 2)],
        lambda x, y: _structure(x, y, 3)[0].mean(-1),
    ),
    Sample(
        "ssim_multiscale",
        lambda x, y: similarity.ssim_multiscale(x, x + 0.3 * y, 1.0, (0.4, 0.6), filter_size=3),
        [uniform(0.0, 1.0, 2, 7, 6, 1), uniform(0.0, 1.0, 2, 7, 6, 1)],
        lambda x, y: _multiscale(x, x + 0.3 * y),
    ),
    named(edges.total_variation, [distinct(2, 3, 4, 1)], _variation),
    named(edges.image_gradients, [normal(2, 3, 4, 1)], _gradients),
    named(edges.sobel_edges, [normal(2, 3, 4, 2)], _sobel),
    ValueSample(
        "non_max_suppression",
        lambda s: boxes.non_max_suppression(np.array(_BOXES), s, 2),
        [fixed([0.25, 0.5, 0.375])],
        lambda s: np.array([1, 2]),
        batches=False,
        records=False,
    ),
]
