"""Names of TensorFlow's first version that tapegrad has in another place, or not at all.

`tapegrad.compat.v1` has those of the first kind. The AttributeError for a name without `compat.v1`
says where it is.
"""

from __future__ import annotations

MOVED = {
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
"""The first version's name -> where tapegrad has it."""

_IN_V1 = frozenset(
    {
        *("AUTO_REUSE", "ConfigProto", "GPUOptions", "InteractiveSession", "Print"),
        *("disable_eager_execution", "disable_v2_behavior", "div", "enable_eager_execution"),
        *("enable_v2_behavior", "get_variable", "global_variables_initializer"),
        *("local_variables_initializer", "to_double", "to_float", "to_int32", "to_int64"),
        *("train.AdagradOptimizer", "train.AdamOptimizer", "train.GradientDescentOptimizer"),
        *("train.MomentumOptimizer", "train.create_global_step", "train.get_global_step"),
        *("train.get_or_create_global_step", "variable_scope"),
    }
)
_WITHOUT_GRAPHS = (
    "Functions run at once: there are no graphs, with their collections, queues and sessions."
)
_GONE = {
    "GraphKeys": _WITHOUT_GRAPHS,
    "add_to_collection": _WITHOUT_GRAPHS,
    "assign": "Use the method `assign` of a variable.",
    "assign_add": "Use the method `assign_add` of a variable.",
    "assign_sub": "Use the method `assign_sub` of a variable.",
    "contrib": "TensorFlow 2 does not have it either.",
    "examples": "TensorFlow 2 does not have it either; use tapegrad.keras.datasets for data.",
    "get_collection": _WITHOUT_GRAPHS,
    "get_default_graph": _WITHOUT_GRAPHS,
    "get_default_session": _WITHOUT_GRAPHS,
    "global_variables": "Use the attribute `variables` of models, layers and modules.",
    "logging": "Use tapegrad.compat.v1.logging.",
    "metrics": "Use tapegrad.keras.metrics.",
    "set_random_seed": "Use tapegrad.random.set_seed.",
    "summary.FileWriter": "Use tapegrad.summary.create_file_writer.",
    "summary.merge_all": "Summaries are written at once.",
    "train.RMSPropOptimizer": "Use tapegrad.keras.optimizers.RMSprop.",
    "train.Saver": "Use tapegrad.train.Checkpoint.",
    "trainable_variables": (
        "Use the attribute `trainable_variables` of models, layers and modules."
    ),
}


def place_of(path: str) -> str:
    """Return the sentence about a name of TensorFlow's first version, or an empty string.

    >>> place_of("log")
    "It is a name of TensorFlow's first version. Use tapegrad.math.log."
    """
    version = "It is a name of TensorFlow's first version."
    if path in _GONE:
        return f"{version} {_GONE[path]}"
    if path in MOVED:
        return f"{version} Use tapegrad.{MOVED[path].replace(' ', '.')}."
    return f"{version} Use tapegrad.compat.v1.{path}." if path in _IN_V1 else ""
