"""Reduce losses per sample to one value: ranks, sample weights, masks, reductions."""

from __future__ import annotations

from math import prod
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.cast import cast, in_dtype
from tapegrad.ops.elementwise.no_nan import divide_no_nan
from tapegrad.ops.reduction.primitives import mean, sum as sum_of
from tapegrad.ops.shape.functions import expand_dims, squeeze

REDUCTIONS = ("sum_over_batch_size", "mean", "mean_with_sample_weight", "sum", "none", None)


def as_dtype_of(x: Any, dtype: Any) -> Any:
    """Return `x` as a tensor of a dtype.

    >>> as_dtype_of([1, 2], "float32").tolist()
    [1.0, 2.0]
    """
    return in_dtype(as_operand(x), dtype)


def match_ranks(x: Any, y: Any, expand_vectors: bool = True) -> tuple[Any, Any]:
    """Bring (batch, 1) and (batch,) to one shape, as broadcasting would give (batch, batch).

    If the ranks differ by one and the larger tensor has a last axis of length 1, add that axis to
    a vector, or remove it from the larger tensor.

    >>> a, b = match_ranks([[1.0], [2.0]], [1.0, 2.0])
    >>> tuple(a.shape), tuple(b.shape)
    ((2, 1), (2, 1))
    """
    x, y = as_operand(x), as_operand(y)
    more = x.ndim - y.ndim
    if more == -1:
        y, x = match_ranks(y, x, expand_vectors)
    elif more == 1 and x.shape[-1] == 1:
        if y.ndim == 1 and expand_vectors:
            y = expand_dims(y, -1)
        else:
            x = squeeze(x, -1)
    return x, y


def check_reduction(reduction: str | None) -> str | None:
    """Return a reduction if it is valid.

    >>> check_reduction("sum")
    'sum'
    """
    if reduction not in REDUCTIONS:
        names = ", ".join(repr(name) for name in REDUCTIONS)
        raise ArgumentError(f"The reduction of a loss must be one of {names}. Got {reduction!r}.")
    return reduction


def reduce_weighted(
    values: Any, sample_weight: Any = None, mask: Any = None, reduction: str | None = "mean"
) -> Any:
    """Weight the losses of samples and reduce them.

    Masked samples have no loss and are left out of means.

    >>> float(reduce_weighted([1.0, 3.0], sample_weight=[1.0, 0.0]))
    0.5
    >>> float(reduce_weighted([1.0, 3.0], sample_weight=[1.0, 0.0], mask=[True, False]))
    1.0
    """
    values = as_operand(values)
    weight = None if sample_weight is None else as_dtype_of(sample_weight, values.dtype)
    if mask is not None:
        weight = _masked(weight, mask, values.dtype, reduction)
    if weight is not None:
        values, weight = match_ranks(values, weight)
        values = values * weight
    if reduction in (None, "none") or not values.ndim or tuple(values.shape) == (0,):
        return values
    if reduction == "sum":
        return sum_of(values)
    if reduction == "mean_with_sample_weight" and weight is not None:
        return divide_no_nan(sum_of(values), sum_of(weight))
    return mean(values)


def _masked(weight: Any, mask: Any, dtype: Any, reduction: str | None) -> Any:
    """Return weights that are 0 where the mask is False, scaled up for a mean over the rest."""
    kept = cast(as_operand(mask), dtype)
    if reduction in ("mean", "sum_over_batch_size"):
        kept = kept * divide_no_nan(float(prod(kept.shape)), sum_of(kept))
    if weight is None:
        return kept
    kept, weight = match_ranks(kept, weight)
    return kept * weight
