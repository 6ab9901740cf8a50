"""Normalisation over the last axes (layer, RMS) by rows, and over the first axes by columns.

Other axes, and other shapes of gain and bias, are left to the generic kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from tapegrad.core.backend.registry import by_name
from tapegrad_cupy.kernels.elementwise.conversions import converted
from tapegrad_cupy.kernels.generic import run_generic
from tapegrad_cupy.kernels.rows.column_launch import (
    column_products,
    finish_sums,
    normalize_columns,
    normalize_columns_gradient,
    place_columns,
)
from tapegrad_cupy.kernels.rows.normalization_source import SOURCES
from tapegrad_cupy.kernels.rows.row_arrays import fits
from tapegrad_cupy.kernels.rows.row_launch import (
    TYPES,
    Layout,
    access_width,
    choose_layout,
    is_held,
    launch,
    processors,
    row_variants,
    wide_type,
)
from tapegrad_cupy.launch.cuda_source import Source, contiguous, wide_dtype
from tapegrad_cupy.launch.replay import prevent_replay

Array = Any
Axes = tuple[int, ...]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class _Matrix:
    """An array viewed as a matrix, whose rows or columns are normalised."""

    rows: int
    columns: int
    by_rows: bool
    parameter: Shape
    moments: Shape


def _as_matrix(shape: Shape, axes: Axes) -> _Matrix | None:
    """Return the matrix, or None if the axes are neither the first nor the last ones."""
    if not math.prod(shape):
        return None
    flags = [i in axes for i, n in enumerate(shape) if n != 1]
    inner = tuple(n if i in axes else 1 for i, n in enumerate(shape))
    outer = tuple(1 if i in axes else n for i, n in enumerate(shape))
    moments = tuple(n for i, n in enumerate(shape) if i not in axes)
    if flags == sorted(flags):
        return _Matrix(math.prod(outer), math.prod(inner), True, inner, moments)
    if flags == sorted(flags, reverse=True):
        return _Matrix(math.prod(inner), math.prod(outer), False, outer, moments)
    return None


def _takes(matrix: _Matrix, parameter: Array, dtype: Any) -> bool:
    """Return whether a gain or bias has a supported dtype, and one number (per column)."""
    known = parameter.dtype == dtype or parameter.dtype == wide_dtype(dtype)
    return known and _is_per_column(parameter.shape, matrix)


def _is_per_column(shape: Shape, matrix: _Matrix) -> bool:
    """Return whether an array of `shape` broadcasts to one number per column."""
    size = math.prod(shape)
    return size == 1 or (size == matrix.columns and shape == matrix.parameter[-len(shape) :])


def _per_column(parameter: Array, matrix: _Matrix) -> Array:
    """Return one number per column, contiguous and aligned to 16 bytes."""
    if parameter.size != matrix.columns:
        prevent_replay()
        return cupy.ascontiguousarray(cupy.broadcast_to(parameter.reshape(1), matrix.columns))
    flat = contiguous(parameter).reshape(matrix.columns)
    return flat.copy() if flat.data.ptr % 16 else flat


def normalize(x: Array, gain: Array, bias: Array, **params: Any) -> Any:
    """Return the normalised array, and the mean and variance for the backward pass."""
    made = _normalize(x, gain, bias, relu=False, **params)
    return run_generic("normalize", x, gain, bias, **params) if made is None else made


def normalize_relu(x: Array, gain: Array, bias: Array, **params: Any) -> Any:
    """Return `normalize` followed by a ReLU, and the mean and variance."""
    made = _normalize(x, gain, bias, relu=True, **params)
    return run_generic("normalize_relu", x, gain, bias, **params) if made is None else made


def _normalize(
    x: Array,
    gain: Array,
    bias: Array,
    *,
    relu: bool,
    axes: Axes,
    epsilon: float,
    center: bool = True,
    scaled: bool = True,
    shifted: bool = True,
) -> tuple[Array, Array, Array] | None:
    """Normalise by kernels, or return None if they do not take the arrays.

    A ReLU is supported by columns only.
    """
    used = [p for p, flag in ((gain, scaled), (bias, shifted)) if flag]
    matrix = _as_matrix(x.shape, axes) if fits(x) else None
    same = not used or used[0].dtype == used[-1].dtype
    if matrix is None or not same or not all([_takes(matrix, p, x.dtype) for p in used]):
        return None
    if relu and matrix.by_rows:
        return None
    type_ = TYPES[used[0].dtype.name] if used else "float"
    # A null pointer stands for a gain or bias that is left out.
    gain = _per_column(gain, matrix) if scaled else 0
    bias = _per_column(bias, matrix) if shifted else 0
    x, y = contiguous(x), cupy.empty(x.shape, x.dtype)
    if matrix.by_rows:
        mean, variance = _normalize_rows(x, gain, bias, y, matrix, epsilon, center, type_)
    else:
        flat = x.reshape(matrix.rows, matrix.columns)
        mean, variance = normalize_columns(flat, gain, bias, y, epsilon, center, type_, relu)
    return y, mean.reshape(matrix.moments), variance.reshape(matrix.moments)


def _normalize_rows(
    x: Array,
    gain: Array,
    bias: Array,
    y: Array,
    matrix: _Matrix,
    epsilon: float,
    center: bool,
    type_: str,
) -> tuple[Array, Array]:
    rows, length, work = matrix.rows, matrix.columns, wide_dtype(x.dtype)
    mean, variance = cupy.empty(rows, work), cupy.empty(rows, work)
    width = access_width(length, x, y)
    layout = choose_layout(length, x.itemsize, width, 1)
    args = (x, gain, bias, y, mean, variance, rows, length, epsilon, int(center))
    types = {"T": TYPES[x.dtype.name], "GAIN": type_}
    # Such blocks process many rows and read the next one early; others have one row each.
    early = is_held(layout) and layout.lanes > 32 and x.itemsize == 2 and width == 8
    blocks = min(rows, processors() * (1024 // layout.lanes)) if early else rows
    launch("normalize", SOURCES["normalize"], layout, blocks, args, **types)
    return mean, variance


def normalize_gradient(t: Array, x: Array, *others: Array, **params: Any) -> Any:
    """Return the cotangents of x, gain and bias."""
    made = _gradient((t, x), *others, **params)
    return run_generic("normalize_gradient", t, x, *others, **params) if made is None else made


def normalize_relu_gradient(t: Array, x: Array, y: Array, *others: Array, **params: Any) -> Any:
    """Return the cotangents of x, gain and bias; y is the output of the ReLU."""
    made = _gradient((t, x, y), *others, **params)
    return (
        run_generic("normalize_relu_gradient", t, x, y, *others, **params) if made is None else made
    )


def _gradient(
    data: tuple[Array, ...],
    gain: Array,
    mean: Array,
    variance: Array,
    *,
    axes: Axes,
    epsilon: float,
    bias_shape: Shape,
    center: bool = True,
    scaled: bool = True,
) -> tuple[Array, Array, Array] | None:
    """Return the cotangents by kernels, or None if they do not take the arrays.

    `data` are the cotangent, x, and the output of the ReLU if there is one.
    """
    t, x, *rectified = data
    matrix = _as_matrix(x.shape, axes) if fits(*data) else None
    if (
        matrix is None
        or not _is_per_column(bias_shape, matrix)
        or not _takes(matrix, gain, x.dtype)
        or (rectified and matrix.by_rows)
    ):
        return None
    work = wide_dtype(x.dtype)
    mean, variance = contiguous(converted(mean, work)), contiguous(converted(variance, work))
    factor = _per_column(gain, matrix) if scaled else 0
    t, x, g = contiguous(t), contiguous(x), cupy.empty(x.shape, x.dtype)
    moments = (mean, variance, epsilon, center)
    whole = (gain.size == matrix.columns, math.prod(bias_shape) == matrix.columns)
    # Gain and bias may be in single precision with data in half precision.
    bias_dtype = gain.dtype if scaled else x.dtype
    dtypes = (gain.dtype if whole[0] else work, bias_dtype if whole[1] else work)
    type_ = TYPES[gain.dtype.name]
    if matrix.by_rows:
        sums = _gradient_of_rows(t, x, factor, g, matrix, moments, type_, dtypes)
    else:
        shape = (matrix.rows, matrix.columns)
        t, x = t.reshape(shape), x.reshape(shape)
        ys = [contiguous(y).reshape(shape) for y in rectified]
        sums = normalize_columns_gradient(t, x, factor, moments, g, type_, dtypes, *ys)
    return (
        g,
        _to_parameter(sums[0], whole[0], gain.dtype, gain.shape),
        _to_parameter(sums[1], whole[1], bias_dtype, bias_shape),
    )


def _to_parameter(sums: Array, whole: bool, dtype: np.dtype[Any], shape: Shape) -> Array:
    """Return sums down the columns as a cotangent, added up if the parameter is one number."""
    if not whole:
        prevent_replay()
    return converted(sums if whole else sums.sum(), dtype).reshape(shape)


def _gradient_of_rows(
    t: Array,
    x: Array,
    gain: Array,
    g: Array,
    matrix: _Matrix,
    moments: tuple[Array, Array, float, bool],
    type_: str,
    dtypes: tuple[Any, Any],
) -> tuple[Array, Array]:
    """Write the cotangent of x to g, and return those of gain and bias, one number per column."""
    rows, length, work = matrix.rows, matrix.columns, wide_dtype(x.dtype)
    mean, variance, epsilon, center = moments
    width = access_width(length, t, x, g)
    layout = choose_layout(length, x.itemsize, width, 2, sums=True)
    types = {"T": TYPES[x.dtype.name], "GAIN": type_}
    ends = (rows, length, epsilon, int(center))
    if is_held(layout):
        blocks = _blocks(layout, rows)
        shape = (blocks, length)
        parts = (cupy.empty(shape, work), cupy.empty(shape, work))
        given = (t, x, gain, mean, variance, g, *parts, *ends)
        source = SOURCES["normalize_gradient"]
        launch("normalize_gradient", source, layout, blocks * layout.warps, given, **types)
    else:
        args = (t, x, gain, mean, variance, g, *ends)
        source = SOURCES["normalize_gradient_long"]
        launch("normalize_gradient_long", source, layout, rows, args, **types)
        place = place_columns(rows, length, t, x)
        parts = column_products(t, x, mean, variance, epsilon, place, of="rows")
    for_gain, for_bias = cupy.empty(length, dtypes[0]), cupy.empty(length, dtypes[1])
    finish_sums(parts, for_gain, for_bias)
    return for_gain, for_bias


def _blocks(layout: Layout, rows: int) -> int:
    """Return how many blocks share the rows: as many as run at once."""
    threads = layout.lanes * layout.warps
    return min(-(-rows // layout.warps), processors() * max(512 // threads, 1))


def variants() -> Iterator[Source]:
    """Yield all sources of this module; those by columns are in column_launch.py."""
    for type_ in TYPES.values():
        for gain in sorted({type_, wide_type(type_)}):
            types = {"T": type_, "GAIN": gain}
            yield from row_variants("normalize", SOURCES["normalize"], 1, types)
            for name in ("normalize_gradient", "normalize_gradient_long"):
                for source in row_variants(name, SOURCES[name], 2, types, sums=True):
                    if ("Held" in source.label) == (name == "normalize_gradient"):
                        yield source
    # Without gain and bias their type is float.
    types = {"T": "double", "GAIN": "float"}
    yield from row_variants("normalize", SOURCES["normalize"], 1, types)


KERNELS = by_name(normalize, normalize_gradient, normalize_relu, normalize_relu_gradient)
