"""What the functions of images share: checks of shapes, and dtypes of pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import DTypeError, ShapeError
from tapegrad.ops.casting.cast import cast, in_dtype
from tapegrad.ops.composed import saturate_cast
from tapegrad.ops.elementwise.rounding import floor_divide
from tapegrad.ops.kinds import is_complex, kind_of


def as_images(value: Any, name: str) -> Any:
    """Return an image `[height, width, channels]` or a batch of images as an operand.

    >>> as_images([[[1.0]]], "resize").shape
    (1, 1, 1)
    """
    x = as_operand(value)
    if len(x.shape) not in (3, 4):
        raise ShapeError(
            f"{name} takes an image of shape (height, width, channels), or a batch of images of "
            f"shape (batch, height, width, channels). Got shape {tuple(x.shape)}."
        )
    return _real(x, name)


def as_stack(value: Any, name: str) -> Any:
    """Return images `[..., height, width, channels]` as an operand.

    >>> as_stack([[[1.0]]], "psnr").shape
    (1, 1, 1)
    """
    x = as_operand(value)
    if len(x.shape) < 3:
        raise ShapeError(
            f"{name} takes images of shape (..., height, width, channels). "
            f"Got shape {tuple(x.shape)}."
        )
    return _real(x, name)


def as_batch(value: Any, name: str) -> Any:
    """Return a batch of images as an operand.

    >>> as_batch([[[[1.0]]]], "sobel_edges").shape
    (1, 1, 1, 1)
    """
    x = as_operand(value)
    if len(x.shape) != 4:
        raise ShapeError(
            f"{name} takes images of shape (batch, height, width, channels). "
            f"Got shape {tuple(x.shape)}."
        )
    return _real(x, name)


def as_colours(value: Any, name: str, count: int = 3) -> Any:
    """Return a tensor whose last axis has one entry per channel as an operand.

    >>> as_colours([1.0, 0.0, 0.0], "rgb_to_yuv").shape
    (3,)
    """
    x = as_operand(value)
    if not x.shape or x.shape[-1] != count:
        raise ShapeError(
            f"{name} needs {count} channel{'s' if count > 1 else ''} along the last axis. "
            f"Got shape {tuple(x.shape)}."
        )
    return _real(x, name)


def _real(x: Any, name: str) -> Any:
    if is_complex(x):
        raise DTypeError(f"{name} takes images of real numbers. Got {x.dtype}.")
    return x


def is_floating(x: Any) -> bool:
    """Return whether pixels are floating-point numbers.

    >>> is_floating(as_operand([1.0])), is_floating(as_operand([1]))
    (True, False)
    """
    return kind_of(x) == "f"


def in_single(x: Any) -> Any:
    """Return pixels in float32; float64 stays, since gradients are checked in it.

    >>> in_single(as_operand([1, 2])).dtype
    <dtype: 'float32'>
    """
    return x if x.dtype.name == "float64" else in_dtype(x, "float32")


def convert_image_dtype(
    image: Any, dtype: Any, saturate: bool = False, name: str | None = None
) -> Any:
    """Convert pixels to another dtype, and scale them where one of the dtypes is an integer one.

    Floating-point pixels lie in [0, 1], integer pixels between 0 and the largest integer of their
    dtype. With `saturate`, values out of range are clipped.

    >>> convert_image_dtype([0.0, 0.5, 1.0], "uint8").tolist()
    [0, 127, 255]
    """
    x, new = as_operand(image), as_dtype(dtype)
    old = as_dtype(x.dtype)
    if old.is_complex or new.is_complex or "bool" in (old.name, new.name):
        raise DTypeError(
            "convert_image_dtype converts between integer and floating-point dtypes. "
            f"Got {old.name} and {new.name}."
        )
    convert = saturate_cast if saturate else cast
    if old == new:
        return x
    if old.is_integer and new.is_integer:
        return _rescaled_integers(x, old.max, new.max, new, convert)
    if old.is_integer:
        return cast(x, new) * (1.0 / old.max)
    if not new.is_integer:
        return cast(x, new)
    # Half a step more gives every integer an interval of the same length.
    return convert(in_single(x) * (new.max + 0.5), new)


def _rescaled_integers(x: Any, old_max: int, new_max: int, dtype: Any, convert: Any) -> Any:
    if old_max > new_max:
        return convert(floor_divide(x, (old_max + 1) // (new_max + 1)), dtype)
    return convert(x, dtype) * ((new_max + 1) // (old_max + 1))


def as_fractions(x: Any) -> Any:
    """Return integer pixels as numbers in [0, 1], and other pixels unchanged.

    >>> as_fractions(cast([0, 255], "uint8")).tolist()
    [0.0, 1.0]
    """
    return x if is_floating(x) else convert_image_dtype(x, "float32")


def channels(x: Any) -> Sequence[Any]:
    """Return the channels of images, each without its axis.

    >>> [float(c) for c in channels(as_operand([1.0, 2.0]))]
    [1.0, 2.0]
    """
    return [x[..., k] for k in range(x.shape[-1])]
