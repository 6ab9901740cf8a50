"""Plots of models and training histories, and data helpers, with the names of Keras."""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.keras.batch_data import (
    PyDataset,
    PyDataset as Sequence,
    pack as pack_x_y_sample_weight,
    unpack as unpack_x_y_sample_weight,
)
from tapegrad.keras.naming import clear_session
from tapegrad.keras.registry import (
    custom_object_scope,
    get_registered_name,
    get_registered_object,
    register_keras_serializable,
)
from tapegrad.keras.utils.arrays import normalize, pad_sequences, to_categorical
from tapegrad.keras.utils.get_file import get_file
from tapegrad.keras.utils.history_plot import plot_history
from tapegrad.keras.utils.model_plot import plot_model
from tapegrad.keras.utils.picture import Picture
from tapegrad.keras.utils.randomness import set_random_seed
from tapegrad.keras.utils.splitting import split_dataset

__all__ = [
    "Picture",
    "PyDataset",
    "Sequence",
    "clear_session",
    "custom_object_scope",
    "get_file",
    "get_registered_name",
    "get_registered_object",
    "normalize",
    "pack_x_y_sample_weight",
    "pad_sequences",
    "plot_history",
    "plot_model",
    "register_keras_serializable",
    "set_random_seed",
    "split_dataset",
    "to_categorical",
    "unpack_x_y_sample_weight",
]

_check_calls(globals(), __all__)
