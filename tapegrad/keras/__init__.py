"""Models, layers and training with the names and defaults of Keras 3.

from tapegrad import keras

model = keras.Sequential([keras.layers.Dense(128, "relu"), keras.layers.Dense(10)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(images, labels, epochs=5)
"""

from tapegrad.keras import (
    activations,
    backend,
    callbacks,
    config,
    constraints,
    initializers,
    layers,
    losses,
    metrics,
    mixed_precision,
    models,
    optimizers,
    regularizers,
    saving,
    utils,
)
from tapegrad.keras.dtype_policies import DTypePolicy
from tapegrad.keras.layers.input_layer import Input
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.models.model import Model
from tapegrad.keras.models.sequential import Sequential
from tapegrad.keras.naming import clear_session
from tapegrad.keras.symbolic import KerasTensor

__all__ = [
    "DTypePolicy",
    "Input",
    "KerasTensor",
    "Layer",
    "Model",
    "Sequential",
    "activations",
    "backend",
    "callbacks",
    "clear_session",
    "config",
    "constraints",
    "initializers",
    "layers",
    "losses",
    "metrics",
    "mixed_precision",
    "models",
    "optimizers",
    "regularizers",
    "saving",
    "utils",
]
