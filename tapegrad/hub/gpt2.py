"""GPT-2: a decoder with a language model head that shares the embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.errors import ShapeError
from tapegrad.hub.placing import Conv1D
from tapegrad.hub.transformer import activation, attend, split_heads
from tapegrad.keras.layers import Dense, Dropout, Embedding, Layer, LayerNormalization
from tapegrad.keras.models import Model
from tapegrad.ops.casting.promotion import operand
from tapegrad.ops.creation import as_constant
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.shape.functions import expand_dims
from tapegrad.ops.shape.joining import split
from tapegrad.ops.shape.padding import pad
from tapegrad.ops.shape.primitives import reshape_p

Cache = list[tuple[Any, Any]]
"""Keys and values of each block, shape (batch, heads, places, width)."""


class Attention(Layer):
    """Causal attention; with a cache, the new places also see all places before them."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = Conv1D(3 * width), Conv1D(width)
        self.dropout = Dropout(dropout)

    def call(
        self, x: Any, allowed: Any, past: Any = None, is_new: Any = None, training: Any = None
    ) -> Any:
        queries, keys, values = [
            split_heads(one, self.heads) for one in split(self.c_attn(x), 3, -1)
        ]
        if past is not None:
            keys, values = where(is_new, keys, past[0]), where(is_new, values, past[1])
        found = self.c_proj(attend(queries, keys, values, allowed))
        return self.dropout(found, training=training), (keys, values)


class MLP(Layer):
    """The two dense layers of a block."""

    def __init__(self, width: int, inner: int, name: str, dropout: float) -> None:
        super().__init__()
        self.c_fc, self.c_proj = Conv1D(inner), Conv1D(width)
        self.activation, self.dropout = activation(name), Dropout(dropout)

    def call(self, x: Any, training: Any = None) -> Any:
        return self.dropout(self.c_proj(self.activation(self.c_fc(x))), training=training)


class Block(Layer):
    """Attention and dense layers, each behind a norm and beside the identity."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width, eps = config["n_embd"], config.get("layer_norm_epsilon", 1e-5)
        dropout = config.get("resid_pdrop", 0.1)
        self.ln_1, self.ln_2 = LayerNormalization(epsilon=eps), LayerNormalization(epsilon=eps)
        self.attn = Attention(width, config["n_head"], dropout)
        inner = config.get("n_inner") or 4 * width
        self.mlp = MLP(width, inner, config.get("activation_function", "gelu_new"), dropout)

    def call(
        self, x: Any, allowed: Any, past: Any = None, is_new: Any = None, training: Any = None
    ) -> Any:
        found, kept = self.attn(self.ln_1(x), allowed, past, is_new, training=training)
        x = x + found
        return x + self.mlp(self.ln_2(x), training=training), kept


class GPT2(Model):
    """From token numbers, shape (batch, places), to logits of the next tokens.

    With the head "hidden" it returns the last hidden states.

    >>> config = {"vocab_size": 11, "n_positions": 8, "n_embd": 4, "n_layer": 1, "n_head": 2}
    >>> tuple(GPT2(config)([[1, 2, 3]]).shape)
    (1, 3, 11)
    """

    prefix = "transformer."
    ignored = r"h\.\d+\.attn\.(bias|masked_bias)|lm_head\.weight"

    def __init__(self, config: dict[str, Any], head: str = "words") -> None:
        super().__init__()
        self.config, self.head = config, head
        width = config["n_embd"]
        self.wte = Embedding(config["vocab_size"], width)
        self.wpe = Embedding(config["n_positions"], width)
        self.drop = Dropout(config.get("embd_pdrop", 0.1))
        self.h = [Block(config) for _ in range(config["n_layer"])]
        self.ln_f = LayerNormalization(epsilon=config.get("layer_norm_epsilon", 1e-5))
        self.lm_head = None
        if head == "words" and not config.get("tie_word_embeddings", True):
            self.lm_head = Dense(config["vocab_size"], use_bias=False)
            self.ignored = r"h\.\d+\.attn\.(bias|masked_bias)"

    def call(self, tokens: Any, training: Any = None) -> Any:
        found = self._through(tokens, training)[0]
        return self.ln_f(found) if self.head == "hidden" else self._logits(found)

    def _through(self, tokens: Any, training: Any = None) -> tuple[Any, Cache]:
        """Return the last hidden states, and the keys and values of all blocks."""
        tokens = operand(tokens)
        count = int(tokens.shape[1])
        self._check_length(count)
        x = self.wte(tokens) + self.wpe(as_constant(np.arange(count)))
        x = self.drop(x, training=training)
        allowed = as_constant(np.tril(np.ones((count, count), bool)))
        kept: Cache = []
        for block in self.h:
            x, pair = block(x, allowed, training=training)
            kept.append((pair[0], pair[1]))
        return x, kept

    def first_logits(self, tokens: Any, places: int) -> tuple[Any, Cache]:
        """Return the logits after tokens (batch, count), and a cache for `places` tokens."""
        self._check_length(places)
        x, kept = self._through(tokens)
        rest = ((0, 0), (0, 0), (0, places - int(x.shape[1])), (0, 0))
        cache = [(pad(keys, rest), pad(values, rest)) for keys, values in kept]
        return self._logits(x[:, -1]), cache

    def next_logits(self, tokens: Any, place: Any, cache: Cache) -> tuple[Any, Cache]:
        """Return the logits after one more token per text, and the cache with it.

        `tokens` has shape (batch,), and `place` is the number of tokens before, which may be a
        tensor: a recorded function serves all places.
        """
        tokens, place = operand(tokens), operand(place)
        places = as_constant(np.arange(cache[0][0].shape[2]))
        is_new = reshape_p(places == place, shape=(1, 1, -1, 1))
        x = expand_dims(self.wte(tokens) + self.wpe(place), 1)
        kept: Cache = []
        for block, past in zip(self.h, cache, strict=True):
            x, pair = block(x, places <= place, past, is_new)
            kept.append((pair[0], pair[1]))
        return self._logits(x)[:, 0], kept

    def _logits(self, x: Any) -> Any:
        x = self.ln_f(x)
        return x @ self.wte.embeddings.transpose() if self.lm_head is None else self.lm_head(x)

    def _check_length(self, count: int) -> None:
        most = self.config["n_positions"]
        if count > most:
            raise ShapeError(f"The model reads at most {most} tokens. Got {count}.")
