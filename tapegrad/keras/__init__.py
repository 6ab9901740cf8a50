"""Models, layers and training with the names and defaults of Keras 3.

from tapegrad import keras

model = keras.Sequential([keras.layers.Dense(128, "relu"), keras.layers.Dense(10)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(images, labels, epochs=5)
"""

from typing import TYPE_CHECKING, Any

from tapegrad.autodiff.custom_gradient import recompute_grad as remat
from tapegrad.core.exports import list_exports as _list_exports
from tapegrad.core.values.device import device
from tapegrad.keras import (
    activations,
    backend,
    callbacks,
    config,
    constraints,
    datasets,
    distribution,
    initializers,
    layers,
    losses,
    metrics,
    mixed_precision,
    models,
    ops,
    optimizers,
    preprocessing,
    random,
    regularizers,
    saving,
    tree,
    utils,
)
from tapegrad.keras.absent import absent_name as _absent_name
from tapegrad.keras.dtype_policies import DTypePolicy, FloatDTypePolicy
from tapegrad.keras.initializers import Initializer
from tapegrad.keras.layers.input_layer import Input
from tapegrad.keras.layers.input_spec import InputSpec
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.losses import Loss
from tapegrad.keras.metrics import Metric
from tapegrad.keras.models.model import Model
from tapegrad.keras.models.sequential import Sequential
from tapegrad.keras.naming import clear_session, name_scope
from tapegrad.keras.optimizers import Optimizer
from tapegrad.keras.own_operation import Operation
from tapegrad.keras.regularizers import Regularizer
from tapegrad.keras.symbolic import KerasTensor
from tapegrad.keras.variable import Variable
from tapegrad.keras.version import __version__, version

__all__ = [
    "DTypePolicy", "FloatDTypePolicy", "Initializer", "Input", "InputSpec", "KerasTensor", "Layer",
    "Loss", "Metric", "Model", "Operation", "Optimizer", "Regularizer", "Sequential", "Variable",
    "__version__", "activations", "backend", "callbacks", "clear_session", "config", "constraints",
    "datasets", "device", "distribution", "initializers", "layers", "losses", "metrics",
    "mixed_precision", "models", "name_scope", "ops", "optimizers", "preprocessing", "random",
    "regularizers", "remat", "saving", "tree", "utils", "version",
]  # fmt: skip

_list_exports(globals())


if not TYPE_CHECKING:  # a checker shall see which names there are

    def __getattr__(name: str) -> Any:
        raise _absent_name("keras", name, __all__)
