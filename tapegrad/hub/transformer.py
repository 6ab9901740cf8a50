"""What the transformers share: attention with heads, activations by name, options with defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.keras import activations
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.elementwise.sigmoids import sigmoid
from tapegrad.ops.nn.softmax import softmax
from tapegrad.ops.shape.functions import permute_dims
from tapegrad.ops.shape.primitives import reshape_p


def _quick_gelu(x: Any) -> Any:
    return x * sigmoid(1.702 * x)


_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "gelu": lambda x: activations.gelu(x),
    "gelu_new": lambda x: activations.gelu(x, approximate=True),
    "gelu_pytorch_tanh": lambda x: activations.gelu(x, approximate=True),
    "quick_gelu": _quick_gelu,
    "relu": lambda x: activations.relu(x),
    "silu": lambda x: activations.silu(x),
    "swish": lambda x: activations.silu(x),
    "tanh": lambda x: activations.tanh(x),
}


def activation(name: str) -> Callable[[Any], Any]:
    """Return the activation of a configuration.

    >>> float(activation("relu")(-1.0))
    0.0
    """
    if name not in _ACTIVATIONS:
        raise ArgumentError(
            f"The activation {name!r} of config.json is not supported. Supported are "
            f"{', '.join(sorted(_ACTIVATIONS))}."
        )
    return _ACTIVATIONS[name]


def split_heads(x: Any, heads: int) -> Any:
    """Return (batch, places, width) as (batch, heads, places, width / heads)."""
    batch, places, width = x.shape
    return permute_dims(reshape_p(x, shape=(batch, places, heads, width // heads)), [0, 2, 1, 3])


def attend(queries: Any, keys: Any, values: Any, allowed: Any = None) -> Any:
    """Return softmax(q k / sqrt(width)) v with heads joined; places are seen where `allowed`."""
    scores = queries @ permute_dims(keys, [0, 1, 3, 2]) * float(queries.shape[-1]) ** -0.5
    if allowed is not None:
        scores = where(cast(allowed, "bool"), scores, -1e30)
    found = permute_dims(softmax(scores) @ values, [0, 2, 1, 3])
    batch, places, heads, width = found.shape
    return reshape_p(found, shape=(batch, places, heads * width))
