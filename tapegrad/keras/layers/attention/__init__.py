"""Attention layers and rotary position embeddings."""

from tapegrad.keras.layers.attention.dot_attention import AdditiveAttention, Attention
from tapegrad.keras.layers.attention.grouped_query import GroupQueryAttention
from tapegrad.keras.layers.attention.multi_head import MultiHeadAttention
from tapegrad.keras.layers.attention.rotary import RotaryEmbedding

__all__ = [
    "AdditiveAttention",
    "Attention",
    "GroupQueryAttention",
    "MultiHeadAttention",
    "RotaryEmbedding",
]
