"""Attention and AdditiveAttention: attention without heads or projections."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.layers.attention.masks import visible
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.symbolic import KerasTensor
from tapegrad.ops.attention.functions import scaled_dot_product_attention
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.elementwise.trigonometric import tanh
from tapegrad.ops.nn.dropout import dropout as drop
from tapegrad.ops.nn.softmax import softmax
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.random.generator import Generator
from tapegrad.ops.reduction.functions import reduce_sum
from tapegrad.ops.shape.functions import expand_dims, squeeze

Shape = tuple[int | None, ...]


class PlainAttention(Layer):
    """Base class of attention without heads, on [query, value] or [query, value, key]."""

    supports_masking = True

    def __init__(self, use_scale: bool, dropout: float, seed: int | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0.0 <= dropout < 1.0:
            raise ArgumentError(
                f"{type(self).__name__} takes a dropout of at least 0 and below 1. Got {dropout!r}."
            )
        self.use_scale, self.dropout, self.seed = use_scale, dropout, seed
        self._rng = None if seed is None else Generator.from_seed(seed)

    @abstractmethod
    def scores(self, query: Any, key: Any) -> Any:
        """Return the attention scores `[batch, queries, keys]` before the softmax."""

    def fused(self, query: Any, key: Any, value: Any, mask: Any) -> Any:
        """Return the output from a fused kernel that computes no scores, or None."""
        return None

    def build(self, input_shape: Any) -> None:
        self.check_shapes(input_shape)

    def call(
        self,
        inputs: Sequence[Any],
        mask: Any = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        use_causal_mask: bool = False,
    ) -> Any:
        self.check_shapes([x.shape for x in inputs])
        query, value = inputs[0], inputs[1]
        key = inputs[2] if len(inputs) > 2 else value
        query_mask, value_mask = self._masks(mask)
        seen = visible(query, key, 3, key_masks=(value_mask,), is_causal=use_causal_mask)
        rate, weights, output = self.dropout if training else 0.0, None, None
        if not rate and not return_attention_scores and query.shape[0] == key.shape[0]:
            output = self.fused(query, key, value, seen)
        if output is None:
            scores = self.scores(query, key)
            weights = softmax(scores if seen is None else where(seen, scores, -math.inf))
            weights = drop(weights, rate, rng=self._rng) if rate else weights
            output = matmul(weights, value)
        if query_mask is not None:
            kept = expand_dims(cast(query_mask, "bool"), -1)
            output = where(kept, output, zeros_like(output))
        return (output, weights) if return_attention_scores else output

    def _masks(self, mask: Any) -> tuple[Any, Any]:
        if mask is None:
            return None, None
        if not isinstance(mask, list | tuple) or len(mask) not in (2, 3):
            raise ShapeError(
                f"{self._title} takes a list of masks, [query_mask, value_mask], in which each may "
                f"be None. Got {type(mask).__name__}."
            )
        return mask[0], mask[1]

    def check_shapes(self, shapes: Any) -> None:
        is_list = isinstance(shapes, list | tuple) and len(shapes) in (2, 3)
        if not is_list or any(not isinstance(s, list | tuple) or len(s) != 3 for s in shapes):
            raise ShapeError(
                f"{self._title} takes a list [query, value] or [query, value, key] of tensors "
                f"(batch, length, features). Got shapes {shapes}."
            )
        query, value, key = shapes[0], shapes[1], shapes[-1]
        pairs = [(query[2], key[2]), (value[1], key[1]), (value[0], key[0])]
        wrong = any(a is not None and b is not None and a != b for a, b in pairs)
        if wrong or len({query[0], key[0]} - {None, 1}) > 1:
            raise ShapeError(
                f"{self._title} takes queries and keys with the same number of features, and as "
                f"many values as keys. Got query, value and key of shapes {tuple(query)}, "
                f"{tuple(value)} and {tuple(key)}."
            )

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return previous_mask[0] if previous_mask else None

    def compute_output_shape(self, input_shape: Any) -> Shape:
        self.check_shapes(input_shape)
        query, value = input_shape[0], input_shape[1]
        batch = value[0] if query[0] == 1 else query[0]
        return (batch, query[1], value[-1])

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        with_scores = kwargs.pop("return_attention_scores", False)
        output = super().compute_output_spec(*args, **kwargs)
        if not with_scores:
            return output
        inputs = args[0] if args else kwargs["inputs"]
        shape = (*inputs[0].shape[:-1], inputs[-1].shape[1])
        return output, KerasTensor(shape, self.compute_dtype)


class Attention(PlainAttention):
    """Apply dot-product attention, or additive attention with `score_mode="concat"`.

    >>> import tapegrad
    >>> query, value = tapegrad.ones([2, 3, 4]), tapegrad.ones([2, 5, 4])
    >>> Attention()([query, value]).shape
    (2, 3, 4)
    """

    def __init__(
        self,
        use_scale: bool = False,
        score_mode: str = "dot",
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(use_scale, dropout, seed, **kwargs)
        if score_mode not in ("dot", "concat"):
            raise ArgumentError(
                f"The score_mode of Attention must be 'dot' or 'concat'. Got {score_mode!r}."
            )
        self.score_mode = score_mode

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        if self.use_scale:
            self.scale = self.add_weight((), "ones", name="scale")
        if self.score_mode == "concat":
            self.concat_score_weight = self.add_weight((), "ones", name="concat_score_weight")

    def scores(self, query: Any, key: Any) -> Any:
        if self.score_mode == "dot":
            return matmul(self._scaled(query), key, transpose_b=True)
        sums = self._scaled(expand_dims(query, -2) + expand_dims(key, -3))
        return self.concat_score_weight * reduce_sum(tanh(sums), axis=-1)

    def _scaled(self, x: Any) -> Any:
        return self.scale * x if self.use_scale else x

    def fused(self, query: Any, key: Any, value: Any, mask: Any) -> Any:
        if self.score_mode != "dot":
            return None
        # scaled_dot_product_attention expects a head axis before the last two.
        q, k, v = (expand_dims(x, 1) for x in (self._scaled(query), key, value))
        seen = None if mask is None else expand_dims(mask, -3)
        return squeeze(scaled_dot_product_attention(q, k, v, seen, scale=1.0), 1)


class AdditiveAttention(PlainAttention):
    """Apply additive (Bahdanau) attention: scores are weighted sums of tanh(query + key).

    >>> import tapegrad
    >>> query, value = tapegrad.ones([2, 3, 4]), tapegrad.ones([2, 5, 4])
    >>> AdditiveAttention()([query, value]).shape
    (2, 3, 4)
    """

    def __init__(
        self,
        use_scale: bool = True,
        dropout: float = 0.0,
        *,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(use_scale, dropout, seed, **kwargs)

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        if self.use_scale:
            self.scale = self.add_weight((input_shape[0][-1],), "glorot_uniform", name="scale")

    def scores(self, query: Any, key: Any) -> Any:
        terms = tanh(expand_dims(query, -2) + expand_dims(key, -3))
        return reduce_sum(self.scale * terms if self.use_scale else terms, axis=-1)
