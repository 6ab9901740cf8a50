"""Names of TensorFlow that tapegrad does not have, each with what it offers instead.

The AttributeError for such a name says so.
"""

from __future__ import annotations

_RAGGED = "Recorded functions take ragged tensors without a signature."
_SPARSE = "Recorded functions take sparse tensors without a signature."
_SAVING = (
    "Use keras.Model.save and keras.models.load_model for models, and tapegrad.train.Checkpoint "
    "for variables."
)
_SESSIONS = (
    "Functions run at once, and tapegrad.function compiles them; there are no graphs, sessions and "
    "placeholders."
)
_RECORDS = (
    "Describe features by tapegrad.io.FixedLenFeature, or by FixedLenSequenceFeature for different "
    "lengths, which are padded."
)
_PYTHON_LIST = (
    "Use a Python list or collections.deque; tapegrad.TensorArray works in recorded loops."
)
_PROCESSES = (
    "One process uses one device at a time; choose it with tapegrad.device. For several GPUs, "
    "start one process per GPU, each with CUDA_VISIBLE_DEVICES."
)

ABSENT = {
    "AggregationMethod": "Gradients are always added.",
    "CriticalSection": "Variable.assign_add and the like are atomic; else use threading.Lock.",
    "Graph": _SESSIONS,
    "Operation": _SESSIONS,
    "OptionalSpec": "Use None for a value that is missing.",
    "RaggedTensorSpec": _RAGGED,
    "RegisterGradient": "Use tapegrad.custom_gradient.",
    "Session": _SESSIONS,
    "SparseTensorSpec": _SPARSE,
    "TypeSpec": "Use tapegrad.TensorSpec.",
    "VariableAggregation": _PROCESSES,
    "VariableSynchronization": _PROCESSES,
    "as_string": "Use tapegrad.strings.as_string.",
    "compat.v1": _SESSIONS,
    "distribute.NcclAllReduce": _PROCESSES,
    "distribute.ParameterServerStrategy": _PROCESSES,
    "distribute.TPUStrategy": _PROCESSES,
    "distribute.cluster_resolver": _PROCESSES,
    "distribute.coordinator": _PROCESSES,
    "edit_distance": "Compute it on the host, in Python.",
    "estimator": "Use keras.Model with fit and evaluate.",
    "feature_column": "Use the layers of keras for preprocessing.",
    "get_static_value": "x.numpy() returns the value of a tensor.",
    "graph_util": _SESSIONS,
    "gradients": "Use tapegrad.GradientTape, or tapegrad.grad.",
    "hessians": "Use tapegrad.hessian.",
    "io.SparseFeature": _RECORDS,
    "io.parse_sequence_example": _RECORDS,
    "layers": "Use tapegrad.keras.layers.",
    "lite": _SAVING,
    "load_library": "Functions in C and CUDA are added with tapegrad.extend.",
    "load_op_library": "Functions in C and CUDA are added with tapegrad.extend.",
    "lookup.experimental.DenseHashTable": "Use tapegrad.lookup.experimental.MutableHashTable.",
    "mlir": "`explain()` of a tapegrad.function says what was compiled.",
    "placeholder": _SESSIONS,
    "profiler": "`explain()` of a tapegrad.function says what was compiled and how long that took.",
    "quantization": "Use float16 or bfloat16; see docs/dtypes.md.",
    "queue": _PYTHON_LIST,
    "raw_ops": "Use the functions of tapegrad, tapegrad.math and tapegrad.nn.",
    "saved_model": _SAVING,
    "sets": "Use tapegrad.unique, or Python's sets on the host.",
    "string_to_hash_bucket": "Use tapegrad.strings.to_hash_bucket_fast.",
    "strings.to_hash_bucket": "Use tapegrad.strings.to_hash_bucket_fast.",
    "strings.unicode_script": "Use Python's unicodedata on the host.",
    "summary.audio": "Sound is not written.",
    "sysconfig": "Backends are Python packages; see docs/backends.md.",
    "tables_initializer": _SESSIONS,
    "tpu": "Devices are CPUs and CUDA GPUs.",
    "types": "Use tapegrad.Tensor and numpy.typing.ArrayLike in annotations.",
    "variable_creator_scope": "Make variables directly; keras layers have add_weight.",
    "xla": "tapegrad.function compiles functions.",
}


def absence(place: str, name: str) -> AttributeError:
    """Return the error for a name that a module of tapegrad does not have.

    >>> str(absence("", "tpu"))
    "module 'tapegrad' has no attribute 'tpu'. Devices are CPUs and CUDA GPUs."
    """
    module = f"tapegrad.{place}" if place else "tapegrad"
    offered = ABSENT.get(f"{place}.{name}" if place else name)
    message = f"module {module!r} has no attribute {name!r}"
    return AttributeError(f"{message}. {offered}" if offered else message)
