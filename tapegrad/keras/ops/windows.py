"""Windows of images as columns, and pooling to a given size, with Keras signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_wholes
from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.config import image_data_format
from tapegrad.ops.indexing.gather import gather
from tapegrad.ops.indexing.segment_functions import unsorted_segment_sum
from tapegrad.ops.reduction.functions import reduce_max, reduce_mean
from tapegrad.ops.shape.functions import reshape, transpose
from tapegrad.ops.shape.joining import concat
from tapegrad.ops.shape.padding import pad


def _adaptive(name: str, what: str, reduce: Callable[..., Any]) -> Callable[..., Any]:
    def run(inputs: Any, output_size: Any, data_format: str | None = None) -> Any:
        x = as_operand(inputs)
        rank = len(x.shape) - 2
        sizes = check_wholes("output_size", output_size, name)
        sizes = sizes * rank if len(sizes) == 1 else sizes
        form = data_format or image_data_format()
        if rank not in (1, 2, 3) or form not in ("channels_last", "channels_first"):
            raise ArgumentError(
                f"{name} takes inputs of 3 to 5 dimensions and data_format 'channels_last' or "
                f"'channels_first'. Got shape {tuple(x.shape)} and {data_format!r}."
            )
        if len(sizes) != rank or min(sizes) < 1:
            raise ArgumentError(
                f"{name} takes output_size as an integer of 1 or more, or {rank} of them. "
                f"Got {output_size!r}."
            )
        for axis, size in enumerate(sizes, 2 if form == "channels_first" else 1):
            x = _pooled_axis(x, axis, size, reduce)
        return x

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"""Return the {what} of windows that divide each axis into nearly equal parts.

    >>> {name}([[[1.0], [3.0], [5.0], [7.0]]], 2, "channels_last").shape
    (1, 2, 1)
    """
    return run


def _pooled_axis(x: Any, axis: int, size: int, reduce: Callable[..., Any]) -> Any:
    length = x.shape[axis]
    starts = np.arange(size) * length // size
    ends = -(-(np.arange(1, size + 1) * length) // size)
    if len({*(ends - starts).tolist()}) == 1:
        places = starts[:, None] + np.arange(ends[0] - starts[0])
        return reduce(gather(x, places.astype("int32"), axis=axis), axis + 1)
    before = (slice(None),) * axis
    parts = [
        reduce(x[(*before, slice(int(start), int(end)))], axis, keepdims=True)
        for start, end in zip(starts, ends, strict=True)
    ]
    return concat(parts, axis)


adaptive_average_pool = _adaptive("adaptive_average_pool", "mean", reduce_mean)
adaptive_max_pool = _adaptive("adaptive_max_pool", "maximum", reduce_max)


class _Columns:
    """Where the elements of each window lie in padded planes."""

    def __init__(
        self, name: str, size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any
    ) -> None:
        self.name = name
        self.sizes = self._two("kernel_size", kernel_size, 1)
        gaps, steps = self._two("dilation", dilation, 1), self._two("stride", stride, 1)
        self.ends = self._two("padding", padding, 0)
        self.height, self.width = (n + 2 * end for n, end in zip(size, self.ends, strict=True))
        rows, columns = (
            self._places(*of)
            for of in zip((self.height, self.width), self.sizes, gaps, steps, strict=True)
        )
        flat = rows[:, None, :, None] * self.width + columns[None, :, None, :]
        self.places = flat.ravel().astype("int32")
        self.area = self.sizes[0] * self.sizes[1]
        self.count = rows.shape[1] * columns.shape[1]

    def _two(self, what: str, value: Any, least: int) -> tuple[int, ...]:
        found = check_wholes(what, value, self.name)
        found = found * 2 if len(found) == 1 else found
        if len(found) != 2 or min(found) < least:
            raise ArgumentError(
                f"{self.name} takes {what} as an integer of {least} or more, or two of them. "
                f"Got {value!r}."
            )
        return found

    def _places(self, size: int, width: int, gap: int, step: int) -> Any:
        """Return the index of each element of each window along an axis, as [width, windows]."""
        number = (size - (width - 1) * gap - 1) // step + 1
        if number < 1:
            raise ShapeError(
                f"{self.name} needs planes as large as a window. A window of {width} elements with "
                f"dilation {gap} exceeds {size}."
            )
        return np.arange(width)[:, None] * gap + np.arange(number) * step


def unfold(x: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Return the windows of images `[batch, channels, height, width]` as columns.

    >>> unfold([[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]], 2).tolist()
    [[[1.0, 2.0], [2.0, 3.0], [4.0, 5.0], [5.0, 6.0]]]
    """
    images = as_operand(x)
    if len(images.shape) != 4:
        raise ShapeError(
            "unfold takes images [batch, channels, height, width]. "
            f"Got shape {tuple(images.shape)}."
        )
    batch, channels, *size = images.shape
    at = _Columns("unfold", size, kernel_size, dilation, padding, stride)
    images = pad(images, [(0, 0), (0, 0), *[(end, end) for end in at.ends]])
    planes = reshape(images, (batch, channels, at.height * at.width))
    return reshape(gather(planes, at.places, axis=2), (batch, channels * at.area, at.count))


def fold(
    x: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Any:
    """Add windows in columns to images; the transpose of `unfold`.

    >>> fold([[[1.0, 1.0], [1.0, 1.0]]], (1, 3), (1, 2)).tolist()
    [[[[1.0, 2.0, 1.0]]]]
    """
    columns = as_operand(x)
    size = check_wholes("output_size", output_size, "fold")
    size = size * 2 if len(size) == 1 else size
    if len(size) != 2 or min(size) < 1:
        raise ArgumentError(
            f"fold takes output_size as an integer of 1 or more, or two of them. "
            f"Got {output_size!r}."
        )
    at = _Columns("fold", size, kernel_size, dilation, padding, stride)
    if len(columns.shape) != 3 or columns.shape[1] % at.area or columns.shape[2] != at.count:
        raise ShapeError(
            f"fold takes columns [batch, channels * {at.area}, {at.count}] for these windows. "
            f"Got shape {tuple(columns.shape)}."
        )
    batch, channels = columns.shape[0], columns.shape[1] // at.area
    entries = transpose(reshape(columns, (batch * channels, at.places.size)))
    joined = unsorted_segment_sum(entries, at.places, at.height * at.width)
    images = reshape(transpose(joined), (batch, channels, at.height, at.width))
    (top, left), (height, width) = at.ends, size
    return images[:, :, top : top + height, left : left + width]
