"""SciPy's boundary modes for indices and coordinates outside of an image.

    mode                     extension of a b c d
    reflect, grid-mirror     ... b a | a b c d | d c ...
    mirror                   ... c b | a b c d | c b ...
    nearest                  ... a a | a b c d | d d ...
    constant, grid-constant  ... k k | a b c d | k k ...
    wrap, grid-wrap          ... c d | a b c d | a b ...

For points between pixels, the period of `wrap` is one pixel shorter than that of `grid-wrap`.
`constant` does not interpolate with the constant: a point outside of the image is the constant.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.ops.shape.padding import pad
from tapegrad.scipy.vocabulary import clip, floor, place_next_to, take_p, where

MODES = (
    "reflect",
    "grid-mirror",
    "constant",
    "grid-constant",
    "nearest",
    "mirror",
    "wrap",
    "grid-wrap",
)

_IN_FILTERS = {"grid-constant": "constant", "grid-wrap": "wrap"}


def checked_mode(mode: Any, name: str) -> str:
    """Return the canonical name of a mode; raise if it is unknown.

    >>> checked_mode("grid-mirror", "zoom")
    'reflect'
    """
    check_choice(f"The mode of {name}", mode, MODES)
    return "reflect" if mode == "grid-mirror" else str(mode)


def filter_mode(mode: Any, name: str) -> str:
    """Return the mode for filters, where the grid- variants are the same as the plain ones.

    >>> filter_mode("grid-wrap", "correlate")
    'wrap'
    """
    known = checked_mode(mode, name)
    return _IN_FILTERS.get(known, known)


def fold_index(index: Any, length: int, mode: str) -> Any:
    """Map integer indices (NumPy arrays or tensors) into the axis according to the mode.

    >>> fold_index(np.arange(-3, 6), 3, "mirror").tolist()
    [1, 2, 1, 0, 1, 2, 1, 0, 1]
    """
    if length == 1:
        return index * 0
    if mode == "mirror":
        period = 2 * length - 2
        return (period - abs(2 * (index % period) - period)) // 2
    if mode == "reflect":
        period = 2 * length
        return (period - 1 - abs(2 * (index % period) - period + 1)) // 2
    if mode in ("wrap", "grid-wrap"):
        return index % length
    return (
        index.clip(0, length - 1) if isinstance(index, np.ndarray) else clip(index, 0, length - 1)
    )


def fold_coordinate(x: Any, length: int, mode: str) -> Any:
    """Map coordinates into the image according to the mode; the derivative is 1 or -1.

    The modes 'constant', 'grid-constant' and 'nearest' leave the coordinates unchanged.

    >>> import tapegrad
    >>> fold_coordinate(tapegrad.constant([-0.25, 3.5]), 3, "mirror").tolist()
    [0.25, 0.5]
    """
    if mode in ("constant", "grid-constant", "nearest"):
        return x
    if length == 1:
        return x * 0.0
    last = length - 1
    if mode == "wrap":
        below = x + (floor(-x / last) + 1.0) * last
        above = x - floor(x / last) * last
        return where(x < 0.0, below, where(x > last, above, x))
    if mode == "grid-wrap":
        return where(is_inside(x, length), x, x % float(length))
    period = 2.0 * (last if mode == "mirror" else length)
    size = abs(x)
    rest = size - floor(size / period) * period
    if mode == "mirror":
        return where(rest < length, rest, period - rest)
    # The mirror is half a pixel outside of the edge, so -0.3 and -0.7 are equivalent.
    above = where(rest < length, rest, period - rest - 1.0)
    return where(x < 0.0, where(rest > length, period - rest, rest - 1.0), above)


def is_inside(x: Any, length: int) -> Any:
    """Whether coordinates lie between the first and the last entry of an axis.

    >>> import tapegrad
    >>> is_inside(tapegrad.constant([-0.1, 0.0, 2.0]), 3).tolist()
    [False, True, True]
    """
    return (x >= 0.0) & (x <= length - 1.0)


def extend(x: Any, axis: int, before: int, after: int, mode: str, cval: Any) -> Any:
    """Pad an image on both sides of an axis according to the mode.

    >>> import tapegrad
    >>> extend(tapegrad.constant([1.0, 2.0, 3.0]), 0, 2, 1, "reflect", 0.0).tolist()
    [2.0, 1.0, 1.0, 2.0, 3.0, 3.0]
    """
    if mode in ("constant", "grid-constant"):
        pairs = [(before, after) if k == axis else (0, 0) for k in range(x.ndim)]
        return pad(x, pairs, constant_values=cval)
    length = x.shape[axis]
    places = fold_index(np.arange(-before, length + after), length, mode)
    return take_p(x, place_next_to(x, places), axis=axis)
