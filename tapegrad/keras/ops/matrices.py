"""Distances, matrix functions and derivatives along directions with Keras signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.autodiff import transforms
from tapegrad.core.primitive.operand import common_operands
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import range as numbers_to
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.linalg import determinants
from tapegrad.ops.linalg.decompositions import lu
from tapegrad.ops.linalg.norms import vector_norm
from tapegrad.ops.reduction.functions import argmax
from tapegrad.ops.shape.joining import stack


def cdist(x: Any, y: Any) -> Any:
    """Return the distances between all pairs of vectors.

    >>> cdist([[0.0, 0.0]], [[3.0, 4.0], [0.0, 1.0]]).tolist()
    [[5.0, 1.0]]
    """
    first, second = common_operands(x, y)
    if len(first.shape) < 2 or len(second.shape) < 2:
        raise ShapeError(
            "`cdist` inputs must have rank >= 2. "
            f"Got shapes {tuple(first.shape)} and {tuple(second.shape)}."
        )
    if first.shape[-1] != second.shape[-1]:
        raise ShapeError(
            "The points of cdist must match in their number of coordinates. "
            f"Got {first.shape[-1]} and {second.shape[-1]}."
        )
    return vector_norm(first[..., :, None, :] - second[..., None, :, :], axis=-1)


def logdet(x: Any) -> Any:
    """Return the logarithm of the absolute value of the determinant.

    >>> float(logdet([[1.0, 0.0], [0.0, 1.0]]))
    0.0
    """
    return determinants.logdet(x)


def lu_factor(x: Any) -> tuple[Any, Any]:
    """Return L and U in one matrix, and the row that each step swaps with its own.

    >>> packed, swaps = lu_factor([[1.0, 2.0], [4.0, 4.0]])
    >>> packed.tolist(), swaps.tolist()
    ([[4.0, 4.0], [0.25, 1.0]], [1, 1])
    """
    packed, order = lu(x)
    rows, columns = packed.shape[-2:]
    numbers: Any = numbers_to(rows)
    held = order * 0 + numbers  # the row of the input that each place holds
    swaps = []
    for step in range(min(rows, columns)):
        wanted = order[..., step : step + 1]
        place = argmax(cast(held == wanted, "int32"), -1)[..., None]
        place = cast(place, "int32")
        swaps.append(place[..., 0])
        held = where(numbers == place, held[..., step : step + 1], held)
        held = where(numbers == step, wanted, held)
    return packed, stack(swaps, -1)


def jvp(fun: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """Return the value of `fun` and its derivative along tangents.

    With `has_aux`, `fun` returns its value and something else, which is the third result.

    >>> value, change = jvp(lambda x: x * x, (3.0,), (1.0,))
    >>> float(value), float(change)
    (9.0, 6.0)
    """
    if not has_aux:
        return transforms.jvp(fun, primals, tangents)
    kept: list[Any] = []

    def value(*xs: Any) -> Any:
        found = fun(*xs)
        if not isinstance(found, tuple) or len(found) != 2:
            raise ArgumentError(
                "With has_aux=True, the function of jvp returns a pair: its value and something "
                f"else. Got {type(found).__name__}."
            )
        kept[:] = [found[1]]
        return found[0]

    return (*transforms.jvp(value, primals, tangents), kept[0])
