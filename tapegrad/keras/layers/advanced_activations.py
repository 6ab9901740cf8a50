"""The module of Keras 2 from which programs import activations with parameters."""

from __future__ import annotations

from tapegrad.keras.layers.activation_layers import ELU, LeakyReLU, PReLU, ReLU, Softmax

__all__ = ["ELU", "LeakyReLU", "PReLU", "ReLU", "Softmax"]
