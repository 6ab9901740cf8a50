"""Recursive filters along one axis, with initial and final states."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.errors import ShapeError
from tapegrad.ops.convolution.sequences import convolve_p
from tapegrad.ops.linalg.solve import triangular_solve
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.reduction.recurrence import recurrence_p
from tapegrad.ops.shape.padding import pad
from tapegrad.scipy.linalg.matrices import toeplitz
from tapegrad.scipy.vocabulary import (
    broadcast_p,
    concat,
    moveaxis,
    numpy_dtype_of,
    operands,
    reshape_p,
    zeros_for,
)

_BLOCK = 512
"""How many samples one triangular system computes."""


def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Filter x along one axis by the rational transfer function b / a.

    With `zi`, the state that a filter of earlier samples has left, the result is the signal and
    the state at its end; a state has max(len(a), len(b)) - 1 entries along the axis.

    Without feedback (`a` has one entry) this is a convolution, with one feedback term a linear
    recurrence, and with more terms a triangular system per block of samples.

    >>> lfilter([1.0], [1.0, -0.5], [1.0, 0.0, 0.0]).tolist()
    [1.0, 0.5, 0.25]
    >>> lfilter([1.0], [1.0, -0.5], [0.0, 0.0], zi=[1.0])[1].tolist()
    [0.25]
    """
    b, a, x, *given = operands(b, a, x, *([] if zi is None else [zi]))
    b, a = (reshape_p(v, shape=(1,)) if not v.shape else v for v in (b, a))
    if b.ndim != 1 or a.ndim != 1 or not a.shape[0] or not b.shape[0]:
        raise ShapeError(f"lfilter needs vectors b and a. Got shapes {b.shape} and {a.shape}.")
    axis = normalize_axis(axis, x.ndim, "lfilter")
    rows, lead = moveaxis(x, axis, -1), a[:1]
    n = rows.shape[-1]
    state = _state(given[0], rows, max(a.shape[0], b.shape[0]) - 1, axis) if given else None
    if not n:
        return x if state is None else (x, moveaxis(state, -1, axis))
    b, a = b / lead, a / lead
    y = _convolved(rows, b)[..., :n]
    if state is not None:
        y = y + _fitted(state, n)
    y = _apply_feedback(a[1:], y, n)
    if state is None:
        return moveaxis(y, -1, axis)
    return moveaxis(y, -1, axis), moveaxis(_state_after(b, a, rows, y, state), -1, axis)


def _state(zi: Any, rows: Any, order: int, axis: int) -> Any:
    """Return the initial state with the signal's axis last, one per row."""
    wanted = (*rows.shape[:-1], order)
    given = moveaxis(zi, axis, -1) if zi.ndim == rows.ndim else zi
    fits = given.shape[-1:] == (order,) and given.ndim == rows.ndim
    if fits and all([n in (1, full) for n, full in zip(given.shape, wanted, strict=True)]):
        return broadcast_p(given, shape=wanted)
    raise ShapeError(
        f"lfilter needs {order} entries of zi along axis {axis} for a signal with the other axes "
        f"{tuple(rows.shape[:-1])}. Got shape {zi.shape}."
    )


def _convolved(rows: Any, taps: Any) -> Any:
    return convolve_p(rows, broadcast_p(taps, shape=(*rows.shape[:-1], taps.shape[0])))


def _fitted(x: Any, n: int) -> Any:
    """Return the first n entries along the last axis, with zeros after them if there are fewer."""
    kept = x[..., :n]
    lacking = n - kept.shape[-1]
    return pad(kept, [*[(0, 0)] * (x.ndim - 1), (0, lacking)]) if lacking else kept


def _state_after(b: Any, a: Any, rows: Any, y: Any, state: Any) -> Any:
    """Return what the samples so far add to the next ones: the rest of b * x - a * y + zi."""
    order, n = state.shape[-1], rows.shape[-1]
    if not order:
        return state
    last = min(order, n)
    rest = _fitted(state[..., n:], order)
    for taps, part, sign in ((b, rows, 1.0), (a, y, -1.0)):
        rest = rest + sign * _fitted(_convolved(part[..., n - last :], taps)[..., last:], order)
    return rest


def _apply_feedback(back: Any, y: Any, n: int) -> Any:
    """Return z with z[i] + back[0] z[i - 1] + back[1] z[i - 2] + ... = y[i]."""
    order = back.shape[0]
    if not order:
        return y
    if order == 1:
        rate = broadcast_p(-back, shape=tuple(y.shape))
        return recurrence_p(rate, y, axis=y.ndim - 1, reverse=False)
    flat = reshape_p(y, shape=(-1, n))
    length = max(_BLOCK, 2 * order)
    return reshape_p(_in_blocks(back, flat, min(length, n)), shape=tuple(y.shape))


def _triangle(back: Any, n: int) -> Any:
    """Return the matrix that takes n values of z to those of y."""
    kept = back[: min(back.shape[0], n - 1)]
    one = zeros_for(back, (1,), numpy_dtype_of(back)) + 1
    column = pad(concat([one, kept], 0), [(0, n - 1 - kept.shape[0])])
    return toeplitz(column, 0.0 * column)


def _in_blocks(back: Any, y: Any, length: int) -> Any:
    """Solve one block after another: memory grows with the length, not with its square.

    A block sees the last values of the one before on its right-hand side, as the recursion does.
    The sum of a block's reply to them and of its values from rest would cancel in narrow filters.
    """
    order = back.shape[0]
    lower = _triangle(back, length)
    nothing = zeros_for(back, (order - 1,), numpy_dtype_of(back))
    effect = toeplitz(-back[::-1], concat([-back[-1:], nothing], 0))
    blocks: list[Any] = []
    for start in range(0, y.shape[-1], length):
        block = y[:, start : start + length]
        n = block.shape[-1]
        if blocks:
            block = block + _fitted(matmul(blocks[-1][:, length - order :], effect), n)
        solved = triangular_solve(lower[:n, :n], moveaxis(block, -1, 0))
        blocks.append(moveaxis(solved, 0, -1))
    return concat(blocks, -1)
