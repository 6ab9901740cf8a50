"""MultiHeadAttention."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.layers.attention.heads import HeadedAttention, checked_count


class MultiHeadAttention(HeadedAttention):
    """Apply multi-head dot-product attention.

    A query whose keys are all masked gets zeros before the output projection. Inputs of more than
    3 dimensions need `attention_axes`, which must be the second-to-last axis.

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
        self.attention_axes = _one_axis(attention_axes)

    def output_sizes(self, query_shape: Any) -> tuple[int, ...]:
        return (query_shape[-1],) if self._sizes is None else tuple(self._sizes)

    def check_rank(self, rank: int) -> None:
        wanted = {-2, rank - 2} | ({None} if rank == 3 else set())
        if self.attention_axes not in wanted:
            raise ShapeError(
                f"{self._title} attends along the second-to-last axis: for inputs of {rank} "
                f"dimensions, attention_axes must be {rank - 2}. Got {self.attention_axes}."
            )


def _one_axis(axes: Any) -> int | None:
    if axes is None or isinstance(axes, int):
        return axes
    if len(axes) != 1:
        raise ArgumentError(
            f"MultiHeadAttention attends along one axis, the second-to-last. Got "
            f"attention_axes={tuple(axes)}. Reshape several axes into one."
        )
    return int(axes[0])
