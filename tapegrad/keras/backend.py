"""keras.backend: tensor functions under the names of earlier Keras versions.

from tapegrad.keras import backend as K

def rmse(y_true, y_pred):
    return K.sqrt(K.mean(K.square(y_pred - y_true), axis=-1))
"""

from importlib import import_module
from typing import Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.keras.absent import absent_name
from tapegrad.keras.backend_functions import (
    batch_dot,
    batch_flatten,
    get_uid,
    get_value,
    int_shape,
    is_float_dtype,
    is_int_dtype,
    ndim,
    permute_dimensions,
    repeat_elements,
    set_value,
    standardize_dtype,
    switch,
    variable,
)
from tapegrad.keras.config import (
    backend,
    epsilon,
    floatx,
    image_data_format,
    set_floatx,
    set_image_data_format,
)
from tapegrad.keras.naming import clear_session
from tapegrad.keras.symbolic import KerasTensor, is_keras_tensor
from tapegrad.keras.variable import Variable

_PLACES = {
    "tapegrad.numpy": "all any arange argmax argmin clip concatenate cumprod dot eye log max mean "
    "min prod ravel repeat shape std sum var",
    "tapegrad.nn": "conv2d elu in_top_k l2_normalize relu sigmoid softmax softplus softsign tanh",
    "tapegrad.keras.activations": "hard_sigmoid",
    "tapegrad.keras.ops": "binary_crossentropy categorical_crossentropy dtype logsumexp "
    "sparse_categorical_crossentropy",
    "tapegrad.keras.ctc_functions": "ctc_batch_cost ctc_decode ctc_label_dense_to_sparse",
    "tapegrad.random": "random_normal=normal random_uniform=uniform",
    "tapegrad": "abs cast constant convert_to_tensor cos cumsum equal exp expand_dims "
    "function gather greater greater_equal is_tensor less less_equal map_fn maximum minimum "
    "not_equal one_hot ones ones_like pow reshape reverse round sign sin sqrt square squeeze stack "
    "stop_gradient tile transpose zeros zeros_like",
}
_OTHER_NAMES = {"flatten": "ravel", "eval": "get_value"}


def __getattr__(name: str) -> Any:
    wanted = _OTHER_NAMES.get(name, name)
    if wanted in __all__:
        return globals()[wanted]
    for place, names in _PLACES.items():
        for entry in names.split():
            if entry.partition("=")[0] == wanted:
                return getattr(import_module(place), entry.rpartition("=")[2])
    raise absent_name("keras.backend", name, __all__)


__all__ = [
    "KerasTensor",
    "Variable",
    "backend",
    "batch_dot",
    "batch_flatten",
    "clear_session",
    "epsilon",
    "floatx",
    "get_uid",
    "get_value",
    "image_data_format",
    "int_shape",
    "is_float_dtype",
    "is_int_dtype",
    "is_keras_tensor",
    "ndim",
    "permute_dimensions",
    "repeat_elements",
    "set_floatx",
    "set_image_data_format",
    "set_value",
    "standardize_dtype",
    "switch",
    "variable",
]

_check_calls(globals(), __all__)
