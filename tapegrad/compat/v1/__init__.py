"""TensorFlow's `tf.compat.v1`: names of its first version, as far as they need no graph.

Names that have not changed since are those of tapegrad. Functions run at once: there are no graphs,
sessions and placeholders, and the error for such a name says so.
"""

from __future__ import annotations

import importlib
from functools import reduce
from typing import Any

from tapegrad import lazy
from tapegrad.absent import absence
from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.compat.v1.functions import (
    Print,
    argmax,
    argmin,
    div,
    expand_dims,
    reduce_all,
    reduce_any,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_sum,
    squeeze,
    to_double,
    to_float,
    to_int32,
    to_int64,
)
from tapegrad.compat.v1.session import (
    ConfigProto,
    GPUOptions,
    InteractiveSession,
    Session,
    disable_eager_execution,
    disable_v2_behavior,
    enable_eager_execution,
    enable_v2_behavior,
)
from tapegrad.compat.v1.variables import (
    AUTO_REUSE,
    get_variable,
    global_variables_initializer,
    local_variables_initializer,
    tables_initializer,
    variable_scope,
)
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.values import dtypes
from tapegrad.core.values.device import device
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.tensor_shape import TensorShape
from tapegrad.core.values.variable import Variable
from tapegrad.module import Module

__all__ = [
    "AUTO_REUSE", "ConfigProto", "GPUOptions", "GradientTape", "IndexedSlices",
    "InteractiveSession", "Module", "Print", "Session", "Tensor", "TensorShape", "Variable",
    "argmax", "argmin", "device", "disable_eager_execution", "disable_v2_behavior", "div",
    "enable_eager_execution", "enable_v2_behavior", "expand_dims", "get_variable",
    "global_variables_initializer", "local_variables_initializer", "reduce_all", "reduce_any",
    "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum",
    "squeeze", "tables_initializer", "to_double", "to_float", "to_int32", "to_int64",
    "variable_scope",
]  # fmt: skip

_PARTS = ("data", "gfile", "image", "keras", "logging", "losses", "nn", "train")

# The first version's name -> where tapegrad has it.
_MOVED = {
    "assert_near": "debugging assert_near",
    "assert_non_negative": "debugging assert_non_negative",
    "assert_positive": "debugging assert_positive",
    "assert_type": "debugging assert_type",
    "ceil": "math ceil",
    "check_numerics": "debugging check_numerics",
    "cholesky": "linalg cholesky",
    "confusion_matrix": "math confusion_matrix",
    "conj": "math conj",
    "count_nonzero": "math count_nonzero",
    "cross": "linalg cross",
    "cumprod": "math cumprod",
    "decode_csv": "io decode_csv",
    "decode_raw": "io decode_raw",
    "depth_to_space": "nn depth_to_space",
    "diag": "linalg tensor_diag",
    "diag_part": "linalg tensor_diag_part",
    "digamma": "math digamma",
    "erf": "math erf",
    "erfc": "math erfc",
    "expm1": "math expm1",
    "FixedLenFeature": "io FixedLenFeature",
    "floor_div": "math floordiv",
    "floordiv": "math floordiv",
    "imag": "math imag",
    "invert_permutation": "math invert_permutation",
    "is_finite": "math is_finite",
    "is_inf": "math is_inf",
    "is_nan": "math is_nan",
    "lbeta": "math lbeta",
    "lgamma": "math lgamma",
    "log": "math log",
    "log1p": "math log1p",
    "log_sigmoid": "math log_sigmoid",
    "matrix_band_part": "linalg band_part",
    "matrix_determinant": "linalg det",
    "matrix_diag": "linalg diag",
    "matrix_diag_part": "linalg diag_part",
    "matrix_inverse": "linalg inv",
    "matrix_set_diag": "linalg set_diag",
    "matrix_solve": "linalg solve",
    "matrix_transpose": "linalg matrix_transpose",
    "mod": "math floormod",
    "multinomial": "random categorical",
    "parse_example": "io parse_example",
    "parse_single_example": "io parse_single_example",
    "polygamma": "math polygamma",
    "py_func": "numpy_function",
    "qr": "linalg qr",
    "random_crop": "image random_crop",
    "random_gamma": "random gamma",
    "random_normal": "random normal",
    "random_shuffle": "random shuffle",
    "random_uniform": "random uniform",
    "read_file": "io read_file",
    "real": "math real",
    "reciprocal": "math reciprocal",
    "reset_default_graph": "keras.backend clear_session",
    "rint": "math rint",
    "rsqrt": "math rsqrt",
    "segment_max": "math segment_max",
    "segment_mean": "math segment_mean",
    "segment_min": "math segment_min",
    "segment_sum": "math segment_sum",
    "self_adjoint_eig": "linalg eigh",
    "set_random_seed": "random set_seed",
    "sparse_tensor_dense_matmul": "sparse sparse_dense_matmul",
    "sparse_tensor_to_dense": "sparse to_dense",
    "squared_difference": "math squared_difference",
    "string_split": "strings split",
    "string_to_number": "strings to_number",
    "svd": "linalg svd",
    "trace": "linalg trace",
    "truncated_normal": "random truncated_normal",
    "unsorted_segment_max": "math unsorted_segment_max",
    "unsorted_segment_sum": "math unsorted_segment_sum",
    "verify_tensor_all_finite": "debugging assert_all_finite",
    "VarLenFeature": "io VarLenFeature",
    "write_file": "io write_file",
    "zeta": "math zeta",
}


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        # On first use, so that programs which need one part do not import all.
        return importlib.import_module(f"tapegrad.compat.v1.{name}")
    if name in _MOVED:
        places = _MOVED[name].replace(".", " ").split()
        return reduce(getattr, places[1:], lazy.load(places[0]))
    found = getattr(dtypes, "bool_" if name == "bool" else name, None)
    if isinstance(found, dtypes.DType):
        return found
    try:
        return lazy.load(name)
    except AttributeError:
        raise absence("compat.v1", name) from None


_UNCHANGED = (
    "GradientTape", "IndexedSlices", "Module", "Tensor", "TensorShape", "Variable", "device",
)  # fmt: skip
"""Names of tapegrad itself, which has chosen the checks of their calls."""

_check_calls(globals(), [name for name in __all__ if name not in _UNCHANGED])
