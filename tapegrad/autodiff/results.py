"""Gradients as a tape returns them: sums over the nodes of a source, dtypes, unconnected ones."""

from __future__ import annotations

from typing import Any

from tapegrad.autodiff.arguments import UnconnectedGradients, warn_few_times
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.ops import creation
from tapegrad.ops.casting import cast
from tapegrad.ops.elementwise import arithmetic
from tapegrad.ops.shape import joining


def is_finished(source: Any, grad: Any) -> bool:
    """Whether a gradient can be returned as it is.

    Its dtype may differ from that of the source: NumPy promotes bfloat16 beside Python numbers,
    and a variable and its cast share a gradient.
    """
    of_tensors = type(grad) is Tensor and type(source) in (Tensor, Variable)
    return of_tensors and grad.array.dtype is source.array.dtype


def finished(source: Any, grad: Any, unconnected: UnconnectedGradients) -> Any:
    """Return a gradient in the dtype of its source; if it is None, what stands for that."""
    if grad is None:
        if not source.dtype.is_differentiable:
            warn_few_times(f"A source has dtype {source.dtype}: its gradient is None.")
        return None if unconnected is UnconnectedGradients.NONE else creation.zeros_like(source)
    if not isinstance(grad, IndexedSlices) and grad.dtype is not source.dtype:
        grad = cast.cast(grad, source.dtype)
    return grad


def total(parts: list[Any]) -> Any:
    """Return the sum of the gradients of all nodes of a source, None if there are none."""
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
