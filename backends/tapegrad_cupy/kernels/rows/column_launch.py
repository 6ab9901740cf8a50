"""Reductions down the columns of a matrix in two launches, and batch normalisation by them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cupy

from tapegrad_cupy.kernels.rows.columns_source import SOURCES
from tapegrad_cupy.kernels.rows.row_launch import (
    OPTIONS,
    TYPES,
    compile_row_kernel,
    kernel_source,
    processors,
    wide_type,
)
from tapegrad_cupy.launch.cuda_prelude import FLOATS
from tapegrad_cupy.launch.cuda_source import Source, wide_dtype

Array = Any

_THREADS = 256
_BLOCK = (_THREADS, 1, 1)
_FINISH_BLOCK = (16, 32, 1)

_BLOCKS = 4
"""Blocks that a multiprocessor runs at once; the grid is as large as the device runs at once."""

_REDUCED, _WRITTEN = 8, 4
"""The fewest rows per thread, in kernels that reduce and in those that only write."""


@dataclass(frozen=True)
class Columns:
    """The arrangement of threads in a column kernel, for matrices of one shape and alignment."""

    rows: int
    columns: int
    width: int
    lanes: int

    @property
    def height(self) -> int:
        return _THREADS // self.lanes

    @property
    def tiles(self) -> int:
        return -(-self.columns // (self.lanes * self.width))

    def size(self, least: int) -> int:
        """Return the rows per block for which all blocks run at once.

        A thread processes at least `least` rows.
        """
        blocks = max(_BLOCKS * processors() // self.tiles, 1)
        return self.height * max(-(-self.rows // (self.height * blocks)), least)

    def parts(self, least: int) -> int:
        """Return how many blocks share the rows."""
        return -(-self.rows // self.size(least))


def place_columns(rows: int, columns: int, *arrays: Array) -> Columns:
    """Return the arrangement of threads for contiguous arrays of `rows` by `columns` elements."""
    width = math.gcd(columns, 16 // arrays[0].itemsize)
    if any([array.data.ptr % 16 for array in arrays]):
        width = 1
    lanes = min(1 << (-(-columns // width) - 1).bit_length(), 32)
    return Columns(rows, columns, width, lanes)


def _run(
    name: str,
    place: Columns,
    least: int,
    args: tuple[Any, ...],
    types: dict[str, str],
    *,
    by_column: bool = True,
    relu: bool = False,
) -> None:
    definitions = _definitions(place.width, by_column, relu)
    kernel = compile_row_kernel(name, SOURCES[name], tuple(types.items()), definitions, _BLOCK)
    kernel((place.tiles, place.parts(least), 1), (place.lanes, place.height, 1), args)


def _definitions(width: int, by_column: bool = True, relu: bool = False) -> str:
    flags = {"BY_COLUMN": by_column, "RELU": relu}
    lines = [f"#define N {width}", *[f"#define {name} {int(on)}" for name, on in flags.items()]]
    return "\n".join(lines)


def _finish(name: str, columns: int, args: tuple[Any, ...], **types: str) -> None:
    kernel = compile_row_kernel(name, SOURCES[name], tuple(types.items()), "", _FINISH_BLOCK)
    kernel((-(-columns // _FINISH_BLOCK[0]), 1, 1), _FINISH_BLOCK, args)


def finish_sums(
    parts: tuple[Array, Array],
    for_gain: Array,
    for_bias: Array,
    unrounded: tuple[Array, Array] = (0, 0),
) -> None:
    """Add the rows of two matrices of partial sums.

    The sums are rounded to the dtypes of `for_gain` and `for_bias`. `unrounded` are arrays for the
    sums before rounding, or 0.
    """
    count, columns = parts[0].shape
    _finish(
        "finish_sums",
        columns,
        (*parts, for_gain, for_bias, *unrounded, count, columns),
        T=TYPES[parts[0].dtype.name],
        GAIN=TYPES[for_gain.dtype.name],
        BIAS=TYPES[for_bias.dtype.name],
    )


def column_products(
    t: Array,
    x: Array,
    mean: Array,
    variance: Array,
    epsilon: float,
    place: Columns,
    of: str,
    rectified: Array = None,
) -> tuple[Array, Array]:
    """Return partial sums down the columns of t * unit and of t.

    unit is (x - mean) / sqrt(variance + epsilon), with moments of `of`, "rows" or "columns". If
    `rectified` is given, t is replaced by 0 where it is not positive.
    """
    shape = (place.parts(_REDUCED), place.columns)
    products, sums = cupy.empty(shape, mean.dtype), cupy.empty(shape, mean.dtype)
    sizes = (place.rows, place.columns, place.size(_REDUCED))
    relu = rectified is not None
    args = (t, x, rectified if relu else 0, mean, variance, products, sums, *sizes, epsilon)
    types = {"T": TYPES[x.dtype.name]}
    _run("column_products", place, _REDUCED, args, types, by_column=of == "columns", relu=relu)
    return products, sums


def column_moments(x: Array, place: Columns, center: bool) -> tuple[Array, Array]:
    """Return the mean and variance of each column; without `center`, 0 and the mean square."""
    work, columns = wide_dtype(x.dtype), place.columns
    parts, size = place.parts(_REDUCED), place.size(_REDUCED)
    shape = (parts, columns)
    means, spreads = cupy.empty(shape, work), cupy.empty(shape, work)
    given = (x, means, spreads, place.rows, columns, size)
    _run("column_moments", place, _REDUCED, given, {"T": TYPES[x.dtype.name]})
    mean, variance = cupy.empty(columns, work), cupy.empty(columns, work)
    args = (means, spreads, mean, variance, parts, columns, place.rows, size)
    _finish("finish_moments", columns, (*args, int(center)), T=TYPES[work.name])
    return mean, variance


def normalize_columns(
    x: Array,
    gain: Array,
    bias: Array,
    y: Array,
    epsilon: float,
    center: bool,
    type_: str,
    relu: bool = False,
) -> tuple[Array, Array]:
    """Write x with each column normalised to y, and return the moments.

    A gain or bias of 0 is left out. `relu` replaces negative results by 0.
    """
    columns = x.shape[-1]
    place = place_columns(x.shape[0], columns, x, y)
    mean, variance = column_moments(x, place, center)
    sizes = (place.rows, columns, place.size(_WRITTEN))
    args = (x, gain, bias, mean, variance, y, *sizes, epsilon)
    types = {"T": TYPES[x.dtype.name], "GAIN": type_}
    _run("column_normalize", place, _WRITTEN, args, types, relu=relu)
    return mean, variance


def normalize_columns_gradient(
    t: Array,
    x: Array,
    gain: Array,
    moments: tuple[Array, Array, float, bool],
    g: Array,
    type_: str,
    dtypes: tuple[Any, Any],
    rectified: Array = None,
) -> tuple[Array, Array]:
    """Write the cotangent of x to g, and return those of gain and bias, one number per column.

    If `rectified` is given, t is replaced by 0 where it is not positive.
    """
    mean, variance, epsilon, center = moments
    columns, work, relu = x.shape[-1], mean.dtype, rectified is not None
    place = place_columns(x.shape[0], columns, t, x, g, mean, variance, *[rectified] * relu)
    parts = column_products(t, x, mean, variance, epsilon, place, "columns", rectified)
    for_gain, for_bias = cupy.empty(columns, dtypes[0]), cupy.empty(columns, dtypes[1])
    if dtypes == (work, work):
        sums = for_gain, for_bias
        finish_sums(parts, for_gain, for_bias)
    else:
        sums = cupy.empty(columns, work), cupy.empty(columns, work)
        finish_sums(parts, for_gain, for_bias, sums)
    sizes = (place.rows, columns, place.size(_WRITTEN))
    data = (t, x, rectified if relu else 0, gain)
    args = (*data, mean, variance, *sums, g, *sizes, epsilon, int(center))
    types = {"T": TYPES[x.dtype.name], "GAIN": type_}
    _run("column_gradient", place, _WRITTEN, args, types, relu=relu)
    return for_gain, for_bias


# Sources


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for dtype, type_ in TYPES.items():
        wide_ = wide_type(type_)
        known = sorted({type_, wide_})
        for width in (1, 2, 4, 8):
            if width * FLOATS[dtype] > 16:
                continue
            for by_column, relu in ((False, False), (True, False), (True, True)):
                definitions = _definitions(width, by_column, relu)
                yield _variant("column_products", definitions, _BLOCK, T=type_)
            yield _variant("column_moments", _definitions(width), _BLOCK, T=type_)
            for definitions in (_definitions(width), _definitions(width, relu=True)):
                for gain in sorted({*known, "float"}):
                    yield _variant("column_normalize", definitions, _BLOCK, T=type_, GAIN=gain)
                for gain in known:
                    yield _variant("column_gradient", definitions, _BLOCK, T=type_, GAIN=gain)
        for gain in known:
            for bias in known:
                yield _variant("finish_sums", "", _FINISH_BLOCK, T=wide_, GAIN=gain, BIAS=bias)
    for type_ in ("float", "double"):
        yield _variant("finish_moments", "", _FINISH_BLOCK, T=type_)


def _variant(name: str, definitions: str, block: tuple[int, int, int], **types: str) -> Source:
    text = kernel_source(SOURCES[name], tuple(types.items()), definitions, block)
    label = " ".join([name, *types.values(), *definitions.replace("#define ", "").split()])
    return Source(label, text, OPTIONS)
