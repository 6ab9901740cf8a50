"""Sums and linear interpolation of several tensors: add_n, accumulate_n, lerp."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.elementwise.arithmetic import add, multiply

add_n_p = Primitive("add_n", lambda xp, *arrays: reduce(lambda a, b: a + b, arrays), selects=False)
add_n_p.broadcasts = add_n_p.by_element = True


@add_n_p.vjp
def _add_n_vjp(t: Any, *, needs: tuple[bool, ...]) -> list[Any]:
    return [t if needed else None for needed in needs]


@add_n_p.jvp
def _add_n_jvp(ts: tuple[Any, ...]) -> Any:
    return reduce(add, [t for t in ts if t is not None])


def add_n(inputs: Sequence[Any], name: str | None = None) -> Any:
    """Return the sum of tensors of equal shape.

    >>> add_n([[1.0], [2.0]]).tolist()
    [3.0]
    """
    values = [as_operand(value) for value in _as_list(inputs)]
    if not values:
        raise ArgumentError("add_n needs at least one tensor. Got none.")
    shapes = {tuple(value.shape) for value in values}
    if len(shapes) > 1:
        raise ShapeError(f"add_n needs tensors of equal shape. Got {sorted(shapes)}.")
    return add_n_p(*values)


def _as_list(inputs: Any) -> Any:
    return inputs if isinstance(inputs, list | tuple) else [inputs]


def accumulate_n(
    inputs: Sequence[Any], shape: Any = None, tensor_dtype: Any = None, name: str | None = None
) -> Any:
    """Return the sum of tensors of equal shape, as `add_n` does.

    >>> accumulate_n([[1.0], [2.0]]).tolist()
    [3.0]
    """
    total = add_n(inputs)
    if shape is not None and tuple(shape) != total.shape:
        raise ShapeError(
            f"accumulate_n got shape={tuple(shape)}, but the tensors have shape {total.shape}."
        )
    return total


def lerp(start: Any, end: Any, weight: Any, name: str | None = None) -> Any:
    """Interpolate linearly from `start` (weight 0) to `end` (weight 1).

    >>> float(lerp(1.0, 3.0, 0.5))
    2.0
    """
    start, end = as_operand(start), as_operand(end)
    return add(start, multiply(end - start, weight))
