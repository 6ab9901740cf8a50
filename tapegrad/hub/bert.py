"""BERT: an encoder of texts, with the heads of its files: pooler, masked words, classification."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.errors import ShapeError
from tapegrad.hub.transformer import activation, attend, split_heads
from tapegrad.keras.layers import Dense, Dropout, Embedding, Layer, LayerNormalization
from tapegrad.keras.models import Model
from tapegrad.ops.casting.promotion import operand
from tapegrad.ops.creation import as_constant, zeros_like
from tapegrad.ops.elementwise.trigonometric import tanh
from tapegrad.ops.shape.primitives import reshape_p


class Embeddings(Layer):
    """The sum of the embeddings of words, places and segments."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width = config["hidden_size"]
        self.word_embeddings = Embedding(config["vocab_size"], width)
        self.position_embeddings = Embedding(config["max_position_embeddings"], width)
        self.token_type_embeddings = Embedding(config.get("type_vocab_size", 2), width)
        self.LayerNorm = LayerNormalization(epsilon=config.get("layer_norm_eps", 1e-12))
        self.dropout = Dropout(config.get("hidden_dropout_prob", 0.1))

    def call(self, tokens: Any, segments: Any, training: Any = None) -> Any:
        places = as_constant(np.arange(int(tokens.shape[1])))
        found = self.word_embeddings(tokens) + self.token_type_embeddings(segments)
        found = self.LayerNorm(found + self.position_embeddings(places))
        return self.dropout(found, training=training)


class Output(Layer):
    """A dense layer, added to what went around, behind a norm."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.dense = Dense(config["hidden_size"])
        self.LayerNorm = LayerNormalization(epsilon=config.get("layer_norm_eps", 1e-12))
        self.dropout = Dropout(config.get("hidden_dropout_prob", 0.1))

    def call(self, x: Any, around: Any, training: Any = None) -> Any:
        return self.LayerNorm(self.dropout(self.dense(x), training=training) + around)


class SelfAttention(Layer):
    """Attention of all places to those that the mask allows."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width, has_bias = config["hidden_size"], config.get("qkv_bias", True)
        self.heads = config["num_attention_heads"]
        self.query = Dense(width, use_bias=has_bias)
        self.key = Dense(width, use_bias=has_bias)
        self.value = Dense(width, use_bias=has_bias)

    def call(self, x: Any, allowed: Any = None) -> Any:
        queries, keys = split_heads(self.query(x), self.heads), split_heads(self.key(x), self.heads)
        return attend(queries, keys, split_heads(self.value(x), self.heads), allowed)


class Attention(Layer):
    """Attention and its output; `self` is the name in the files."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.self = SelfAttention(config)
        self.output_layer = Output(config)

    def call(self, x: Any, allowed: Any, training: Any = None) -> Any:
        return self.output_layer(self.self(x, allowed), x, training=training)


class Intermediate(Layer):
    """The wide dense layer and its activation."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.dense = Dense(config["intermediate_size"])
        self.activation = activation(config.get("hidden_act", "gelu"))

    def call(self, x: Any) -> Any:
        return self.activation(self.dense(x))


class Block(Layer):
    """Attention and dense layers."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.intermediate, self.output_layer = Intermediate(config), Output(config)

    def call(self, x: Any, allowed: Any, training: Any = None) -> Any:
        x = self.attention(x, allowed, training=training)
        return self.output_layer(self.intermediate(x), x, training=training)


class Encoder(Layer):
    """All blocks."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.layer = [Block(config) for _ in range(config["num_hidden_layers"])]

    def call(self, x: Any, allowed: Any, training: Any = None) -> Any:
        for block in self.layer:
            x = block(x, allowed, training=training)
        return x


class Pooler(Layer):
    """A dense layer on the first place."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.dense = Dense(config["hidden_size"])

    def call(self, x: Any) -> Any:
        return tanh(self.dense(x[:, 0]))


class Transform(Layer):
    """The layer before the logits of masked words."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.dense = Dense(config["hidden_size"])
        self.LayerNorm = LayerNormalization(epsilon=config.get("layer_norm_eps", 1e-12))
        self.activation = activation(config.get("hidden_act", "gelu"))

    def call(self, x: Any) -> Any:
        return self.LayerNorm(self.activation(self.dense(x)))


class Predictions(Layer):
    """Logits of masked words, whose matrix is mostly that of the word embeddings."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.transform = Transform(config)
        self.decoder = None
        if config.get("tie_word_embeddings", True):
            shape = (config["vocab_size"],)
            self.bias = self.add_weight(name="bias", shape=shape, initializer="zeros")
        else:
            self.decoder = Dense(config["vocab_size"])

    def call(self, x: Any, words: Any) -> Any:
        x = self.transform(x)
        return x @ words.transpose() + self.bias if self.decoder is None else self.decoder(x)


class Heads(Layer):
    """The heads of pretraining, of which only `predictions` computes here."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.predictions = Predictions(config)

    def call(self, x: Any, words: Any) -> Any:
        return self.predictions(x, words)


class Bert(Model):
    """From token numbers, shape (batch, places), to the result of its head.

    `head` is "hidden" for the last hidden states, "pooled" for the pooled first place,
    "masked_words" for logits of words, "classes" for logits of classes, "token_classes" for those
    of each token, or "answers" for logits of the first and the last token of an answer.

    >>> config = {"vocab_size": 11, "hidden_size": 4, "num_hidden_layers": 1,
    ...           "num_attention_heads": 2, "intermediate_size": 8, "max_position_embeddings": 16}
    >>> tuple(Bert(config, "masked_words")([[1, 2, 3]]).shape)
    (1, 3, 11)
    """

    prefix = "bert."
    ignored = (
        r"embeddings\.position_ids|cls\.seq_relationship\..*"
        r"|cls\.predictions\.decoder\.(weight|bias)"
    )

    def __init__(self, config: dict[str, Any], head: str = "hidden", labels: int = 2) -> None:
        super().__init__()
        self.config, self.head = config, head
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.pooler = Pooler(config) if head in ("pooled", "classes") else None
        self.cls = Heads(config) if head == "masked_words" else None
        if self.cls is not None and self.cls.predictions.decoder is not None:
            self.ignored = self.ignored.replace(r"decoder\.(weight|bias)", "bias")
        self.classifier = Dense(labels) if head in ("classes", "token_classes") else None
        self.qa_outputs = Dense(2) if head == "answers" else None
        self.dropout = Dropout(config.get("hidden_dropout_prob", 0.1))

    def call(
        self, tokens: Any, attention_mask: Any = None, token_type_ids: Any = None,
        training: Any = None,
    ) -> Any:  # fmt: skip
        tokens = operand(tokens)
        most = self.config["max_position_embeddings"]
        if tokens.shape[1] > most:
            raise ShapeError(f"The model reads at most {most} tokens. Got {tokens.shape[1]}.")
        segments = zeros_like(tokens) if token_type_ids is None else operand(token_type_ids)
        allowed = None
        if attention_mask is not None:
            mask = operand(attention_mask)
            allowed = reshape_p(mask, shape=(mask.shape[0], 1, 1, mask.shape[1]))
        x = self.embeddings(tokens, segments, training=training)
        x = self.encoder(x, allowed, training=training)
        if self.cls is not None:
            return self.cls(x, self.embeddings.word_embeddings.embeddings)
        if self.classifier is not None and self.head == "token_classes":
            return self.classifier(self.dropout(x, training=training))
        if self.qa_outputs is not None:
            return self.qa_outputs(x)
        if self.pooler is None:
            return x
        pooled = self.pooler(x)
        if self.classifier is None:
            return pooled
        return self.classifier(self.dropout(pooled, training=training))
