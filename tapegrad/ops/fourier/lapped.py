"""The modified discrete cosine transform: frames that overlap by half, without redundancy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.core.argument_checks import check_whole
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.fourier.frames import frame, overlap_and_add
from tapegrad.ops.fourier.functions import dct
from tapegrad.ops.fourier.tapers import vorbis_window
from tapegrad.ops.fourier.transforms import as_real
from tapegrad.ops.shape.joining import concat, split
from tapegrad.ops.shape.rearranging import flip

Window = Callable[..., Any]


def mdct(
    signals: Any,
    frame_length: int,
    window_fn: Window | None = vorbis_window,
    pad_end: bool = False,
    norm: str | None = None,
    name: str | None = None,
) -> Any:
    """Return the modified cosine transform of frames that overlap by half, `[..., frames, bins]`.

    There are half as many bins as entries of a frame, whose length must be a multiple of 4. The
    squares of a window and its half shift must add up to 1; None stands for a constant window.

    >>> mdct([0.0, 0.0, 0.0, 0.0, 1.0, 0.0], 4, norm="ortho").shape
    (2, 2)
    """
    x = as_real(signals, "mdct")
    length = check_whole("frame_length", frame_length, "mdct")
    if length < 4 or length % 4:
        raise ArgumentError(f"mdct needs a frame_length that is a multiple of 4. Got {length}.")
    framed = _windowed(frame(x, length, length // 2, pad_end), window_fn)
    a, b, c, d = split(framed, 4, axis=-1)
    folded = concat([-flip(c, axis=-1) - d, a - flip(b, axis=-1)], -1)
    return dct(folded, type=4, norm=norm)


def inverse_mdct(
    mdcts: Any,
    window_fn: Window | None = vorbis_window,
    norm: str | None = None,
    name: str | None = None,
) -> Any:
    """Return the signals whose transforms `mdct` returned; the first and last half frame differ.

    >>> signal = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    >>> inverse_mdct(mdct(signal, 4)).round(5).tolist()[2:4]
    [3.0, 4.0]
    """
    x = as_real(mdcts, "inverse_mdct")
    half = x.shape[-1] if x.shape else 0
    if len(x.shape) < 2 or half < 2 or half % 2:
        raise ShapeError(
            "inverse_mdct needs transforms of shape [..., frames, bins] with an even number of "
            f"bins. Got shape {tuple(x.shape)}."
        )
    first, second = split(dct(x, type=4, norm=norm), 2, axis=-1)
    if norm is None:
        first, second = first * (0.5 / half), second * (0.5 / half)
    framed = concat([second, -flip(second, axis=-1), -flip(first, axis=-1), -first], -1)
    return overlap_and_add(_windowed(framed, window_fn), half)


def _windowed(framed: Any, window_fn: Window | None) -> Any:
    if window_fn is None:
        return framed * math.sqrt(0.5)
    return framed * window_fn(framed.shape[-1], dtype=framed.dtype)
