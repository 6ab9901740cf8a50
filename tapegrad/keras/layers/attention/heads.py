"""Base class of MultiHeadAttention and GroupQueryAttention."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from numbers import Integral
from typing import Any

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras import regularizers
from tapegrad.keras.layers.attention.masks import visible
from tapegrad.keras.layers.attention.projection import Projection
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.weight_rules import rules_of
from tapegrad.keras.symbolic import KerasTensor
from tapegrad.ops.attention.functions import scaled_dot_product_attention
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.nn.dropout import dropout
from tapegrad.ops.nn.softmax import softmax
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.random.generator import Generator
from tapegrad.ops.shape.functions import swapaxes
from tapegrad.ops.shape.rearranging import repeat

Shape = tuple[int | None, ...]


class HeadedAttention(Layer):
    """Base class of multi-head attention: subclasses set the number and size of the heads."""

    supports_masking = True

    use_bias: bool
    use_gate: bool
    seed: int | None
    query_heads: int
    key_heads: int
    key_size: int
    value_size: int

    def __init__(self, given: Mapping[str, Any], **kwargs: Any) -> None:
        """Set the arguments of a subclass, which `given` holds by name."""
        super().__init__(**kwargs)
        # flash_attention is stored but ignored.
        for name in ("use_bias", "use_gate", "seed", "flash_attention"):
            setattr(self, name, given[name])
        self.dropout, self.sliding_window = rate, window = given["dropout"], given["sliding_window"]
        if not 0.0 <= rate < 1.0:
            raise ArgumentError(
                f"{type(self).__name__} takes a dropout of at least 0 and below 1. Got {rate!r}."
            )
        if window is not None and (not isinstance(window, int) or window < 1):
            raise ArgumentError(
                f"{type(self).__name__} takes a positive sliding_window, or None. Got {window!r}."
            )
        activity = regularizers.get(given["activity_regularizer"])
        rules = rules_of(given, "kernel", "bias")
        self._for_projections = {**rules, "activity_regularizer": activity}
        self._rng = None if self.seed is None else Generator.from_seed(self.seed)

    # Weights

    # Keras passes the shape of each argument to layers that take several.
    def build(  # type: ignore[override]
        self, query_shape: Any, value_shape: Any, key_shape: Any = None
    ) -> None:
        key_shape = value_shape if key_shape is None else key_shape
        self._check_shapes(query_shape, value_shape, key_shape)
        queries = (self.query_heads, self.key_size)
        self.query_dense = self._projection("query", queries, query_shape)
        self.key_dense = self._projection("key", (self.key_heads, self.key_size), key_shape)
        if self.use_gate:
            gates = (self.query_heads, self.value_size)
            self.gate_dense = self._projection("gate", gates, query_shape, activation="sigmoid")
        values = (self.key_heads, self.value_size)
        self.value_dense = self._projection("value", values, value_shape)
        self.output_dense = self._projection(
            "attention_output",
            self.output_sizes(query_shape),
            (*query_shape[:-1], self.query_heads, self.value_size),
            contracted=2,
        )

    def _projection(
        self, name: str, sizes: tuple[int, ...], input_shape: Any, **options: Any
    ) -> Projection:
        layer = Projection(
            sizes,
            use_bias=self.use_bias,
            name=name,
            dtype=self.dtype_policy,
            trainable=self.trainable,
            **options,
            **self._for_projections,
        )
        layer.build(input_shape)
        layer.built = True
        return layer

    @abstractmethod
    def output_sizes(self, query_shape: Any) -> tuple[int, ...]:
        """Return the sizes of the output axes that replace the feature axis of the query."""

    # Computation

    def call(
        self,
        query: Any,
        value: Any,
        key: Any = None,
        query_mask: Any = None,
        value_mask: Any = None,
        key_mask: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> Any:
        key = value if key is None else key
        self._check_shapes(query.shape, value.shape, key.shape)
        return self._attend(
            query,
            value,
            key,
            masks=(query_mask, value_mask, key_mask),
            attention_mask=attention_mask,
            return_attention_scores=return_attention_scores,
            training=training,
            use_causal_mask=use_causal_mask,
        )

    def _attend(
        self,
        query: Any,
        value: Any,
        key: Any,
        *,
        masks: tuple[Any, Any, Any],
        attention_mask: Any,
        return_attention_scores: bool,
        training: bool | None,
        use_causal_mask: bool,
    ) -> Any:
        """Return the output, along the second-to-last axis; `masks` are those of the arguments."""
        query_mask, value_mask, key_mask = masks
        rate = self.dropout if training else 0.0
        # With more keys than queries, Keras aligns the causal mask at the start of the keys, but
        # scaled_dot_product_attention aligns it at the end.
        is_short = not rate and not return_attention_scores
        is_short_causal = is_short and use_causal_mask and query.shape[-2] == key.shape[-2]
        mask = visible(
            query,
            key,
            len(query.shape) + 1,
            attention_mask,
            query_mask,
            (value_mask, key_mask),
            use_causal_mask and not is_short_causal,
            self.sliding_window,
        )
        q, k, v = (
            swapaxes(project(x), -2, -3)
            for project, x in (
                (self.query_dense, query),
                (self.key_dense, key),
                (self.value_dense, value),
            )
        )
        scale, scores = 1.0 / math.sqrt(self.key_size), None
        if is_short:
            output = scaled_dot_product_attention(q, k, v, mask, is_short_causal, scale)
        else:
            output, scores = self._weighted(q * scale, k, v, mask, rate)
        output = swapaxes(output, -2, -3)
        if self.use_gate:
            output = output * self.gate_dense(query)
        output = self.output_dense(output)
        return (output, scores) if return_attention_scores else output

    def _weighted(self, q: Any, k: Any, v: Any, mask: Any, rate: float) -> tuple[Any, Any]:
        """Return the weighted sum of the values, and the weights."""
        shared = self.query_heads // self.key_heads
        if shared > 1:
            k, v = repeat(k, shared, -3), repeat(v, shared, -3)
        scores = matmul(q, k, transpose_b=True)
        if mask is not None:
            scores = where(mask, scores, -math.inf)
        weights = softmax(scores)
        used = dropout(weights, rate, rng=self._rng) if rate else weights
        return matmul(used, v), weights

    # Shapes

    def _check_shapes(self, query: Any, value: Any, key: Any) -> None:
        same = len(query) == len(value) == len(key) and len(query) >= 3
        if not same or not all(_may_equal(a, b) for a, b in zip(value[:-1], key[:-1])):
            raise ShapeError(
                f"{self._title} takes query (batch, queries, features), value (batch, keys, "
                f"features), and key with the shape of value except for the features. Got "
                f"{tuple(query)}, {tuple(value)} and {tuple(key)}."
            )
        if not all(_may_equal(a, b) for a, b in zip(query[:-2], value[:-2])):
            raise ShapeError(
                f"{self._title} takes query and value with equal sizes along all axes before the "
                f"last two. Got {tuple(query)} and {tuple(value)}."
            )
        self.check_rank(len(query))

    def check_rank(self, rank: int) -> None:
        """Raise an error if the layer does not take inputs of this rank."""

    def compute_output_shape(  # type: ignore[override]  # as in build
        self, query_shape: Any, value_shape: Any, key_shape: Any = None
    ) -> Shape:
        key_shape = value_shape if key_shape is None else key_shape
        self._check_shapes(query_shape, value_shape, key_shape)
        return (*query_shape[:-1], *self.output_sizes(query_shape))

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        with_scores = kwargs.pop("return_attention_scores", False)
        output = super().compute_output_spec(*args, **kwargs)
        if not with_scores:
            return output
        given = dict(zip(("query", "value"), args)) | kwargs
        query, value = given["query"].shape, given["value"].shape
        shape = (*query[:-2], self.query_heads, query[-2], value[-2])
        return output, KerasTensor(shape, self.compute_dtype)


def _may_equal(one: int | None, other: int | None) -> bool:
    return one is None or other is None or one == other


def checked_count(layer: Layer, name: str, value: Any) -> int:
    """Return a number of heads or features, which must be a positive integer."""
    if not isinstance(value, Integral) or value < 1:
        raise ArgumentError(f"{type(layer).__name__} takes a positive {name}. Got {value!r}.")
    return int(value)
