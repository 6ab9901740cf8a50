"""Names of TensorFlow that tapegrad does not have, each with what it offers instead.

The AttributeError for such a name says so.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from tapegrad.first_version import place_of
from tapegrad.other_libraries import offered_instead

_RAGGED = "Recorded functions take ragged tensors without a signature."
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
_PROCESSES = (
    "One process uses one device at a time; choose it with tapegrad.device. For several GPUs, "
    "start one process per GPU, e.g. with `tapegrad run -n 4 train.py`."
)

_SAMPLING = "Use tapegrad.random.fixed_unigram_candidate_sampler with the counts of the classes."
_OF_KERAS = "It is in tapegrad.keras.optimizers, unless Keras does not have it either."
_METHOD = "Use the methods of tapegrad.data.Dataset, which has most of these under the same name."
_SERVICE = "Datasets are read in the process that uses them."
_GRAPH_FILES = "There are no graph definitions and their files."
_IMAGES = "Use Pillow on the host, or tapegrad.image.decode_image."
_SMALL_NUMBERS = "The smallest numbers are int8, uint8, float16 and bfloat16; see docs/dtypes.md."
_QUANTIZED = "Quantized numbers are not supported; see docs/dtypes.md."
_SPECS = "Use tapegrad.TensorSpec."
_PRESET = "Programs are compiled in one way; there is nothing to set."

ABSENT = {
    "AggregationMethod": "Gradients are always added.",
    "Graph": _SESSIONS,
    "Operation": _SESSIONS,
    "OptionalSpec": "Use None for a value that is missing.",
    "RegisterGradient": "Use tapegrad.custom_gradient.",
    "Session": _SESSIONS,
    "distribute.ParameterServerStrategy": _PROCESSES,
    "distribute.TPUStrategy": _PROCESSES,
    "distribute.coordinator": _PROCESSES,
    "estimator": "Use keras.Model with fit and evaluate.",
    "feature_column": "Use the layers of keras for preprocessing.",
    "graph_util": _SESSIONS,
    "hessians": "Use tapegrad.hessian.",
    "io.SparseFeature": _RECORDS,
    "layers": "Use tapegrad.keras.layers.",
    "lite": _SAVING,
    "load_library": "Functions in C and CUDA are added with tapegrad.extend.",
    "load_op_library": "Functions in C and CUDA are added with tapegrad.extend.",
    "mlir": "`explain()` of a tapegrad.function says what was compiled.",
    "placeholder": _SESSIONS,
    "python": "It is internal to TensorFlow; use the public names.",
    "raw_ops": "Use the functions of tapegrad, tapegrad.math and tapegrad.nn.",
    "string_to_hash_bucket": "Use tapegrad.strings.to_hash_bucket_fast.",
    "strings.unicode_script": "Use Python's unicodedata on the host.",
    "sysconfig": "Backends are Python packages; see docs/backends.md.",
    "tables_initializer": _SESSIONS,
    "tpu": "Devices are CPUs and CUDA GPUs.",
    "variable_creator_scope": "Make variables directly; keras layers have add_weight.",
    "xla": "tapegrad.function compiles functions.",
}


RULES = {
    "compat.v1.app": "Use absl.app of the package absl-py.",
    "compat.v1.flags": "Use absl.flags of the package absl-py.",
    "compat.v1.estimator": "Use keras.Model with fit and evaluate.",
    "compat.v1.feature_column": "Use the layers of keras for preprocessing.",
    "compat.v1.layers": "Use tapegrad.keras.layers.",
    "compat.v1.*": _SESSIONS,
    "saved_model.*": (
        "Saved models have a different format; use tapegrad.saved_model.save and "
        "tapegrad.saved_model.load."
    ),
    "autograph.*": "Use tapegrad.autograph.to_code to see what becomes of a function.",
    "ragged_*": _RAGGED,
    "sparse.sampled_addmm": "Use tapegrad.sparse.to_dense and tapegrad.linalg.matmul.",
    "IndexedSlicesSpec": _SPECS,
    "TensorArraySpec": _SPECS,
    "data.DatasetSpec": _SPECS,
    "data.IteratorSpec": _SPECS,
    "NoneTensorSpec": "Use None for a value that is missing.",
    "approx_top_k": "Use tapegrad.math.approx_max_k.",
    "bitcast": "Use x.numpy().view(dtype) on the host.",
    "check_pinned": "Arrays on the host are those of NumPy.",
    "config.experimental.ClusterDeviceFilters": _PROCESSES,
    "config.experimental_connect_*": _PROCESSES,
    "distribute.*": _PROCESSES,
    "train.*Def": _PROCESSES,
    "train.Cluster*": _PROCESSES,
    "config.experimental.*mlir*": _PRESET,
    "config.optimizer": _PRESET,
    "config.experimental.*device_policy": (
        "Tensors of different devices are never mixed in silence."
    ),
    "config.experimental.*synchronous*": "Kernels on a GPU always run asynchronously.",
    "conv": "Use tapegrad.nn.convolution.",
    "conv2d_backprop_*": "Gradients come from tapegrad.GradientTape.",
    "nn.depthwise_conv2d_backprop_*": "Gradients come from tapegrad.GradientTape.",
    "data.NumpyIterator": "Use Dataset.as_numpy_iterator.",
    "data.ThreadingOptions": "The number of threads follows the processor.",
    "data.experimental.*Options": "The number of threads follows the processor.",
    "data.experimental.service*": _SERVICE,
    "data.experimental.*": _METHOD,
    "compiler": "tapegrad.function compiles functions.",
    "experimental.dtensor": _PROCESSES,
    "experimental.tensorrt": "tapegrad.function compiles functions.",
    "debugging.experimental": "Use tapegrad.debugging.check_numerics.",
    "debugging.*traceback*": "Tracebacks are always complete.",
    "debugging.*log_device_placement": "Tensors have an attribute `device`.",
    "dtypes.experimental": _SMALL_NUMBERS,
    "qint*": _QUANTIZED,
    "quint*": _QUANTIZED,
    "dtypes.q*": _QUANTIZED,
    "dtypes.QUANTIZED_DTYPES": _QUANTIZED,
    "resource": "Variables are tapegrad.Variable.",
    "dtypes.resource": "Variables are tapegrad.Variable.",
    "variant": "There are no tensors of other objects; use Python's lists.",
    "dtypes.variant": "There are no tensors of other objects; use Python's lists.",
    "extract_volume_patches": "Use tapegrad.image.extract_patches on slices.",
    "fingerprint": "Use tapegrad.strings.to_hash_bucket_fast, or hashlib on the host.",
    "get_current_name_scope": "Names have no scopes.",
    "guarantee_const": "Values that do not change need no mark.",
    "image.decode_*": _IMAGES,
    "io.decode_jxl": _IMAGES,
    "io.decode_webp": _IMAGES,
    "image.*bounding_box*": "Use tapegrad.image.crop_and_resize and non_max_suppression.",
    "image.extract_glimpse": "Use tapegrad.image.crop_and_resize.",
    "import_graph_def": _GRAPH_FILES,
    "make_ndarray": _GRAPH_FILES,
    "io.write_graph": _GRAPH_FILES,
    "version.GRAPH_DEF_*": _GRAPH_FILES,
    "io.*code_proto": "Use the package protobuf on the host.",
    "io.gfile.get_registered_schemes": "Files are local ones.",
    "make_tensor_proto": "Use tapegrad.io.serialize_tensor.",
    "math.sobol_sample": "Use scipy.stats.qmc on the host.",
    "quantization.experimental": "Use float16 or bfloat16; see docs/dtypes.md.",
    "quantization.*": _QUANTIZED,
    "nn.RNNCell*": "Use the layers of tapegrad.keras.layers, which have an argument `dropout`.",
    "nn.*candidate_sampler": _SAMPLING,
    "random.*candidate_sampler": _SAMPLING,
    "nn.fractional_*": "Use tapegrad.nn.avg_pool and tapegrad.nn.max_pool.",
    "nn.isotonic_regression": "Use scikit-learn on the host.",
    "nn.with_space_to_batch": "Use tapegrad.nn.convolution with dilations.",
    "no_gradient": "Use tapegrad.stop_gradient.",
    "nondifferentiable_batch_function": "Collect batches before the call.",
    "optimizers.*": _OF_KERAS,
    "random.Algorithm": "The generator is always Philox.",
    "random.create_rng_state": "Use tapegrad.random.Generator.",
    "random.stateless_binomial": "Use tapegrad.random.Generator.",
    "random.experimental.Algorithm": "The generator is always Philox.",
    "random.experimental.create_rng_state": "Use tapegrad.random.Generator.",
    "random.experimental.index_shuffle": "Use tapegrad.random.stateless_shuffle.",
    "random_index_shuffle": "Use tapegrad.random.stateless_shuffle.",
    "summary.graph": (
        "Use tapegrad.summary.scalar, tapegrad.summary.histogram and tapegrad.summary.image."
    ),
    "summary.write": (
        "Use tapegrad.summary.scalar, tapegrad.summary.histogram and tapegrad.summary.image."
    ),
    "summary.trace_off": (
        "Use tapegrad.summary.scalar, tapegrad.summary.histogram and tapegrad.summary.image."
    ),
    "summary.experimental.*": (
        "Use tapegrad.summary.scalar, tapegrad.summary.histogram and tapegrad.summary.image."
    ),
    "test.Benchmark": "Use Python's unittest or pytest; tapegrad.test.TestCase compares tensors.",
    "test.assert_equal_graph_def": (
        "Use Python's unittest or pytest; tapegrad.test.TestCase compares tensors."
    ),
    "test.benchmark_config": (
        "Use Python's unittest or pytest; tapegrad.test.TestCase compares tensors."
    ),
    "test.create_local_cluster": (
        "Use Python's unittest or pytest; tapegrad.test.TestCase compares tensors."
    ),
    "test.disable_with_predicate": (
        "Use Python's unittest or pytest; tapegrad.test.TestCase compares tensors."
    ),
    "test.experimental": (
        "Use Python's unittest or pytest; tapegrad.test.TestCase compares tensors."
    ),
    "test.is_cpu_target_available": (
        "Use Python's unittest or pytest; tapegrad.test.TestCase compares tensors."
    ),
    "test.with_eager_op_as_function": (
        "Use Python's unittest or pytest; tapegrad.test.TestCase compares tensors."
    ),
    "profiler.experimental.*": (
        "tapegrad.profiler.experimental has start, stop, Profile and Trace, for one process."
    ),
    "types.experimental.distributed*": _PROCESSES,
    "types.experimental.*": "Use tapegrad.types.experimental.ConcreteFunction and TraceType.",
    "tools": "TensorFlow's tools are separate programs.",
    "train.Coordinator": "Use Python's threading.",
    "train.*heckpoint*": (
        "Use tapegrad.train.Checkpoint, tapegrad.train.CheckpointManager and "
        "tapegrad.train.latest_checkpoint."
    ),
    "train.TrackableView": (
        "Use tapegrad.train.Checkpoint, tapegrad.train.CheckpointManager and "
        "tapegrad.train.latest_checkpoint."
    ),
    "train.experimental": (
        "Use tapegrad.train.Checkpoint, tapegrad.train.CheckpointManager and "
        "tapegrad.train.latest_checkpoint."
    ),
    "train.list_variables": (
        "Use tapegrad.train.Checkpoint, tapegrad.train.CheckpointManager and "
        "tapegrad.train.latest_checkpoint."
    ),
    "train.load_variable": (
        "Use tapegrad.train.Checkpoint, tapegrad.train.CheckpointManager and "
        "tapegrad.train.latest_checkpoint."
    ),
}
"""Patterns of further names; the first that fits counts."""


def why_absent(path: str) -> str:
    """Return the sentence about a name that tapegrad does not have, or an empty string.

    >>> why_absent("no_gradient")
    'Use tapegrad.stop_gradient.'
    """
    found = ABSENT.get(path) or next((RULES[rule] for rule in RULES if fnmatchcase(path, rule)), "")
    return found or place_of(path) or offered_instead(path)


def absence(place: str, name: str) -> AttributeError:
    """Return the error for a name that a module of tapegrad does not have.

    >>> str(absence("", "tpu"))
    "module 'tapegrad' has no attribute 'tpu'. Devices are CPUs and CUDA GPUs."
    """
    module = f"tapegrad.{place}" if place else "tapegrad"
    message = f"module {module!r} has no attribute {name!r}"
    if name.startswith("__"):  # imports look for `__path__` in every module
        return AttributeError(message)
    offered = why_absent(f"{place}.{name}" if place else name)
    return AttributeError(f"{message}. {offered}" if offered else message)
