"""Random flips, crops and adjustments, from a generator's stream or from a seed pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.core.argument_checks import check_wholes
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.device import device
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.image.adjustments import (
    adjust_brightness,
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
)
from tapegrad.ops.image.cropping import crop_axis
from tapegrad.ops.image.orientation import flip_left_right, flip_up_down
from tapegrad.ops.image.pixels import as_images
from tapegrad.ops.random.generator import source_for
from tapegrad.ops.random.primitives import draw_integers, draw_mask, draw_uniform
from tapegrad.ops.random.stateless import SeedPair, split

MakeSource = Callable[[Any], Any]
"""Returns the source of a draw from a seed, on the device of the images."""


def _flipped(
    name: str, flip: Callable[[Any], Any], image: Any, make_source: MakeSource, seed: Any
) -> Any:
    x = as_images(image, name)
    with device(x.device):
        is_kept = draw_mask(make_source(seed), (*x.shape[:-3], 1, 1, 1), 0.5)
    return where(is_kept, x, flip(x))


def random_flip_left_right(image: Any, seed: int | None = None) -> Any:
    """Flip each image from left to right with probability 1/2.

    >>> random_flip_left_right([[[1.0], [1.0]]]).numpy().ravel().tolist()
    [1.0, 1.0]
    """
    return _flipped("random_flip_left_right", flip_left_right, image, source_for, seed)


def random_flip_up_down(image: Any, seed: int | None = None) -> Any:
    """Flip each image upside down with probability 1/2.

    >>> random_flip_up_down([[[1.0]], [[1.0]]]).numpy().ravel().tolist()
    [1.0, 1.0]
    """
    return _flipped("random_flip_up_down", flip_up_down, image, source_for, seed)


def stateless_random_flip_left_right(image: Any, seed: Any) -> Any:
    """Flip each image from left to right with probability 1/2, as the seed pair determines.

    >>> stateless_random_flip_left_right([[[1.0], [1.0]]], (1, 2)).numpy().ravel().tolist()
    [1.0, 1.0]
    """
    name = "stateless_random_flip_left_right"
    return _flipped(name, flip_left_right, image, SeedPair, seed)


def stateless_random_flip_up_down(image: Any, seed: Any) -> Any:
    """Flip each image upside down with probability 1/2, as the seed pair determines.

    >>> stateless_random_flip_up_down([[[1.0]], [[1.0]]], (1, 2)).numpy().ravel().tolist()
    [1.0, 1.0]
    """
    return _flipped("stateless_random_flip_up_down", flip_up_down, image, SeedPair, seed)


def _cropped(name: str, value: Any, size: Any, sources: Callable[[int], Any]) -> Any:
    x = as_operand(value)
    wanted = check_wholes("size", size, name)
    if len(wanted) != len(x.shape):
        raise ShapeError(
            f"{name} needs a size with one number for each of the {len(x.shape)} axes. "
            f"Got {wanted}."
        )
    for axis, (old, new) in enumerate(zip(x.shape, wanted, strict=True)):
        if not 0 <= new <= old:
            raise ShapeError(
                f"{name} cannot take {new} entries along axis {axis} of shape {tuple(x.shape)}."
            )
        if new < old:
            with device(x.device):
                start = draw_integers(sources(axis), (), 0, old - new + 1, "int64")
            x = crop_axis(x, axis, start, new, name)
    return x


def random_crop(value: Any, size: Any, seed: int | None = None, name: str | None = None) -> Any:
    """Return a part of a tensor of this size, which has one number per axis, at a random place.

    >>> random_crop([[[1.0], [1.0], [1.0]]], (1, 2, 1)).shape
    (1, 2, 1)
    """
    return _cropped("random_crop", value, size, lambda axis: source_for(seed))


def stateless_random_crop(value: Any, size: Any, seed: Any, name: str | None = None) -> Any:
    """Return a part of a tensor of this size, at a place that the seed pair determines.

    >>> stateless_random_crop([[[1.0], [1.0], [1.0]]], (1, 2, 1), (1, 2)).shape
    (1, 2, 1)
    """
    x = as_operand(value)
    with device(x.device):
        seeds = split(seed, max(1, len(x.shape)))
    return _cropped("stateless_random_crop", x, size, lambda axis: SeedPair(seeds[axis]))


Draw = tuple[Any, MakeSource, Any]
"""The images, and how a number for all of them is drawn from a seed."""


def _drawn(draw: Draw, low: float, high: float) -> Any:
    image, make_source, seed = draw
    with device(image.device):
        return draw_uniform(make_source(seed), (), low, high, "float32")


def _around_zero(name: str, draw: Draw, max_delta: Any, most: float | None = None) -> Any:
    if not max_delta >= 0 or (most is not None and max_delta > most):
        limit = "of at least 0" if most is None else f"from 0 to {most}"
        raise ArgumentError(f"{name} needs a max_delta {limit}. Got {max_delta!r}.")
    return _drawn(draw, -float(max_delta), float(max_delta))


def _between(name: str, draw: Draw, lower: Any, upper: Any) -> Any:
    if not 0 <= lower < upper:
        raise ArgumentError(
            f"{name} needs 0 <= lower < upper. Got lower={lower!r} and upper={upper!r}."
        )
    return _drawn(draw, float(lower), float(upper))


def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Any:
    """Add a random number in [-max_delta, max_delta) to all pixels.

    >>> random_brightness([[[0.5]]], 0.0).tolist()
    [[[0.5]]]
    """
    x = as_operand(image)
    name = "random_brightness"
    return adjust_brightness(x, _around_zero(name, (x, source_for, seed), max_delta))


def stateless_random_brightness(image: Any, max_delta: float, seed: Any) -> Any:
    """Add a number in [-max_delta, max_delta) that the seed pair determines to all pixels.

    >>> stateless_random_brightness([[[0.5]]], 0.0, (1, 2)).tolist()
    [[[0.5]]]
    """
    x = as_operand(image)
    name = "stateless_random_brightness"
    return adjust_brightness(x, _around_zero(name, (x, SeedPair, seed), max_delta))


def random_contrast(image: Any, lower: float, upper: float, seed: int | None = None) -> Any:
    """Scale the contrast by a random number in [lower, upper).

    >>> random_contrast([[[0.5]]], 0.5, 1.5).tolist()
    [[[0.5]]]
    """
    x = as_operand(image)
    return adjust_contrast(x, _between("random_contrast", (x, source_for, seed), lower, upper))


def stateless_random_contrast(image: Any, lower: float, upper: float, seed: Any) -> Any:
    """Scale the contrast by a number in [lower, upper) that the seed pair determines.

    >>> stateless_random_contrast([[[0.5]]], 0.5, 1.5, (1, 2)).tolist()
    [[[0.5]]]
    """
    x = as_operand(image)
    name = "stateless_random_contrast"
    return adjust_contrast(x, _between(name, (x, SeedPair, seed), lower, upper))


def random_hue(image: Any, max_delta: float, seed: int | None = None) -> Any:
    """Turn the hue by a random number in [-max_delta, max_delta), at most 1/2.

    >>> random_hue([[[1.0, 0.0, 0.0]]], 0.0).tolist()
    [[[1.0, 0.0, 0.0]]]
    """
    x = as_operand(image)
    return adjust_hue(x, _around_zero("random_hue", (x, source_for, seed), max_delta, 0.5))


def stateless_random_hue(image: Any, max_delta: float, seed: Any) -> Any:
    """Turn the hue by a number in [-max_delta, max_delta) that the seed pair determines.

    >>> stateless_random_hue([[[1.0, 0.0, 0.0]]], 0.0, (1, 2)).tolist()
    [[[1.0, 0.0, 0.0]]]
    """
    x = as_operand(image)
    return adjust_hue(x, _around_zero("stateless_random_hue", (x, SeedPair, seed), max_delta, 0.5))


def random_saturation(image: Any, lower: float, upper: float, seed: int | None = None) -> Any:
    """Scale the saturation by a random number in [lower, upper).

    >>> random_saturation([[[0.5, 0.5, 0.5]]], 0.5, 1.5).tolist()
    [[[0.5, 0.5, 0.5]]]
    """
    x = as_operand(image)
    return adjust_saturation(x, _between("random_saturation", (x, source_for, seed), lower, upper))


def stateless_random_saturation(image: Any, lower: float, upper: float, seed: Any = None) -> Any:
    """Scale the saturation by a number in [lower, upper) that the seed pair determines.

    >>> stateless_random_saturation([[[0.5, 0.5, 0.5]]], 0.5, 1.5, (1, 2)).tolist()
    [[[0.5, 0.5, 0.5]]]
    """
    x = as_operand(image)
    name = "stateless_random_saturation"
    return adjust_saturation(x, _between(name, (x, SeedPair, seed), lower, upper))
