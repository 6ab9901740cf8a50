"""Models, under Keras' names."""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.keras.models.cloning import clone_model
from tapegrad.keras.models.functional import Functional
from tapegrad.keras.models.model import Model
from tapegrad.keras.models.sequential import Sequential
from tapegrad.keras.saving.model_file import load_model, model_from_json, save_model

__all__ = [
    "Functional",
    "Model",
    "Sequential",
    "clone_model",
    "load_model",
    "model_from_json",
    "save_model",
]

_check_calls(globals(), __all__, ("compile", "evaluate", "fit", "predict", "train_on_batch"))
