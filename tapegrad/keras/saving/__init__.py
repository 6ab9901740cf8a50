"""Save and load models, weights and checkpoints, and register custom objects."""

from typing import TYPE_CHECKING, Any as _Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.keras.absent import absent_name as _absent_name
from tapegrad.keras.registry import (
    custom_object_scope,
    custom_object_scope as CustomObjectScope,  # noqa: N812  # the name in Keras
    get_custom_objects,
    get_registered_name,
    get_registered_object,
    register_keras_serializable,
)
from tapegrad.keras.saving.model_file import load_model, save_model
from tapegrad.keras.saving.objects import deserialize_keras_object, serialize_keras_object
from tapegrad.keras.saving.tensor_file import TensorFile, write_tensors
from tapegrad.keras.saving.weights import load_weights, save_weights

__all__ = [
    "CustomObjectScope",
    "TensorFile",
    "custom_object_scope",
    "deserialize_keras_object",
    "get_custom_objects",
    "get_registered_name",
    "get_registered_object",
    "load_model",
    "load_weights",
    "register_keras_serializable",
    "save_model",
    "save_weights",
    "serialize_keras_object",
    "write_tensors",
]

_check_calls(globals(), __all__)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> _Any:
        raise _absent_name("keras.saving", name, __all__)
