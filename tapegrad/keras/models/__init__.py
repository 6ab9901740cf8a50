"""Models, under Keras' names."""

from typing import TYPE_CHECKING, Any as _Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.keras.absent import absent_name as _absent_name
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

# Not the methods that each step calls.
_METHODS = """
    add add_weight build compile compile_from_config compute_output_shape evaluate fit from_config
    get_layer load_weights predict predict_on_batch save save_weights set_weights summary
    test_on_batch to_json train_on_batch
"""
_check_calls(globals(), __all__, _METHODS.split())

# Python's errors name a method by its class: users know Model, not the classes it is made of.
for _name in ("compile", "evaluate", "fit", "predict", "train_on_batch", "test_on_batch"):
    getattr(Model, _name).__qualname__ = f"Model.{_name}"


if not TYPE_CHECKING:  # a checker shall see which names there are

    def __getattr__(name: str) -> _Any:
        raise _absent_name("keras.models", name, __all__)
