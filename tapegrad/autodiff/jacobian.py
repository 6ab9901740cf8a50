"""Jacobians by batched sweeps: many rows at once, in chunks that limit the memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.autodiff.arguments import UnconnectedGradients
from tapegrad.autodiff.batching import Batched, is_batched, lift, new_level, wrap_levels
from tapegrad.core.values.host import place_like
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops import creation
from tapegrad.ops.casting import cast
from tapegrad.ops.elementwise import arithmetic
from tapegrad.ops.shape import functions as shapes, joining

CHUNK_BYTES = 256 * 2**20
"""By default, the seeds of one sweep take at most this much memory."""


def check_chunk(chunk_size: Any, parallel_iterations: Any = None) -> int | None:
    """Return the number of rows per sweep, from either of its names."""
    for name, given in (("chunk_size", chunk_size), ("parallel_iterations", parallel_iterations)):
        if given is not None and (not isinstance(given, int) or given < 1):
            raise ArgumentError(f"{name} must be a positive integer. Got {given!r}.")
    rows: int | None = parallel_iterations if chunk_size is None else chunk_size
    return rows


def by_rows(
    target: Tensor,
    shape: tuple[int, ...],
    sweep: Callable[[Any], list[Any]],
    count: int,
    chunk: int | None,
) -> list[Any]:
    """Sweep one seed per element of a target; return the rows per source, or None.

    `shape` is that of one example. Axes of `target` before it are examples of a running vmap.
    """
    size = math.prod(shape)
    step = chunk or max(1, CHUNK_BYTES // max(1, target.nbytes))
    parts: list[list[Any]] = [[] for _ in range(count)]
    for start in range(0, max(size, 1), step):
        rows = min(step, size - start)
        level = new_level()
        seeds = Batched(one_hot_rows(target, start, rows, shape), level)
        for position, grad in enumerate(sweep(seeds)):
            parts[position].append(rows_of(grad, rows, level))
    return [None if part[0] is None else _joined(part) for part in parts]


def one_hot_rows(
    target: Tensor, start: int, rows: int, shape: tuple[int, ...] | None = None
) -> Tensor:
    """Return rows `start` to `start + rows` of the identity as seeds, for all examples."""
    shape = tuple(target.shape) if shape is None else shape
    examples = target.ndim - len(shape)
    # The seeds are made on the device of the target, and a function records how.
    numbers = creation.positions_like_p(target, length=rows, dtype=np.dtype(np.int64))
    if start:
        numbers = arithmetic.add(numbers, start)
    dtype = target.dtype.dtype
    size = math.prod(shape)
    seeds = creation.one_hot_p(numbers, depth=size, on=1, off=0, axis=1, dtype=dtype)
    seeds = shapes.reshape(seeds, (rows, *[1] * examples, *shape))
    made: Tensor = shapes.broadcast_to(seeds, (rows, *target.shape)) if examples else seeds
    return made


def rows_of(grad: Any, rows: int, level: int) -> Any:
    """Return the rows of a batched gradient; sparse gradients become dense."""
    if grad is None:
        return None
    if is_batched(grad) and grad.level == level:
        return grad.tensor
    return lift(grad, rows)


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else joining.concat(parts, axis=0)


def shaped(rows: Any, full: tuple[int, ...], examples: int) -> Any:
    """Bring stacked rows to the shape of the Jacobian, axes of examples first."""
    lead = tuple(rows.shape[1 : 1 + examples])
    if examples:
        order = (*range(1, 1 + examples), 0, *range(1 + examples, len(rows.shape)))
        rows = shapes.permute_dims(rows, order)
    return shapes.reshape(rows, (*lead, *full))


def finished_rows(
    source: Any,
    rows: Any,
    shape: tuple[int, ...],
    levels: tuple[int, ...],
    unconnected: UnconnectedGradients,
) -> Any:
    """Return the Jacobian by one source from its rows; `shape` is that of the target."""
    full = (*shape, *source.shape)
    if rows is not None:
        rows = cast.gradient_in_dtype(rows, source.dtype)
        return wrap_levels(shaped(rows, full, len(levels)), levels)
    if unconnected is UnconnectedGradients.NONE:
        return None
    example = source.shared_value() if isinstance(source, Variable) else source
    return creation.zeros_for(example, full, source.dtype.dtype)


def check_batch(target: Any, source: Any) -> None:
    """Raise unless both have a batch axis of the same length."""
    for name, value in (("target", target), ("source", source)):
        if len(value.shape) < 2:
            raise ShapeError(
                f"batch_jacobian needs {name} of rank at least 2. Got shape {value.shape}."
            )
    if target.shape[0] != source.shape[0]:
        raise ShapeError(
            "batch_jacobian needs target and source with the same first dimension. "
            f"Got {target.shape[0]} and {source.shape[0]}."
        )


def by_examples(
    target: Tensor,
    source: Any,
    sweep: Callable[[Any], Any],
    chunk: int | None,
    check_independence: bool,
) -> Any:
    """Return the Jacobian of each example: one seed per element, for all examples at once."""
    batch, *rest = target.shape
    full = (batch, *rest, *source.shape[1:])
    width = int(np.prod(rest))
    if 0 in full:
        return creation.zeros_for(target, full, target.dtype.dtype)
    flat = shapes.reshape(target, (batch, width))
    step = chunk or max(1, CHUNK_BYTES // max(1, target.nbytes))
    parts = []
    for start in range(0, width, step):
        rows = min(step, width - start)
        seeds = np.zeros((rows, batch, width), target.dtype.dtype)
        seeds[np.arange(rows), :, start + np.arange(rows)] = 1
        level = new_level()
        seed = wrap(place_like(seeds.reshape(rows, *target.shape), flat.array))
        grad = rows_of(sweep(Batched(seed, level)), rows, level)
        if grad is None:
            return creation.zeros_for(target, full, target.dtype.dtype)
        parts.append(grad)
    if check_independence:
        _check_independence(target, sweep)
    rows_first = _joined(parts)
    order = (1, 0, *range(2, len(rows_first.shape)))
    return shapes.reshape(shapes.permute_dims(rows_first, order), full)


def _check_independence(target: Tensor, sweep: Callable[[Any], Any]) -> None:
    """Raise if the gradient of one example's target reaches another example."""
    batch = target.shape[0]
    seeds = np.zeros((batch, *target.shape), target.dtype.dtype)
    seeds[np.arange(batch), np.arange(batch)] = np.random.default_rng(0).uniform(
        1, 2, size=target.shape
    )
    level = new_level()
    grad = rows_of(sweep(Batched(wrap(place_like(seeds, target.array)), level)), batch, level)
    values = np.abs(grad.numpy()).reshape(batch, batch, -1).sum(axis=2)
    np.fill_diagonal(values, 0)
    if values.any():
        i, j = np.argwhere(values)[0]
        raise ArgumentError(
            f"batch_jacobian needs independent examples, but target {i} depends on source {j}. "
            "Use jacobian() instead."
        )
