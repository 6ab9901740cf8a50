"""ViT: an encoder of images that reads them as patches."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ShapeError
from tapegrad.hub.bert import Intermediate, Pooler, SelfAttention
from tapegrad.keras.layers import Conv2D, Dense, Dropout, Layer, LayerNormalization
from tapegrad.keras.models import Model
from tapegrad.ops.casting.promotion import operand
from tapegrad.ops.shape.joining import concat
from tapegrad.ops.shape.primitives import broadcast_p, reshape_p


class PatchEmbeddings(Layer):
    """Vectors of the patches of images, shape (batch, height, width, channels)."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        patch = config.get("patch_size", 16)
        self.projection = Conv2D(config["hidden_size"], patch, strides=patch, padding="valid")

    def call(self, images: Any) -> Any:
        found = self.projection(images)
        return reshape_p(found, shape=(found.shape[0], -1, found.shape[3]))


class Embeddings(Layer):
    """Patches behind a vector of the class, with the embeddings of their places."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width = config["hidden_size"]
        self.count = (config.get("image_size", 224) // config.get("patch_size", 16)) ** 2
        self.cls_token = self.add_weight(name="cls_token", shape=(1, 1, width))
        self.position_embeddings = self.add_weight(
            name="position_embeddings", shape=(1, self.count + 1, width)
        )
        self.patch_embeddings = PatchEmbeddings(config)
        self.dropout = Dropout(config.get("hidden_dropout_prob", 0.0))

    def call(self, images: Any, training: Any = None) -> Any:
        patches = self.patch_embeddings(images)
        batch, _, width = patches.shape
        first = broadcast_p(self.cls_token.read_value(), shape=(batch, 1, width))
        found = concat([first, patches], 1) + self.position_embeddings
        return self.dropout(found, training=training)


class Projection(Layer):
    """One dense layer; `dense` is its name in the files."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.dense, self.dropout = Dense(width), Dropout(dropout)

    def call(self, x: Any, training: Any = None) -> Any:
        return self.dropout(self.dense(x), training=training)


class Attention(Layer):
    """Attention and its projection."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.attention = SelfAttention(config)
        dropout = config.get("hidden_dropout_prob", 0.0)
        self.output_layer = Projection(config["hidden_size"], dropout)

    def call(self, x: Any, training: Any = None) -> Any:
        return self.output_layer(self.attention(x), training=training)


class Block(Layer):
    """Attention and dense layers, each behind a norm and beside the identity."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        eps = config.get("layer_norm_eps", 1e-12)
        self.layernorm_before = LayerNormalization(epsilon=eps)
        self.layernorm_after = LayerNormalization(epsilon=eps)
        self.attention, self.intermediate = Attention(config), Intermediate(config)
        dropout = config.get("hidden_dropout_prob", 0.0)
        self.output_layer = Projection(config["hidden_size"], dropout)

    def call(self, x: Any, training: Any = None) -> Any:
        x = x + self.attention(self.layernorm_before(x), training=training)
        wide = self.intermediate(self.layernorm_after(x))
        return x + self.output_layer(wide, training=training)


class Encoder(Layer):
    """All blocks."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.layer = [Block(config) for _ in range(config["num_hidden_layers"])]

    def call(self, x: Any, training: Any = None) -> Any:
        for block in self.layer:
            x = block(x, training=training)
        return x


class ViT(Model):
    """From images, shape (batch, height, width, channels), to the result of its head.

    `head` is "hidden" for the last hidden states, "pooled" for the pooled first place, or "classes"
    for logits.

    >>> config = {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2,
    ...           "intermediate_size": 8, "image_size": 4, "patch_size": 2}
    >>> import numpy as np
    >>> tuple(ViT(config, "classes", 3)(np.zeros((1, 4, 4, 3), "float32")).shape)
    (1, 3)
    """

    prefix = "vit."
    ignored = r"embeddings\.mask_token"

    def __init__(self, config: dict[str, Any], head: str = "hidden", labels: int = 2) -> None:
        super().__init__()
        self.config, self.head = config, head
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.layernorm = LayerNormalization(epsilon=config.get("layer_norm_eps", 1e-12))
        self.pooler = Pooler(config) if head == "pooled" else None
        self.classifier = Dense(labels) if head == "classes" else None

    def call(self, images: Any, training: Any = None) -> Any:
        images = operand(images)
        side = self.config.get("image_size", 224)
        if tuple(images.shape[1:3]) != (side, side):
            raise ShapeError(
                f"The model reads images of shape (batch, {side}, {side}, channels). "
                f"Got {images.shape}."
            )
        x = self.embeddings(images, training=training)
        x = self.layernorm(self.encoder(x, training=training))
        if self.pooler is not None:
            return self.pooler(x)
        return x if self.classifier is None else self.classifier(x[:, 0])
