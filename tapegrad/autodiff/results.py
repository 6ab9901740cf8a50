"""What a tape makes of the gradients that a sweep has found, before it hands them out."""

from __future__ import annotations

from typing import Any

from tapegrad.core.indexed_slices import IndexedSlices
from tapegrad.core.tensor import Tensor
from tapegrad.core.variable import Variable
from tapegrad.ops import arithmetic, joining


def is_finished(source: Any, grad: Any) -> bool:
    """Whether a gradient can be handed out as it is.

    It may have another dtype: NumPy's operators, which rules use, know no bfloat16 beside Python
    numbers, and the cast of a variable shares its gradient with the variable.
    """
    of_tensors = type(grad) is Tensor and type(source) in (Tensor, Variable)
    return of_tensors and grad.array.dtype is source.array.dtype


def total(parts: list[Any]) -> Any:
    """Return the sum of what has come for a source, None if nothing has."""
    if not parts:
        return None
    result = parts[0]
    for part in parts[1:]:
        result = _sum(result, part)
    return result


def _sum(first: Any, second: Any) -> Any:
    """Add two gradients; sparse ones stay sparse."""
    if not (isinstance(first, IndexedSlices) and isinstance(second, IndexedSlices)):
        return arithmetic.add(first, second)
    return IndexedSlices(
        joining.concat([first.values, second.values], axis=0),
        joining.concat([first.indices, second.indices], axis=0),
        first.dense_shape,
    )
