"""keras.backend: tensor functions under the names of earlier Keras versions.

from tapegrad.keras import backend as K

def rmse(y_true, y_pred):
    return K.sqrt(K.mean(K.square(y_pred - y_true), axis=-1))
"""

from importlib import import_module
from typing import Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.keras.absent import absent_name
from tapegrad.keras.backend.values import (
    get_uid,
    int_shape,
    is_float_dtype,
    is_int_dtype,
    standardize_dtype,
)
from tapegrad.keras.config import (
    backend,
    epsilon,
    floatx,
    image_data_format,
    set_epsilon,
    set_floatx,
    set_image_data_format,
)
from tapegrad.keras.naming import clear_session, name_scope
from tapegrad.keras.symbolic import KerasTensor, is_keras_tensor
from tapegrad.keras.variable import Variable

# Functions whose arguments or results differ from those of tapegrad, by their module.
_OWN = {
    "arrays": "all any arange argmax argmin batch_dot batch_flatten binary_crossentropy "
    "binary_focal_crossentropy categorical_focal_crossentropy clip concatenate constant cumprod "
    "dot expand_dims flatten hard_sigmoid in_top_k mean one_hot permute_dimensions relu repeat "
    "repeat_elements reverse softmax sqrt squeeze std stop_gradient tile transpose var",
    "draws": "dropout random_bernoulli random_normal random_normal_variable random_uniform "
    "random_uniform_variable truncated_normal",
    "layers": "batch_normalization bias_add conv1d conv2d conv2d_transpose conv3d depthwise_conv2d "
    "pool2d pool3d resize_images resize_volumes separable_conv2d spatial_2d_padding "
    "spatial_3d_padding temporal_padding",
    "models": "function in_test_phase in_train_phase learning_phase placeholder",
    "recurrence": "rnn",
    "values": "batch_get_value batch_set_value cast_to_floatx count_params dtype eye get_value "
    "is_sparse moving_average_update ndim ones print_tensor set_value switch to_dense update "
    "update_add update_sub variable zeros",
}
# Functions of tapegrad.
_OTHERS = {
    "tapegrad.keras.ctc_functions": "ctc_batch_cost ctc_decode ctc_label_dense_to_sparse",
    "tapegrad.keras.ops": "categorical_crossentropy sparse_categorical_crossentropy",
    "tapegrad.math": "l2_normalize log logsumexp=reduce_logsumexp pow softplus softsign",
    "tapegrad.nn": "elu",
    "tapegrad": "abs cast convert_to_tensor cos cumsum equal exp foldl foldr gather greater "
    "greater_equal is_tensor less less_equal map_fn max=reduce_max maximum min=reduce_min minimum "
    "not_equal ones_like prod=reduce_prod reshape round shape sigmoid sign sin square stack "
    "sum=reduce_sum tanh zeros_like",
}
_ALIASES = {"eval": "get_value", "random_binomial": "random_bernoulli"}
_PLACES = {
    name.partition("=")[0]: (place, name.rpartition("=")[2])
    for place, names in [*((f"{__name__}.{own}", _OWN[own]) for own in _OWN), *_OTHERS.items()]
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    wanted = _ALIASES.get(name, name)
    if wanted not in _PLACES:
        raise absent_name("keras.backend", name, __all__)
    # On first use: the module of layers imports half of Keras.
    place, name_there = _PLACES[wanted]
    found = globals()[name] = getattr(import_module(place), name_there)
    _check_calls(globals(), (name,))
    return found


__all__ = [
    "KerasTensor",
    "Variable",
    "backend",
    "clear_session",
    "epsilon",
    "floatx",
    "get_uid",
    "image_data_format",
    "int_shape",
    "is_float_dtype",
    "is_int_dtype",
    "is_keras_tensor",
    "name_scope",
    "set_epsilon",
    "set_floatx",
    "set_image_data_format",
    "standardize_dtype",
]
_check_calls(globals(), __all__)
__all__ += [name for names in _OWN.values() for name in names.split()]
