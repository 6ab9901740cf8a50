"""GroupQueryAttention: several query heads share one key and value head."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.layers.attention.heads import HeadedAttention, checked_count


class GroupQueryAttention(HeadedAttention):
    """Apply grouped-query attention: consecutive query heads share a key and value head.

    >>> import tapegrad
    >>> x = tapegrad.ones([2, 5, 6])
    >>> layer = GroupQueryAttention(head_dim=4, num_query_heads=6, num_key_value_heads=2)
    >>> layer(x, x).shape, layer.key_dense.kernel.shape
    ((2, 5, 6), (6, 2, 4))
    """

    def __init__(
        self,
        head_dim: int,
        num_query_heads: int,
        num_key_value_heads: int,
        dropout: float = 0.0,
        use_bias: bool = True,
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
        self.head_dim = checked_count(self, "head_dim", head_dim)
        self.num_query_heads = checked_count(self, "num_query_heads", num_query_heads)
        self.num_key_value_heads = checked_count(self, "num_key_value_heads", num_key_value_heads)
        if num_query_heads % num_key_value_heads:
            raise ArgumentError(
                "The num_key_value_heads of GroupQueryAttention must divide its num_query_heads. "
                f"Got {num_key_value_heads} and {num_query_heads}."
            )
        self.query_heads, self.key_heads = num_query_heads, num_key_value_heads
        self.key_size = self.value_size = head_dim

    def output_sizes(self, query_shape: Any) -> tuple[int, ...]:
        return (query_shape[-1],)

    def check_rank(self, rank: int) -> None:
        if rank != 3:
            raise ShapeError(
                f"{self._title} takes inputs of shape (batch, length, "
                f"features). Got {rank} dimensions."
            )
