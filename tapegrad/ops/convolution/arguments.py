"""Arguments of convolution and pooling: strides, padding, dilation, data formats."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tapegrad.core.argument_checks import check_whole, check_wholes, described, refuse
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.shape.primitives import permute_p, reshape_p

Shape = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]

_CHANNELS_LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}
_CHANNELS_FIRST = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


MOST_REMEMBERED = 1024

_remembered: dict[Any, Any] = {}


def remembered(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return `function(*arguments)`, cached by its arguments (numbers, strings and tuples)."""
    key = (function, arguments)
    try:
        found = _remembered.get(key)
    except (
        TypeError
    ):  # not hashable: a list, which becomes a tuple, or an array, which is not cached
        as_tuples = frozen(arguments)
        return function(*arguments) if as_tuples == arguments else remembered(function, *as_tuples)
    if found is None:
        found = function(*arguments)
        if len(_remembered) >= MOST_REMEMBERED:
            _remembered.clear()
        _remembered[key] = found
    return found


def frozen(value: Any) -> Any:
    """Return nested lists as tuples, and anything else unchanged.

    >>> frozen([[0, 0], [1, 1]])
    ((0, 0), (1, 1))
    """
    return tuple([frozen(item) for item in value]) if type(value) in (list, tuple) else value


def is_channels_first(data_format: str | None, rank: int, name: str) -> bool:
    """Return whether a data format for `rank` spatial axes puts the channels after the batch."""
    last, first = _CHANNELS_LAST.get(rank, "channels_last"), _CHANNELS_FIRST.get(rank, "")
    if data_format is None or (type(data_format) is str and data_format == last):
        return False
    if type(data_format) is str and data_format == first:
        return True
    raise ArgumentError(
        f"{name} takes data_format {last!r} or {first!r}. Got {described(data_format)}."
    )


def channels_to_end(x: Any) -> Any:
    """Move the channels from axis 1 to the end."""
    rank = len(x.shape)
    return permute_p(x, axes=(0, *range(2, rank), 1))


def channels_to_front(x: Any) -> Any:
    """Move the channels from the end to axis 1."""
    rank = len(x.shape)
    return permute_p(x, axes=(0, rank - 1, *range(1, rank - 1)))


def fold_batch(x: Any, rank: int, name: str) -> tuple[Any, Shape]:
    """Fold all axes before the spatial axes into one; also return their shape."""
    lead = len(x.shape) - rank - 1
    if lead < 1:
        raise ShapeError(
            f"{name} takes data of at least {rank + 2} dimensions: batch, {rank} spatial axes and "
            f"channels. Got shape {x.shape}."
        )
    batch = tuple(x.shape[:lead])
    if lead == 1:
        return x, batch
    return reshape_p(x, shape=(prod(batch), *x.shape[lead:])), batch


def unfold_batch(x: Any, batch: Shape) -> Any:
    """Undo `fold_batch`."""
    return x if len(batch) == 1 else reshape_p(x, shape=(*batch, *x.shape[1:]))


def per_dimension(value: Any, rank: int, what: str, name: str, channels_first: bool) -> Shape:
    """Return one number per spatial axis from a TensorFlow argument such as strides.

    A number applies to all axes. A list has one entry per spatial axis, or two more for the batch
    and the channels, which must be 1.
    """
    if value is None:
        return (1,) * rank
    numbers = check_wholes(what, value, name)
    if len(numbers) == 1:
        numbers *= rank
    elif len(numbers) == rank + 2:
        outer = (numbers[0], numbers[1] if channels_first else numbers[-1])
        if outer != (1, 1):
            raise ArgumentError(f"{name} takes {what} of 1 for batch and channels. Got {value}.")
        numbers = numbers[2:] if channels_first else numbers[1:-1]
    if len(numbers) != rank or any(n < 1 for n in numbers):
        raise ArgumentError(
            f"{name} takes {what} as a positive number, or as {rank} or {rank + 2} positive "
            f"numbers. Got {value}."
        )
    return numbers


def padding_pairs(
    padding: Any,
    spatial: Shape,
    window: Shape,
    strides: Shape,
    dilation: Shape,
    name: str,
    channels_first: bool = False,
) -> Padding:
    """Return (low, high) per spatial axis for 'SAME', 'VALID' or explicit pairs.

    'SAME' gives `ceil(size / stride)` windows; if the padding is odd, the extra zero is at the end.
    """
    mode = padding.upper() if isinstance(padding, str) else None
    if mode == "VALID":
        return ((0, 0),) * len(spatial)
    if mode == "SAME":
        return tuple(
            _same(size, (extent - 1) * step + 1, stride)
            for size, extent, stride, step in zip(spatial, window, strides, dilation)
        )
    if mode is not None:
        raise ArgumentError(
            f"{name} takes padding 'SAME', 'VALID' or a list of (low, high) pairs. Got {padding!r}."
        )
    if not isinstance(padding, list | tuple) and not getattr(padding, "shape", ()):
        refuse(name, "padding", padding, "'SAME', 'VALID' or a list of (low, high) pairs")
    pairs = tuple(
        (check_whole("padding", a, name), check_whole("padding", b, name))
        for a, b in (check_wholes("padding", pair, name) for pair in padding)
    )
    if len(pairs) == len(spatial) + 2:
        pairs = pairs[2:] if channels_first else pairs[1:-1]
    if len(pairs) != len(spatial) or any(n < 0 for pair in pairs for n in pair):
        raise ArgumentError(
            f"{name} takes {len(spatial)} or {len(spatial) + 2} (low, high) pairs of nonnegative "
            f"numbers as padding. Got {padding}."
        )
    return pairs


def _same(size: int, reach: int, stride: int) -> tuple[int, int]:
    total = max((-(-size // stride) - 1) * stride + reach - size, 0)
    return total // 2, total - total // 2


def check_window_fits(
    spatial: Shape, window: Shape, padding: Padding, dilation: Shape, name: str
) -> None:
    """Raise if the window is larger than the padded data."""
    for size, extent, (low, high), step in zip(spatial, window, padding, dilation):
        reach = (extent - 1) * step + 1
        if reach > size + low + high:
            raise ShapeError(
                f"{name} got a window of {reach} elements along an axis that has "
                f"{size + low + high} elements with its padding. Use padding='SAME' or a smaller "
                "window."
            )
