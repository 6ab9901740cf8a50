"""Softmax, cross entropy and log-sum-exp: one launch, one read and one write each.

Integers, complex numbers and mixed dtypes are left to the generic kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import cupy

from tapegrad.core.backend.registry import by_name
from tapegrad_cupy.kernels.elementwise.conversions import converted
from tapegrad_cupy.kernels.generic import run_generic
from tapegrad_cupy.kernels.rows.losses_with_gradients import KERNELS as LOSSES_WITH_GRADIENTS
from tapegrad_cupy.kernels.rows.normalization import KERNELS as NORMALIZATION
from tapegrad_cupy.kernels.rows.row_arrays import class_numbers, fits
from tapegrad_cupy.kernels.rows.row_launch import (
    LABELS,
    TYPES,
    access_width,
    choose_layout,
    launch,
    processors,
    row_variants,
    wide_type,
)
from tapegrad_cupy.kernels.rows.softmax_source import SOURCES
from tapegrad_cupy.launch.cuda_source import Source, contiguous, wide_dtype
from tapegrad_cupy.launch.replay import prevent_replay

Array = Any
Axes = tuple[int, ...]

_SPLIT_LENGTH = 16384


class _Reads(NamedTuple):
    """How many arrays of rows a kernel reads, whether more than once, and whether it has labels."""

    inputs: int
    again: bool = True
    labels: bool = False


_READS = {
    "softmax": _Reads(1),
    "log_softmax": _Reads(1),
    "softmax_gradient": _Reads(2),
    "log_softmax_gradient": _Reads(2),
    "logsumexp": _Reads(1, again=False),
    "sparse_cross_entropy": _Reads(1, labels=True),
    "sparse_cross_entropy_gradient": _Reads(1, again=False, labels=True),
    "label_mask": _Reads(0, again=False, labels=True),
    "cross_entropy": _Reads(2),
    "cross_entropy_gradient": _Reads(2),
}


def _axis_last(x: Array, axis: int) -> tuple[Array, bool]:
    """Return x contiguous with the axis last, and whether its elements had to move."""
    moved = math.prod(x.shape[axis + 1 :]) != 1
    return contiguous(cupy.moveaxis(x, axis, -1) if moved else x), moved


def _along_axis(name: str, arrays: tuple[Array, ...], axis: int) -> Array:
    """Run a kernel along an axis; inputs and result have one shape."""
    if not fits(*arrays):
        return run_generic(name, *arrays, axis=axis)
    x = arrays[0]
    if not x.size:
        return cupy.empty(x.shape, x.dtype)
    length = x.shape[axis]
    packed = [_axis_last(array, axis) for array in arrays]
    moved = packed[0][1]
    inputs = [array for array, _ in packed]
    y = cupy.empty(inputs[0].shape, x.dtype)
    _launch(name, (*inputs, y), length, (*inputs, y))
    return contiguous(cupy.moveaxis(y, -1, axis)) if moved else y


def _launch(
    name: str, rows: tuple[Array, ...], length: int, args: tuple[Array, ...], **types: str
) -> None:
    """Launch a kernel; `rows` are the arguments that are arrays of rows of this length."""
    x = rows[0]
    width = access_width(length, *rows)
    inputs, again, _ = _READS[name]
    layout = choose_layout(length, x.itemsize, width, inputs, again=again)
    count = x.size // length
    types = {"T": TYPES[x.dtype.name], **types}
    launch(name, SOURCES[name], layout, count, (*args, count, length), **types)


def softmax(x: Array, *, axis: int) -> Array:
    """Return exp(x) divided by its sum along the axis."""
    return _along_axis("softmax", (x,), axis)


def log_softmax(x: Array, *, axis: int) -> Array:
    """Return x minus its log-sum-exp along the axis."""
    return _along_axis("log_softmax", (x,), axis)


def softmax_gradient(t: Array, y: Array, *, axis: int) -> Array:
    """Return y * (t - sum(t * y))."""
    return _along_axis("softmax_gradient", (t, y), axis)


def log_softmax_gradient(t: Array, y: Array, *, axis: int) -> Array:
    """Return t - exp(y) * sum(t)."""
    return _along_axis("log_softmax_gradient", (t, y), axis)


# Log-sum-exp


def logsumexp(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    """Return log(sum(exp(x))) over the axes."""
    if not fits(x) or not x.size:
        return run_generic("logsumexp", x, axis=axis, keepdims=keepdims)
    kept = tuple(i for i in range(x.ndim) if i not in axis)
    length = math.prod(x.shape[i] for i in axis)
    rows = contiguous(x.transpose(*kept, *axis)) if x.ndim else x
    y = cupy.empty(tuple(x.shape[i] for i in kept), x.dtype)
    chunks = _chunks(y.size, length)
    if chunks > 1:
        # One block per row would leave most of the device idle.
        chunk = -(-length // chunks // 16) * 16
        parts = cupy.empty((y.size, -(-length // chunk)), wide_dtype(x.dtype))
        _sum_exponentials(rows, parts, length, chunk)
        rows, length = parts, parts.shape[1]
    _sum_exponentials(rows, y, length, length)
    shape = tuple(1 if i in axis else n for i, n in enumerate(x.shape))
    return y.reshape(shape) if keepdims else y


def _chunks(rows: int, length: int) -> int:
    if length <= _SPLIT_LENGTH or rows >= processors():
        return 1
    return max(min(4 * processors() // rows, length // _SPLIT_LENGTH), 1)


def _sum_exponentials(x: Array, y: Array, length: int, chunk: int) -> None:
    """Write the log-sum-exp of each chunk of x's rows to y, in y's dtype."""
    count, chunks = x.size // length, -(-length // chunk)
    width = access_width(length, x)
    inputs, again, _ = _READS["logsumexp"]
    layout = choose_layout(length, x.itemsize, width, inputs, again=again)
    args = (x, y, count, length, chunk, chunks)
    types = {"T": TYPES[x.dtype.name], "OUT": TYPES[y.dtype.name]}
    launch("logsumexp", SOURCES["logsumexp"], layout, count * chunks, args, **types)


# Cross entropy


def sparse_cross_entropy(logits: Array, labels: Array) -> tuple[Array, Array]:
    """Return the loss of each row and, for the backward pass, the softmax."""
    if not fits(logits):
        loss, weights = run_generic("sparse_cross_entropy", logits, labels)
        return loss, weights
    x, (labels, label) = contiguous(logits), class_numbers(labels)
    loss, weights = cupy.empty(labels.shape, x.dtype), cupy.empty(x.shape, x.dtype)
    if x.size:
        args = (x, labels, loss, weights)
        _launch("sparse_cross_entropy", (x, weights), x.shape[-1], args, LABEL=label)
    else:
        prevent_replay()
        loss.fill(math.nan)  # there are no classes, or no rows
    return loss, weights


def sparse_cross_entropy_gradient(t: Array, weights: Array, labels: Array) -> Array:
    """Return t * (weights - one_hot(labels))."""
    if not fits(t, weights):
        return run_generic("sparse_cross_entropy_gradient", t, weights, labels)
    weights, (labels, label) = contiguous(weights), class_numbers(labels)
    g = cupy.empty(weights.shape, weights.dtype)
    if g.size:
        args = (contiguous(t), weights, labels, g)
        name, length = "sparse_cross_entropy_gradient", weights.shape[-1]
        _launch(name, (weights, g), length, args, LABEL=label)
    return g


def label_mask(x: Array, labels: Array) -> Array:
    """Return one_hot(labels) in the shape and dtype of x."""
    if not fits(x):
        return run_generic("label_mask", x, labels)
    labels, label = class_numbers(labels)
    y = cupy.empty(x.shape, x.dtype)
    if y.size:
        _launch("label_mask", (y,), y.shape[-1], (labels, y), LABEL=label)
    return y


def cross_entropy(logits: Array, labels: Array) -> tuple[Array, Array]:
    """Return -sum(labels * log_softmax(logits)) for each row, and the log-sum-exp."""
    if not fits(logits, labels):
        loss, log_total = run_generic("cross_entropy", logits, labels)
        return loss, log_total
    x, labels = contiguous(logits), contiguous(labels)
    create = cupy.empty if x.size else cupy.zeros
    loss, log_total = create(x.shape[:-1], x.dtype), create(x.shape[:-1], wide_dtype(x.dtype))
    if not x.size:
        prevent_replay()
    else:
        args = (x, labels, loss, log_total)
        _launch("cross_entropy", (x, labels), x.shape[-1], args)
    return loss, log_total


def cross_entropy_gradient(t: Array, logits: Array, labels: Array, log_total: Array) -> Array:
    """Return t * (softmax(logits) * sum(labels) - labels)."""
    if not fits(t, logits, labels):
        return run_generic("cross_entropy_gradient", t, logits, labels, log_total)
    x, labels = contiguous(logits), contiguous(labels)
    log_total = contiguous(converted(log_total, wide_dtype(x.dtype)))
    g = cupy.empty(x.shape, x.dtype)
    if g.size:
        args = (contiguous(t), x, labels, log_total, g)
        _launch("cross_entropy_gradient", (x, labels, g), x.shape[-1], args)
    return g


# Sources


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for name, (inputs, again, has_labels) in _READS.items():
        for types in _types_of(name, has_labels):
            yield from row_variants(name, SOURCES[name], inputs, types, again=again)


def _types_of(name: str, has_labels: bool) -> Iterator[dict[str, str]]:
    for type_ in TYPES.values():
        if has_labels:
            # One label is read per row, so its type does not matter to the other types.
            labels = LABELS.values() if type_ == "float" else ("i64",)
            yield from ({"T": type_, "LABEL": label} for label in labels)
        elif name == "logsumexp":
            # Long rows are split into chunks, whose sums have the wide type.
            pairs = {(type_, type_), (type_, wide_type(type_)), (wide_type(type_), type_)}
            yield from ({"T": first, "OUT": second} for first, second in sorted(pairs))
        else:
            yield {"T": type_}


KERNELS = {
    **by_name(
        softmax,
        softmax_gradient,
        log_softmax,
        log_softmax_gradient,
        logsumexp,
        sparse_cross_entropy,
        sparse_cross_entropy_gradient,
        label_mask,
        cross_entropy,
        cross_entropy_gradient,
    ),
    **NORMALIZATION,
    **LOSSES_WITH_GRADIENTS,
}
