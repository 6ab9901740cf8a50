"""The functions and classes that Keras expects of a backend."""

from keras.src.backend.common.name_scope import name_scope

import tapegrad
from keras_tapegrad.backend import core, image, linalg, math, nn, numpy, random
from keras_tapegrad.backend.core import (
    IS_THREAD_SAFE,
    SUPPORTS_COMPLEX_DTYPES,
    SUPPORTS_RAGGED_TENSORS,
    SUPPORTS_SPARSE_TENSORS,
    Variable,
    cast,
    compute_output_spec,
    cond,
    convert_to_numpy,
    convert_to_tensor,
    device_scope,
    is_tensor,
    random_seed_dtype,
    shape,
    vectorized_map,
)
from keras_tapegrad.backend.rnn import (
    bidirectional_gru,
    bidirectional_lstm,
    cudnn_ok,
    gru,
    lstm,
    rnn,
)
from keras_tapegrad.backend.signatures import without_annotations

__all__ = [
    "IS_THREAD_SAFE",
    "SUPPORTS_COMPLEX_DTYPES",
    "SUPPORTS_RAGGED_TENSORS",
    "SUPPORTS_SPARSE_TENSORS",
    "Variable",
    "bidirectional_gru",
    "bidirectional_lstm",
    "cast",
    "compute_output_spec",
    "cond",
    "convert_to_numpy",
    "convert_to_tensor",
    "core",
    "cudnn_ok",
    "device_scope",
    "gru",
    "image",
    "is_tensor",
    "linalg",
    "lstm",
    "math",
    "name_scope",
    "nn",
    "numpy",
    "random",
    "random_seed_dtype",
    "rnn",
    "shape",
    "vectorized_map",
]

without_annotations(core, image, linalg, math, nn, numpy)

# `tapegrad.keras` is Keras itself with this backend. The imports above have set it to the embedded
# namespace; the next use imports Keras.
vars(tapegrad).pop("keras", None)
