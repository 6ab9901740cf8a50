"""Scaled dot-product attention and rotary position embedding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand, common_operands
from tapegrad.core.primitive.real_operands import require_real
from tapegrad.errors import ShapeError
from tapegrad.ops.attention.primitives import attention_p, hide_future
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.elementwise.trigonometric import cos, sin
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.kinds import kind_of
from tapegrad.ops.nn.dropout import apply_dropout
from tapegrad.ops.nn.softmax import softmax_p
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.random.generator import source_for
from tapegrad.ops.shape.joining import concat
from tapegrad.ops.shape.primitives import reshape_p

Shape = tuple[int, ...]


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    causal: bool = False,
    scale: float | None = None,
    dropout_rate: float = 0.0,
    rng: Any = None,
    name: str | None = None,
) -> Any:
    """Return softmax(query key' * scale) value for `[..., heads, length, depth]` tensors.

    `mask` broadcasts to `[..., heads, queries, keys]`. A boolean mask is true where a query may
    attend to a key; a numeric mask is added to the scores. A query without any key gives zeros.
    With `causal`, query i attends to the keys up to i; if there are more keys than queries, the
    last query attends to all keys. The number of key and value heads may be a divisor of the
    number of query heads: consecutive query heads then share them. `scale` defaults to
    1 / sqrt(depth).

    >>> import numpy as np
    >>> q = np.ones((1, 2, 3, 4))
    >>> scaled_dot_product_attention(q, q, q, causal=True).shape
    (1, 2, 3, 4)
    """
    q, k, v = common_operands(query, key, value)
    require_real("scaled_dot_product_attention", q, k, v, mask)
    shapes = q.shape, k.shape, v.shape
    _check_shapes(*shapes)
    groups = _queries_per_head(*shapes[:2])
    scale = 1.0 / math.sqrt(max(shapes[0][-1], 1)) if scale is None else scale
    plain = mask is None and not dropout_rate and isinstance(scale, int | float)
    is_float = q.dtype == k.dtype == v.dtype and kind_of(q) == "f"
    if plain and is_float and _is_supported(*shapes):
        return attention_p(q, k, v, scale=float(scale), causal=bool(causal))[0]
    q = q * scale
    scores = matmul(_fold_heads(q, groups), k, transpose_b=True)
    scores = _unfold_heads(scores, groups)
    if mask is not None:
        mask = as_operand(mask)
        scores = where(mask, scores, -math.inf) if kind_of(mask) == "b" else scores + mask
    if causal:
        scores = hide_future(scores)
    weights = softmax_p(scores, axis=len(scores.shape) - 1)
    if dropout_rate:
        source = source_for(None) if rng is None else rng
        weights = apply_dropout(weights, dropout_rate, None, source)
    return _unfold_heads(matmul(_fold_heads(weights, groups), v), groups)


def _check_shapes(q: Shape, k: Shape, v: Shape) -> None:
    fits = 2 <= len(q) == len(k) == len(v)
    if not fits or q[-1] != k[-1] or k[-2] != v[-2]:
        raise ShapeError(
            "scaled_dot_product_attention takes query [..., queries, depth], key [..., keys, "
            "depth] and value [..., keys, width] of equal rank. Got shapes "
            f"{q}, {k} and {v}."
        )


def _queries_per_head(q: Shape, k: Shape) -> int:
    """Return how many query heads share one key head; 1 if the heads broadcast or are equal."""
    if len(q) < 3 or q[-3] == k[-3] or 1 in (q[-3], k[-3]):
        return 1
    if not k[-3] or q[-3] % k[-3]:
        raise ShapeError(
            "The number of key heads must divide the number of query heads. "
            f"Got {k[-3]} key heads and {q[-3]} query heads."
        )
    return q[-3] // k[-3]


def _is_supported(q: Shape, k: Shape, v: Shape) -> bool:
    """Return whether the primitive supports these shapes: leading axes must not broadcast."""
    if len(q) == 2:
        return True
    if q[:-3] != k[:-3] or k[:-2] != v[:-2]:
        return False
    return q[-3] == k[-3] or (k[-3] > 0 and q[-3] % k[-3] == 0)


def _fold_heads(x: Any, groups: int) -> Any:
    """Reshape [..., heads, n, d] to [..., heads / groups, groups * n, d]: larger matrices."""
    if groups == 1:
        return x
    *lead, heads, n, d = x.shape
    return reshape_p(x, shape=(*lead, heads // groups, groups * n, d))


def _unfold_heads(x: Any, groups: int) -> Any:
    if groups == 1:
        return x
    *lead, heads, n, d = x.shape
    return reshape_p(x, shape=(*lead, heads * groups, n // groups, d))


def rotary_embedding(
    x: Any, positions: Any = None, base: float = 10000.0, name: str | None = None
) -> Any:
    """Rotate pairs of features of `x[..., length, depth]` by angles proportional to the position.

    Features i and i + depth / 2 form a pair; its angle is `position / base ** (2 i / depth)`.
    `positions` default to 0, 1, 2, ... and broadcast against `x[..., length]`.

    >>> y = rotary_embedding([[1.0, 0.0], [1.0, 0.0]]).numpy()
    >>> [f"{number:.3f}" for number in y[1]]
    ['0.540', '0.841']
    """
    x = as_operand(x)
    if len(x.shape) < 2 or x.shape[-1] % 2:
        raise ShapeError(
            f"rotary_embedding takes [..., length, depth] with an even depth. Got shape {x.shape}."
        )
    length, half = x.shape[-2], x.shape[-1] // 2
    positions = as_operand(np.arange(length) if positions is None else positions)
    # In float64: angles at large positions are many turns, and only the remainder matters.
    positions = cast(reshape_p(positions, shape=(*positions.shape, 1)), "float64")
    angles = positions * (base ** (-np.arange(half) / half))
    cosine, sine = cast(cos(angles), x.dtype), cast(sin(angles), x.dtype)
    lead = (slice(None),) * (len(x.shape) - 1)
    first = slice_p(x, index=(*lead, slice(0, half)))
    second = slice_p(x, index=(*lead, slice(half, 2 * half)))
    return concat([first * cosine - second * sine, second * cosine + first * sine], -1)
