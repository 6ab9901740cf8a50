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
    datasets,
    initializers,
    layers,
    losses,
    metrics,
    mixed_precision,
    models,
    ops,
    optimizers,
    random,
    regularizers,
    saving,
    utils,
)
from tapegrad.keras.dtype_policies import DTypePolicy
from tapegrad.keras.initializers import Initializer
from tapegrad.keras.layers.input_layer import Input
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.losses import Loss
from tapegrad.keras.metrics import Metric
from tapegrad.keras.models.model import Model
from tapegrad.keras.models.sequential import Sequential
from tapegrad.keras.naming import clear_session
from tapegrad.keras.optimizers import Optimizer
from tapegrad.keras.regularizers import Regularizer
from tapegrad.keras.symbolic import KerasTensor

__all__ = [
    "DTypePolicy", "Initializer", "Input", "KerasTensor", "Layer", "Loss", "Metric", "Model",
    "Optimizer", "Regularizer", "Sequential", "activations", "backend", "callbacks",
    "clear_session", "config", "constraints", "datasets", "initializers", "layers", "losses",
    "metrics", "mixed_precision", "models", "ops", "optimizers", "random", "regularizers", "saving",
    "utils",
]  # fmt: skip
