"""Plots of models and training histories, and data helpers, with the names of Keras."""

from typing import TYPE_CHECKING, Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.keras.absent import absent_name as _absent_name
from tapegrad.keras.backend.values import standardize_dtype
from tapegrad.keras.batch_data import (
    PyDataset,
    PyDataset as Sequence,
    pack as pack_x_y_sample_weight,
    unpack as unpack_x_y_sample_weight,
)
from tapegrad.keras.config import (
    disable_interactive_logging,
    enable_interactive_logging,
    is_interactive_logging_enabled,
)
from tapegrad.keras.naming import clear_session
from tapegrad.keras.registry import (
    custom_object_scope,
    custom_object_scope as CustomObjectScope,  # noqa: N812  # the name in Keras
    get_custom_objects,
    get_registered_name,
    get_registered_object,
    register_keras_serializable,
)
from tapegrad.keras.saving.objects import deserialize_keras_object, serialize_keras_object
from tapegrad.keras.symbolic import get_source_inputs, is_keras_tensor
from tapegrad.keras.utils import bounding_boxes
from tapegrad.keras.utils.arrays import normalize, pad_sequences, to_categorical
from tapegrad.keras.utils.audio_dataset import audio_dataset_from_directory
from tapegrad.keras.utils.get_file import get_file
from tapegrad.keras.utils.history_plot import plot_history
from tapegrad.keras.utils.image_dataset import image_dataset_from_directory
from tapegrad.keras.utils.images import array_to_img, img_to_array, load_img, save_img
from tapegrad.keras.utils.model_plot import plot_model
from tapegrad.keras.utils.picture import Picture
from tapegrad.keras.utils.progbar import Progbar
from tapegrad.keras.utils.randomness import set_random_seed
from tapegrad.keras.utils.splitting import split_dataset
from tapegrad.keras.utils.text_dataset import text_dataset_from_directory
from tapegrad.keras.utils.timeseries import timeseries_dataset_from_array

__all__ = [
    "CustomObjectScope",
    "Picture",
    "Progbar",
    "PyDataset",
    "Sequence",
    "array_to_img",
    "bounding_boxes",
    "clear_session",
    "custom_object_scope",
    "deserialize_keras_object",
    "disable_interactive_logging",
    "enable_interactive_logging",
    "get_custom_objects",
    "get_file",
    "get_registered_name",
    "get_registered_object",
    "get_source_inputs",
    "image_dataset_from_directory",
    "img_to_array",
    "is_interactive_logging_enabled",
    "is_keras_tensor",
    "load_img",
    "normalize",
    "pack_x_y_sample_weight",
    "pad_sequences",
    "plot_history",
    "plot_model",
    "register_keras_serializable",
    "save_img",
    "serialize_keras_object",
    "set_random_seed",
    "split_dataset",
    "standardize_dtype",
    "audio_dataset_from_directory",
    "text_dataset_from_directory",
    "timeseries_dataset_from_array",
    "to_categorical",
    "unpack_x_y_sample_weight",
]

_check_calls(globals(), __all__)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise _absent_name("keras.utils", name, __all__)
