"""What `import tapegrad` loads only on first use: the table behind the door."""

from __future__ import annotations

import importlib
from typing import Any

NAMESPACES = {
    "autodiff",
    "bitwise",
    "compat",
    "config",
    "data",
    "debug",
    "debugging",
    "dtypes",
    "errors",
    "experimental",
    "extend",
    "keras",
    "linalg",
    "losses",
    "math",
    "nest",
    "nn",
    "numpy",
    "optimizers",
    "random",
    "scipy",
    "signal",
    "special",
    "test",
    "testing",
    "train",
}

# The functions of each module.
FUNCTIONS_IN = {
    "autodiff.custom_gradient": "custom_gradient grad_pass_through recompute_grad",
    "autodiff.transforms": "checkpoint grad hessian hvp jacobian jvp value_and_grad vjp",
    "core.dtypes": "bfloat16",
    "debug.memory": "memory_info reset_peak_memory",
    "keras": "initializers metrics",
    "ops.arithmetic": "add divide multiply negative subtract",
    "ops.cast": "cast",
    "ops.clipping": "clip_by_global_norm clip_by_norm",
    "ops.comparison": (
        "equal greater greater_equal less less_equal logical_and logical_not logical_or not_equal"
    ),
    "ops.complex_numbers": "complex",
    "ops.composed": "is_tensor reverse_sequence saturate_cast scalar_mul",
    "ops.control_flow": "case cond foldl foldr map_fn scan switch_case while_loop",
    "ops.counting": "histogram_fixed_width histogram_fixed_width_bins unique unique_with_counts",
    "ops.creation": (
        "constant convert_to_tensor eye fill linspace one_hot ones ones_like range zeros zeros_like"
    ),
    "ops.cumulative": "cumsum",
    "ops.einsum": "einsum",
    "ops.exponential": "exp",
    "ops.gather": "gather gather_nd",
    "ops.indexing": "index_add index_update",
    "ops.joining": "concat split stack unstack",
    "ops.linalg.eigen": "eig eigvals",
    "ops.linalg.norms": "norm",
    "ops.magnitude": "abs sign",
    "ops.padding": "pad",
    "ops.picking": "boolean_mask dynamic_partition sequence_mask strided_slice unravel_index where",
    "ops.placement": "identity",
    "ops.powers": "sqrt square",
    "ops.products": "matmul tensordot",
    "ops.rearranging": "batch_to_space meshgrid repeat reverse roll space_to_batch tile",
    "ops.reduce": (
        "argmax argmin reduce_all reduce_any reduce_logsumexp reduce_max reduce_mean reduce_min "
        "reduce_prod reduce_sum"
    ),
    "ops.rounding": "floor round truncatediv",
    "ops.scatter": (
        "dynamic_stitch scatter_nd tensor_scatter_nd_add tensor_scatter_nd_max "
        "tensor_scatter_nd_min tensor_scatter_nd_sub tensor_scatter_nd_update"
    ),
    "ops.selection": "clip_by_value maximum minimum",
    "ops.shape": (
        "broadcast_dynamic_shape broadcast_static_shape broadcast_to ensure_shape expand_dims "
        "identity_n rank reshape shape shape_n size squeeze to_device transpose"
    ),
    "ops.sigmoids": "sigmoid",
    "ops.sorting": "argsort searchsorted sort",
    "ops.stop_gradient": "stop_gradient",
    "ops.sums": "add_n",
    "ops.trigonometric": "acos acosh asin asinh atan atan2 atanh cos cosh sin sinh tan tanh",
    "program.function": "function",
    "program.signature": "TensorSpec",
}

# What TensorFlow spells differently: where the function lives, and its name there.
RENAMED = {
    "floordiv": ("ops.rounding", "floor_divide"),
    "math_mod": ("ops.rounding", "mod"),
    "matrix_square_root": ("ops.linalg.functions", "sqrtm"),
    "pow": ("ops.powers", "power"),
    "print": ("program.effects", "print_tensors"),
    "realdiv": ("ops.arithmetic", "divide"),
    "slice": ("ops.picking", "slice_tensor"),
    "truediv": ("ops.arithmetic", "divide"),
    "truncatemod": ("ops.rounding", "fmod"),
}

FUNCTIONS = {
    **{name: (module, name) for module, names in FUNCTIONS_IN.items() for name in names.split()},
    **RENAMED,
}


def load(name: str) -> Any:
    """Import a namespace or a function of the package."""
    if name in NAMESPACES:
        return importlib.import_module(f"tapegrad.{name}")
    if name not in FUNCTIONS:
        raise AttributeError(f"module 'tapegrad' has no attribute {name!r}")
    module, defined_as = FUNCTIONS[name]
    return getattr(importlib.import_module(f"tapegrad.{module}"), defined_as)
