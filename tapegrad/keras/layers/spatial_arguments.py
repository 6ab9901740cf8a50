"""Checks of the arguments of spatial layers: sizes per dimension, padding, data formats."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.config import image_data_format
from tapegrad.keras.layers.layer import Layer

Shape = tuple[int | None, ...]

_LAST, _FIRST = "channels_last", "channels_first"


def is_whole(value: Any) -> bool:
    """Whether a value is an integer other than True or False."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def positive(layer: Layer, value: Any, what: str) -> int:
    """Return a positive integer, or raise an error that names the argument."""
    if not is_whole(value) or value < 1:
        raise ArgumentError(
            f"{type(layer).__name__} takes {what} as an integer of 1 or more. Got {value!r}."
        )
    return int(value)


def per_dimension(
    layer: Layer, value: Any, rank: int, what: str, least: int = 1
) -> tuple[int, ...]:
    """Return one integer for each of `rank` dimensions; a single integer is used for all."""
    numbers = (value,) * rank if is_whole(value) else value
    if (
        not isinstance(numbers, list | tuple)
        or len(numbers) != rank
        or not all(is_whole(n) and n >= least for n in numbers)
    ):
        several = f" or {rank} of them" if rank > 1 else ""
        raise ArgumentError(
            f"{type(layer).__name__} takes {what} as an integer of {least} or more{several}. "
            f"Got {value!r}."
        )
    return tuple(int(n) for n in numbers)


def padding_kind(layer: Layer, padding: Any, allowed: Sequence[str] = ("valid", "same")) -> str:
    """Return the padding mode in lower case, if it is allowed."""
    kind = padding.lower() if isinstance(padding, str) else padding
    if kind not in allowed:
        names = ", ".join(map(repr, allowed[:-1]))
        raise ArgumentError(
            f"{type(layer).__name__} takes padding {names} or {allowed[-1]!r}. Got {padding!r}."
        )
    return str(kind)


def channels_format(layer: Layer, data_format: Any) -> str:
    """Return 'channels_last' or 'channels_first'; None is the default of `keras.config`."""
    if data_format is None:
        return image_data_format()
    if data_format not in (_LAST, _FIRST):
        raise ArgumentError(
            f"{type(layer).__name__} takes data_format {_LAST!r} or {_FIRST!r}. "
            f"Got {data_format!r}."
        )
    return str(data_format)


def axes_in_letters(data_format: str, rank: int) -> str:
    """Return a data format in the letters that convolution and pooling take.

    >>> axes_in_letters("channels_last", 2), axes_in_letters("channels_first", 1)
    ('NHWC', 'NCW')
    """
    spatial = "DHW"[3 - rank :]
    return f"N{spatial}C" if data_format == _LAST else f"NC{spatial}"


def spatial_axes(data_format: str, rank: int) -> tuple[int, ...]:
    """Return the axes other than the batch and the channels.

    >>> spatial_axes("channels_last", 2), spatial_axes("channels_first", 2)
    ((1, 2), (2, 3))
    """
    start = 1 if data_format == _LAST else 2
    return tuple(range(start, start + rank))


def channels_axis(data_format: str, rank: int) -> int:
    """Return the axis of the channels.

    >>> channels_axis("channels_last", 2), channels_axis("channels_first", 2)
    (3, 1)
    """
    return rank + 1 if data_format == _LAST else 1


def check_rank(layer: Layer, shape: Sequence[int | None], rank: int, data_format: str) -> None:
    """Raise an error unless an input has a batch, `rank` spatial dimensions and channels."""
    if len(shape) != rank + 2:
        spatial = ("depth", "height", "width")[3 - rank :] if rank > 1 else ("steps",)
        order = (*spatial, "channels") if data_format == _LAST else ("channels", *spatial)
        raise ShapeError(
            f"{layer._title} takes inputs of {rank + 2} dimensions: batch, {', '.join(order)}. Got "
            f"shape {tuple(shape)}."
        )


def windows_along(
    layer: Layer, size: int | None, reach: int, stride: int, padding: str
) -> int | None:
    """Return how many windows of `reach` elements fit along a dimension."""
    if size is None:
        return None
    if padding != "valid":
        return -(-size // stride)
    if reach > size:
        raise ShapeError(
            f"{layer._title} has windows of {reach} elements along a dimension of size "
            f"{size}. Use padding='same' or smaller windows."
        )
    return (size - reach) // stride + 1


def transposed_size(size: int, reach: int, stride: int, padding: str, more: int | None) -> int:
    """Return the output size of a transposed convolution for an input of `size` elements.

    >>> transposed_size(4, 3, 2, "same", None), transposed_size(4, 3, 2, "valid", None)
    (8, 9)
    """
    start, is_same = (size - 1) * stride, padding == "same"
    if more is None:
        return start + (stride if is_same else max(reach, stride))
    return start + (reach % 2 if is_same else reach) + more
