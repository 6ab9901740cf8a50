"""Overlapping frames of signals: framing, overlap-add, and the short-time Fourier transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.core.primitive.families import linear
from tapegrad.core.primitive.operand import as_operand, normalize_axis
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.elementwise.arithmetic import divide, multiply
from tapegrad.ops.fourier.tapers import hann_window
from tapegrad.ops.fourier.transforms import as_complex, as_real, irfft, resized, rfft
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.reduction.primitives import sum as sum_over
from tapegrad.ops.shape.functions import moveaxis, reshape
from tapegrad.ops.shape.padding import pad
from tapegrad.ops.shape.rearranging import tile

Window = Callable[..., Any]


def cut_frames(xp: Any, x: Any, *, length: int, step: int) -> Any:
    """Return the frames of `length` entries that start every `step` entries of the last axis."""
    count = _frame_count(x.shape[-1], length, step)
    starts = xp.arange(count, device=x.device) * step
    positions = starts[:, None] + xp.arange(length, device=x.device)[None, :]
    taken = xp.take(x, xp.reshape(positions, (count * length,)), axis=-1)
    return xp.reshape(taken, (*x.shape[:-1], count, length))


def _frame_count(n: int, length: int, step: int) -> int:
    return max(0, 1 + (n - length) // step)


def _overlap(xp: Any, x: Any, *, step: int) -> Any:
    *lead, count, length = x.shape
    blocks = -(-length // step)

    def zeros(*shape: int) -> Any:
        return xp.zeros((*lead, *shape), dtype=x.dtype, device=x.device)

    x = xp.concat([x, zeros(count, blocks * step - length)], axis=-1)
    x = xp.reshape(x, (*lead, count, blocks, step))
    total = zeros(count + blocks - 1, step)
    # Block k of every frame starts k steps after the frame: one sum per block.
    for k in range(blocks):
        total = total + xp.concat(
            [zeros(k, step), x[..., k, :], zeros(blocks - 1 - k, step)], axis=-2
        )
    flat = xp.reshape(total, (*lead, (count + blocks - 1) * step))
    return flat[..., : _whole_length(count, length, step)]


def _whole_length(count: int, length: int, step: int) -> int:
    return (count - 1) * step + length if count else 0


# Framing and overlap-add are transposes of each other, except for entries after the last frame.
frames_p: Primitive = linear(
    "frames",
    cut_frames,
    transpose=lambda t, x_shape, *, length, step: resized(
        overlap_p(t, step=step), len(x_shape) - 1, x_shape[-1]
    ),
    batch=lambda size, batched, x, *, length, step: frames_p(x, length=length, step=step),
)
overlap_p: Primitive = linear(
    "overlap_and_add",
    _overlap,
    transpose=lambda t, x_shape, *, step: frames_p(t, length=x_shape[-1], step=step),
    batch=lambda size, batched, x, *, step: overlap_p(x, step=step),
)


def _positive(value: Any, argument: str, name: str) -> int:
    if int(value) != value or int(value) < 1:
        raise ArgumentError(f"{name} needs an integer >= 1 as {argument}. Got {value!r}.")
    return int(value)


def frame(
    signal: Any,
    frame_length: int,
    frame_step: int,
    pad_end: bool = False,
    pad_value: Any = 0,
    axis: int = -1,
    name: str | None = None,
) -> Any:
    """Return the frames of `frame_length` that start every `frame_step` entries along `axis`.

    The axis is replaced by two: frames and entries. With `pad_end`, frames that extend beyond the
    signal are padded with `pad_value`; otherwise they are omitted.

    >>> frame([1.0, 2.0, 3.0, 4.0, 5.0], 3, 2).tolist()
    [[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]]
    """
    x = as_operand(signal)
    length = _positive(frame_length, "frame_length", "frame")
    step = _positive(frame_step, "frame_step", "frame")
    if not x.shape:
        raise ShapeError("frame needs a signal of at least one dimension. Got a scalar.")
    axis = normalize_axis(axis, len(x.shape), "frame")
    x = moveaxis(x, axis, -1)
    if pad_end:
        n = x.shape[-1]
        missing = _whole_length(-(-n // step), length, step) - n
        x = pad(x, [(0, 0)] * (len(x.shape) - 1) + [(0, max(0, missing))], "CONSTANT", pad_value)
    return moveaxis(frames_p(x, length=length, step=step), (-2, -1), (axis, axis + 1))


def overlap_and_add(signal: Any, frame_step: int, name: str | None = None) -> Any:
    """Return the sum of the overlapping frames `[..., frames, frame_length]`.

    >>> overlap_and_add([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]], 2).tolist()
    [1.0, 1.0, 3.0, 2.0, 2.0]
    """
    x = as_operand(signal)
    if len(x.shape) < 2:
        raise ShapeError(
            "overlap_and_add needs frames of shape [..., frames, frame_length]. "
            f"Got shape {x.shape}."
        )
    return overlap_p(x, step=_positive(frame_step, "frame_step", "overlap_and_add"))


def _fft_length(fft_length: Any, frame_length: int, name: str) -> int:
    """Return the length of the transforms, by default the next power of two."""
    if fft_length is None:
        return 1 << (frame_length - 1).bit_length()
    return _positive(fft_length, "fft_length", name)


def stft(
    signals: Any,
    frame_length: int,
    frame_step: int,
    fft_length: int | None = None,
    window_fn: Window | None = hann_window,
    pad_end: bool = False,
    name: str | None = None,
) -> Any:
    """Return the Fourier transform of each windowed frame, `[..., frames, bins]`.

    >>> stft([1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 4, 2, window_fn=None).numpy().real.tolist()
    [[4.0, 0.0, 0.0], [4.0, 0.0, 0.0]]
    """
    x = as_real(signals, "stft")
    framed = frame(x, frame_length, frame_step, pad_end)
    if window_fn is not None:
        framed = multiply(framed, window_fn(int(frame_length), dtype=framed.dtype))
    return rfft(framed, fft_length=[_fft_length(fft_length, int(frame_length), "stft")])


def inverse_stft(
    stfts: Any,
    frame_length: int,
    frame_step: int,
    fft_length: int | None = None,
    window_fn: Window | None = hann_window,
    name: str | None = None,
) -> Any:
    """Return the signals from their short-time Fourier transforms, by windowed overlap-add.

    The result is the original signal if `window_fn` matches the window of `stft`; see
    `inverse_stft_window_fn`.

    >>> bins = stft([1.0, 2.0, 3.0, 4.0], 2, 2, window_fn=None)
    >>> inverse_stft(bins, 2, 2, window_fn=None).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    x = as_complex(stfts)
    if len(x.shape) < 2:
        raise ShapeError(
            f"inverse_stft needs transforms of shape [..., frames, bins]. Got {x.shape}."
        )
    length = _positive(frame_length, "frame_length", "inverse_stft")
    framed = irfft(x, fft_length=[_fft_length(fft_length, length, "inverse_stft")])
    framed = resized(framed, len(framed.shape) - 1, length)
    if window_fn is not None:
        framed = multiply(framed, window_fn(length, dtype=framed.dtype))
    return overlap_and_add(framed, frame_step)


def inverse_stft_window_fn(
    frame_step: int, forward_window_fn: Window = hann_window, name: str | None = None
) -> Window:
    """Return the window function for `inverse_stft` that inverts the window of `stft`.

    >>> inverse_stft_window_fn(2)(4).tolist()
    [0.0, 1.0, 1.0, 1.0]
    """
    step = _positive(frame_step, "frame_step", "inverse_stft_window_fn")

    def window(frame_length: int, dtype: Any = "float32") -> Any:
        forward = forward_window_fn(frame_length, dtype=dtype)
        count = -(-frame_length // step)
        squares = resized(multiply(forward, forward), 0, count * step)
        weight = sum_over(reshape(squares, [count, step]), axis=0)
        whole = slice_p(tile(weight, [count]), index=(slice(0, frame_length),))
        return divide(forward, whole)

    return window
