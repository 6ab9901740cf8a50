"""The names of `tapegrad` that are imported on first use."""

from __future__ import annotations

import importlib
import os
from typing import Any

from tapegrad.core.checked_calls import check_class, check_function
from tapegrad.core.exports import list_exports
from tapegrad.core.values.array_interface import ArrayInterface, register_array_interface

NAMESPACES = {
    "audio",
    "autodiff",
    "autograph",
    "bitwise",
    "compat",
    "config",
    "data",
    "debug",
    "debugging",
    "distribute",
    "dtypes",
    "errors",
    "experimental",
    "extend",
    "hub",
    "image",
    "io",
    "keras",
    "linalg",
    "lookup",
    "losses",
    "math",
    "nest",
    "nn",
    "numpy",
    "onnx",
    "optimizers",
    "profiler",
    "quantization",
    "queue",
    "random",
    "ragged",
    "saved_model",
    "scipy",
    "sets",
    "signal",
    "special",
    "sparse",
    "strings",
    "summary",
    "test",
    "testing",
    "train",
    "types",
    "version",
}

# The functions of each module.
FUNCTIONS_IN = {
    "autodiff.custom_gradient": "custom_gradient grad_pass_through recompute_grad",
    "autodiff.transforms": "checkpoint grad hessian hvp jacobian jvp value_and_grad vjp",
    "core.values.dtypes": "bfloat16",
    "ctc.labels": "edit_distance",
    "debug.memory_use": "memory_info reset_peak_memory",
    "debugging": "Assert assert_equal assert_greater assert_less assert_rank",
    "keras": "initializers metrics",
    "logger": "get_logger",
    "ops.elementwise.arithmetic": "add divide multiply negative subtract",
    "ops.casting.cast": "cast",
    "ops.nn.clipping": "clip_by_global_norm clip_by_norm",
    "ops.elementwise.comparison": (
        "equal greater greater_equal less less_equal logical_and logical_not logical_or not_equal"
    ),
    "ops.elementwise.complex_numbers": "complex",
    "ops.composed": "is_tensor reverse_sequence saturate_cast scalar_mul",
    "ops.control.control_flow": "case cond foldl foldr map_fn scan switch_case while_loop",
    "ops.reduction.counting": (
        "histogram_fixed_width histogram_fixed_width_bins unique unique_with_counts"
    ),
    "ops.creation": (
        "constant convert_to_tensor eye fill linspace one_hot ones ones_like range zeros zeros_like"
    ),
    "ops.reduction.cumulative": "cumsum",
    "ops.products.einsum": "einsum",
    "ops.elementwise.exponential": "exp",
    "ops.indexing.gather": "gather gather_nd",
    "ops.indexing.functions": "index_add index_update",
    "ops.shape.joining": "concat split stack unstack",
    "ops.linalg.eigen": "eig eigvals",
    "ops.linalg.norms": "norm",
    "ops.elementwise.magnitude": "abs sign",
    "ops.shape.padding": "pad",
    "ops.indexing.slices_and_masks": (
        "boolean_mask dynamic_partition sequence_mask strided_slice unravel_index where"
    ),
    "ops.interface.placement": "identity",
    "ops.elementwise.powers": "sqrt square",
    "ops.products.functions": "matmul tensordot",
    "ops.shape.rearranging": (
        "batch_to_space meshgrid repeat required_space_to_batch_paddings reverse roll "
        "space_to_batch tile"
    ),
    "ops.fourier.any_axes": "fftnd ifftnd irfftnd rfftnd",
    "ops.reduction.functions": (
        "argmax argmin reduce_all reduce_any reduce_logsumexp reduce_max reduce_mean reduce_min "
        "reduce_prod reduce_sum"
    ),
    "ops.elementwise.rounding": "floor round truncatediv",
    "ops.indexing.scatter": (
        "dynamic_stitch scatter_nd tensor_scatter_nd_add tensor_scatter_nd_max "
        "tensor_scatter_nd_min tensor_scatter_nd_sub tensor_scatter_nd_update"
    ),
    "ops.elementwise.selection": "clip_by_value maximum minimum",
    "ops.shape.functions": (
        "broadcast_dynamic_shape broadcast_static_shape broadcast_to ensure_shape expand_dims "
        "identity_n rank reshape shape shape_n size squeeze to_device transpose"
    ),
    "ops.elementwise.sigmoids": "sigmoid",
    "ops.indexing.sorting": "argsort searchsorted sort",
    "ops.control.stop_gradient": "stop_gradient",
    "ops.control.tensor_array": "TensorArray",
    "ops.reduction.sums": "add_n",
    "ops.elementwise.trigonometric": (
        "acos acosh asin asinh atan atan2 atanh cos cosh sin sinh tan tanh"
    ),
    "program.building": "wait_for_programs",
    "program.function_decorator": "function",
    "program.graph_mode": (
        "control_dependencies executing_eagerly group init_scope inside_function name_scope no_op"
        " get_static_value is_symbolic_tensor"
    ),
    "program.record.history": "gradients",
    "program.host_call": "numpy_function py_function timestamp",
    "program.record.signature": "TensorSpec",
    "critical_section": "CriticalSection",
    "device_spec": "DeviceSpec",
    "ragged": "RaggedTensor",
    "sparse": "SparseTensor",
    "distribute.variable_kinds": "VariableAggregation VariableSynchronization",
    "type_specs": "RaggedTensorSpec SparseTensorSpec TypeSpec type_spec_from_value",
}

# TensorFlow's name -> the module and the name of the function there.
RENAMED = {
    "constant_initializer": ("keras.initializers", "Constant"),
    "as_string": ("strings", "as_string"),
    "floordiv": ("ops.elementwise.rounding", "floor_divide"),
    "math_mod": ("ops.elementwise.rounding", "mod"),
    "matrix_square_root": ("ops.linalg.functions", "sqrtm"),
    "ones_initializer": ("keras.initializers", "Ones"),
    "parallel_stack": ("ops.shape.joining", "stack"),
    "tuple": ("program.graph_mode", "tuple_of"),
    "pow": ("ops.elementwise.powers", "power"),
    "print": ("program.record.effects", "print_tensors"),
    "random_normal_initializer": ("keras.initializers", "RandomNormal"),
    "random_uniform_initializer": ("keras.initializers", "RandomUniform"),
    "realdiv": ("ops.elementwise.arithmetic", "divide"),
    "slice": ("ops.indexing.slices_and_masks", "slice_tensor"),
    "space_to_batch_nd": ("ops.shape.rearranging", "space_to_batch"),
    "truediv": ("ops.elementwise.arithmetic", "divide"),
    "truncatemod": ("ops.elementwise.rounding", "fmod"),
    "zeros_initializer": ("keras.initializers", "Zeros"),
}

FUNCTIONS = {
    **{name: (module, name) for module, names in FUNCTIONS_IN.items() for name in names.split()},
    **RENAMED,
}


def _load_array_interface() -> ArrayInterface:
    from tapegrad.numpy import array_interface  # imports nearly every module

    return array_interface


register_array_interface(_load_array_interface)


def _has_keras() -> bool:
    from importlib.util import find_spec  # slow to import

    return find_spec("keras") is not None


def load(name: str) -> Any:
    """Import a namespace or a function of the package."""
    if name == "keras" and os.environ.get("KERAS_BACKEND") == "tapegrad" and _has_keras():
        importlib.import_module("keras_tapegrad")  # adds tapegrad to the backends of Keras
        return importlib.import_module("keras")
    if name in NAMESPACES:
        # On first use, so that `import tapegrad` stays cheap.
        namespace = importlib.import_module(f"tapegrad.{name}")
        list_exports(vars(namespace))
        return namespace
    if name not in FUNCTIONS:
        from tapegrad.absent import absence  # long, and needed for a misspelt name only

        raise absence("", name)
    module, defined_as = FUNCTIONS[name]
    # As for namespaces.
    function = getattr(importlib.import_module(f"tapegrad.{module}"), defined_as)
    if isinstance(function, type):
        check_class(function, ("__init__",))
    return check_function(function) if module.startswith(("ops.", "ctc.", "logger")) else function
