"""MultiHeadAttention."""

from __future__ import annotations

from math import prod
from typing import Any

from tapegrad.keras.layers.attention.axes import (
    attended_axes,
    joined,
    joined_mask,
    joined_shape,
    parted,
)
from tapegrad.keras.layers.attention.heads import HeadedAttention, checked_count
from tapegrad.ops.shape.functions import reshape


class MultiHeadAttention(HeadedAttention):
    """Apply multi-head dot-product attention.

    A query whose keys are all masked gets zeros before the output projection. Inputs of more than
    3 dimensions attend along all axes between batch and features, or along `attention_axes`.

    >>> import tapegrad
    >>> x = tapegrad.ones([2, 5, 6])
    >>> output, scores = MultiHeadAttention(3, 4)(x, x, return_attention_scores=True)
    >>> output.shape, scores.shape
    ((2, 5, 6), (2, 3, 5, 5))
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: Any = None,
        attention_axes: Any = None,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        use_gate: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(locals(), **kwargs)
        self.num_heads = checked_count(self, "num_heads", num_heads)
        self.key_dim = checked_count(self, "key_dim", key_dim)
        self.value_dim = key_dim if value_dim is None else value_dim
        checked_count(self, "value_dim", self.value_dim)
        self.query_heads = self.key_heads = self.num_heads
        self.key_size, self.value_size = self.key_dim, self.value_dim
        self._sizes = (output_shape,) if isinstance(output_shape, int) else output_shape
        self.attention_axes = attention_axes

    def output_sizes(self, query_shape: Any) -> tuple[int, ...]:
        return (query_shape[-1],) if self._sizes is None else tuple(self._sizes)

    def _axes(self, rank: int) -> tuple[int, ...]:
        return attended_axes(self.attention_axes, rank, self._title)

    def _check_shapes(self, query: Any, value: Any, key: Any) -> None:
        if len(query) == len(value) == len(key) and len(query) > 3:
            axes = self._axes(len(query))
            query, value, key = (joined_shape(shape, axes) for shape in (query, value, key))
        super()._check_shapes(query, value, key)

    def _attend(self, query: Any, value: Any, key: Any, **options: Any) -> Any:
        rank = len(query.shape)
        if rank <= 3 or self._axes(rank) == (rank - 2,):
            return super()._attend(query, value, key, **options)
        return self._along(self._axes(rank), query, value, key, **options)

    def _along(
        self,
        axes: tuple[int, ...],
        query: Any,
        value: Any,
        key: Any,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        **options: Any,
    ) -> Any:
        """Attend along axes that are joined into one."""
        sizes, others = ([x.shape[axis] for axis in axes] for x in (query, key))
        mask = joined_mask(attention_mask, (prod(sizes), prod(others)), axes)
        output = super()._attend(
            *(joined(x, axes) for x in (query, value, key)),
            attention_mask=mask,
            return_attention_scores=return_attention_scores,
            **options,
        )
        if not return_attention_scores:
            return parted(output, axes, sizes)
        result, scores = output
        scores = reshape(scores, (*scores.shape[:-2], *sizes, *others))
        return parted(result, axes, sizes), scores
