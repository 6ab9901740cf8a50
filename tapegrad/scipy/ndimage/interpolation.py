"""Geometric transforms by spline interpolation, differentiable in image and coordinates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.call_site import warn_outside
from tapegrad.core.values.convert import NUMBERS, read_on_host
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.shape.joining import unstack
from tapegrad.scipy.ndimage.boundaries import checked_mode
from tapegrad.scipy.ndimage.results import (
    apply_to_parts,
    checked_order,
    normalize_filter_axes,
    per_axis,
)
from tapegrad.scipy.ndimage.sampling import Sampler
from tapegrad.scipy.vocabulary import (
    cos,
    in_dtype,
    moveaxis,
    numbers_like,
    numpy_dtype_of,
    operand,
    operands,
    place_next_to,
    reshape_p,
    sin,
    stack,
)


def map_coordinates(
    input: Any,
    coordinates: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """Sample an image at coordinates, with one row of coordinates per axis.

    Values between pixels come from a spline of the given order. Reflecting modes are exact on axes
    of any length; SciPy's `reflect` is slightly inaccurate on axes shorter than about 15.

    >>> image = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> map_coordinates(image, [[0.5, 1.0], [0.5, 0.25]], order=1).tolist()
    [1.5, 2.25]
    """
    order, mode = checked_order(order, "map_coordinates"), checked_mode(mode, "map_coordinates")
    places = operand(coordinates)
    rank = np.ndim(input)
    if not places.shape or places.shape[0] != rank:
        raise ShapeError(
            f"map_coordinates needs coordinates of shape ({rank}, ...): one row for each axis of "
            f"the image. Got {places.shape}."
        )

    def apply(x: Any, cval: Any) -> Any:
        sampler = Sampler(x, rank, order, mode, cval, prefilter)
        return sampler.at_points(unstack(_in_wider_dtype(places, x)))

    return apply_to_parts(input, cval, output, apply, "map_coordinates", rounds=True)


def affine_transform(
    input: Any,
    matrix: Any,
    offset: Any = 0.0,
    output_shape: Any = None,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """Return an image whose pixel o is the input at `matrix @ o + offset`.

    The matrix may be square, a vector (its diagonal), or have an additional column for the offset
    and optionally a row of homogeneous coordinates. Image, matrix and offset are differentiable.

    >>> affine_transform(np.array([0.0, 1.0, 2.0]), [0.5], order=1).tolist()
    [0.0, 0.5, 1.0]
    """
    name = "affine_transform"
    order, mode = checked_order(order, name), checked_mode(mode, name)
    rank = np.ndim(input)
    if output_shape is None:
        output_shape = tuple(getattr(input, "shape", np.shape(input)))
    shape = tuple(int(n) for n in np.atleast_1d(output_shape))
    turn, move = _matrix_and_offset(matrix, offset, rank)

    def apply(x: Any, cval: Any) -> Any:
        sampler = Sampler(x, rank, order, mode, cval, prefilter)
        if turn.ndim == 1:
            return sampler.at_lines(_scaled_lines(turn, move, shape))
        return sampler.at_points(_affine_points(turn, move, shape))

    return apply_to_parts(input, cval, output, apply, name, rounds=True)


def _matrix_and_offset(matrix: Any, offset: Any, rank: int) -> tuple[Any, Any]:
    if isinstance(offset, list | tuple):
        offset = np.asarray(offset) if not _holds_tensors(offset) else stack(list(offset))
    turn, move = operands(matrix, offset)
    shape = tuple(turn.shape)
    if shape in ((rank, rank + 1), (rank + 1, rank + 1)) and rank:
        return turn[:rank, :rank], turn[:rank, rank]
    if shape not in ((rank,), (rank, rank)):
        raise ShapeError(
            f"affine_transform of an image with {rank} axes needs a matrix of shape ({rank},), "
            f"({rank}, {rank}), ({rank}, {rank + 1}) or ({rank + 1}, {rank + 1}). Got {shape}."
        )
    if tuple(move.shape) not in ((), (rank,)):
        raise ShapeError(
            f"affine_transform needs one offset for each of {rank} axes. Got shape {move.shape}."
        )
    return turn, move


def _holds_tensors(values: Any) -> bool:
    return any(type(value) not in NUMBERS and hasattr(value, "shape") for value in values)


def _scaled_lines(scale: Any, move: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return the coordinates per axis in SciPy's order of operations; rounding matters at edges."""
    lines = []
    for axis, length in enumerate(shape):
        own = move if move.ndim == 0 else move[axis]
        steps = numbers_like(scale, np.arange(length))
        lines.append((steps + own / scale[axis]) * scale[axis])
    return lines


def _affine_points(turn: Any, move: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return the points `turn @ o + move` of a grid, in SciPy's order of summation."""
    steps = [
        numbers_like(turn, np.arange(n).reshape(-1, *[1] * (len(shape) - axis - 1)))
        for axis, n in enumerate(shape)
    ]
    points = []
    for row in range(turn.shape[0]):
        point = move if move.ndim == 0 else move[row]
        for axis, step in enumerate(steps):
            point = point + turn[row, axis] * step
        points.append(point)
    return points


def shift(
    input: Any,
    shift: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """Shift an image by a number of pixels along each axis, which may be fractional.

    >>> shift([1.0, 2.0, 4.0], 0.5, order=1).tolist()
    [0.0, 1.5, 3.0]
    """
    order, mode = checked_order(order, "shift"), checked_mode(mode, "shift")
    rank = np.ndim(input)
    steps = [operand(step) for step in per_axis(shift, rank, "shift", "shift")]

    def apply(x: Any, cval: Any) -> Any:
        lines = []
        for length, step in zip(x.shape, steps, strict=True):
            step = _in_wider_dtype(step, x)
            lines.append(numbers_like(step, np.arange(length)) - step)
        return Sampler(x, rank, order, mode, cval, prefilter).at_lines(lines)

    return apply_to_parts(input, cval, output, apply, "shift", rounds=True)


def zoom(
    input: Any,
    zoom: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
    *,
    grid_mode: bool = False,
) -> Any:
    """Resize an image by a factor along each axis.

    The centers of the corner pixels stay fixed, or with `grid_mode` the outer edges of the image.

    >>> zoom([0.0, 2.0], 1.5, order=1).tolist()
    [0.0, 1.0, 2.0]
    """
    order, mode = checked_order(order, "zoom"), checked_mode(mode, "zoom")
    factors = per_axis(zoom, np.ndim(input), "zoom", "zoom")
    if grid_mode and mode in ("constant", "wrap"):
        warn_outside(
            f"zoom with grid_mode goes with mode 'grid-{mode}', not {mode!r}.",
        )

    is_same = prefilter and all(float(factor) == 1.0 for factor in factors)

    def apply(x: Any, cval: Any) -> Any:
        if is_same:
            return x
        lines = [
            place_next_to(x, _zoomed_line(length, round(length * float(factor)), grid_mode))
            for length, factor in zip(x.shape, factors, strict=True)
        ]
        return Sampler(x, len(lines), order, mode, cval, prefilter).at_lines(lines)

    return apply_to_parts(input, cval, output, apply, "zoom", rounds=not is_same)


def _zoomed_line(length: int, count: int, grid_mode: bool) -> np.ndarray:
    steps = np.arange(count, dtype=np.float64)
    if grid_mode:
        return (steps + 0.5) * (length / max(count, 1)) - 0.5
    return steps * ((length - 1) / (count - 1) if count > 1 else 1.0)


def rotate(
    input: Any,
    angle: Any,
    axes: Any = (1, 0),
    reshape: bool = True,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """Rotate an image by an angle in degrees in the plane of two axes.

    With `reshape` the result is large enough for the whole image, and the angle is read on the
    host. Without it the angle may be a tensor inside a recorded function.

    >>> rotate(np.array([[1.0, 2.0], [3.0, 4.0]]), 90).round(6).tolist()
    [[2.0, 4.0], [1.0, 3.0]]
    """
    order, mode = checked_order(order, "rotate"), checked_mode(mode, "rotate")
    rank = np.ndim(input)
    plane = sorted(normalize_filter_axes(tuple(axes), rank, "rotate"))
    if len(plane) != 2:
        raise ArgumentError(f"rotate needs two axes, the plane of rotation. Got {tuple(axes)}.")
    turn = _rotation(angle)

    def apply(x: Any, cval: Any) -> Any:
        front = moveaxis(x, plane, (0, 1))
        sizes = np.array(front.shape[:2])
        shape = _bounding_shape(turn, sizes) if reshape else sizes
        matrix = _in_wider_dtype(turn, x)
        center = reshape_p(numbers_like(matrix, (shape - 1) / 2.0), shape=(2, 1))
        offset = numbers_like(matrix, (sizes - 1) / 2.0) - reshape_p(matrix @ center, shape=(2,))
        sampler = Sampler(front, 2, order, mode, cval, prefilter)
        y = sampler.at_points(_affine_points(matrix, offset, tuple(int(n) for n in shape)))
        return moveaxis(y, (0, 1), plane)

    return apply_to_parts(input, cval, output, apply, "rotate", rounds=True)


def _rotation(angle: Any) -> Any:
    if type(angle) in NUMBERS:
        quarter, rest = divmod(float(angle), 90.0)
        c, s = math.cos(math.radians(rest)), math.sin(math.radians(rest))
        # Exact at multiples of 90 degrees, unlike the sine of a rounded multiple of pi.
        c, s = ((c, s), (-s, c), (-c, -s), (s, -c))[int(quarter) % 4]
        return operand([[c, s], [-s, c]])
    radians = operand(angle) * (math.pi / 180.0)
    c, s = cos(radians), sin(radians)
    return stack([stack([c, s]), stack([-s, c])])


def _bounding_shape(turn: Any, sizes: np.ndarray) -> np.ndarray:
    high, wide = sizes
    corners = np.array([[0, 0, high, high], [0, wide, 0, wide]])
    bounds = read_on_host(turn, "rotate with reshape=True") @ corners
    shape: np.ndarray = (np.ptp(bounds, axis=1) + 0.5).astype(int)
    return shape


def _in_wider_dtype(places: Any, x: Any) -> Any:
    """Cast coordinates to a dtype at least as wide as that of the image."""
    return in_dtype(places, np.result_type(numpy_dtype_of(places), numpy_dtype_of(x)))
