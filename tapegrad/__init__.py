"""tapegrad: NumPy and CuPy code with gradients, through TensorFlow's GradientTape.

    import tapegrad as tf

    w = tf.Variable([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(w * w)
    tape.gradient(loss, w)

This module defines nothing; it exports the names of other modules. Names that most programs do not
need are imported on first use, so that `import tapegrad` stays cheap.
"""

import gc as _gc
from typing import TYPE_CHECKING, Any

# The modules make many objects that stay. To look for garbage among them takes a tenth of the time.
_was_collecting = _gc.isenabled()
_gc.disable()
try:
    from tapegrad.autodiff.arguments import UnconnectedGradients
    from tapegrad.autodiff.batching import vectorized_map, vmap
    from tapegrad.autodiff.gradient_tape import GradientTape
    from tapegrad.core.checked_calls import check_calls as _check_calls
    from tapegrad.core.values.convert import register_tensor_conversion_function
    from tapegrad.core.values.device import device, list_devices
    from tapegrad.core.values.dtypes import (
        DType,
        as_dtype,
        bool_ as bool,
        complex64,
        complex128,
        float16,
        float16 as half,
        float32,
        float64,
        float64 as double,
        int8,
        int16,
        int32,
        int64,
        string,
        uint8,
        uint16,
        uint32,
        uint64,
    )
    from tapegrad.core.values.indexed_slices import IndexedSlices
    from tapegrad.core.values.tensor import Tensor
    from tapegrad.core.values.tensor_shape import TensorShape
    from tapegrad.core.values.variable import Variable
    from tapegrad.engine import is_on as _is_engine_on  # noqa: F401  # registers the engine
    from tapegrad.lazy import load as _load
    from tapegrad.module import Module
    from tapegrad.ops import strings as _strings  # noqa: F401  # registers string tensors
finally:
    if _was_collecting:
        if not _gc.get_freeze_count():  # both together: move all objects to the oldest generation
            _gc.freeze()
            _gc.unfreeze()
        _gc.enable()

if TYPE_CHECKING:
    from tapegrad import (
        audio,
        autodiff,
        autograph,
        bitwise,
        compat,
        config,
        data,
        debug,
        debugging,
        distribute,
        dtypes,
        errors,
        experimental,
        extend,
        hub,
        image,
        io,
        keras,
        linalg,
        lookup,
        losses,
        math,
        nest,
        nn,
        numpy,
        onnx,
        optimizers,
        profiler,
        quantization,
        queue,
        ragged,
        random,
        scipy,
        sets,
        signal,
        sparse,
        special,
        strings,
        summary,
        test,
        testing,
        train,
        types,
        version,
    )
    from tapegrad.autodiff.custom_gradient import custom_gradient, grad_pass_through, recompute_grad
    from tapegrad.autodiff.transforms import (
        checkpoint,
        grad,
        hessian,
        hvp,
        jacobian,
        jvp,
        value_and_grad,
        vjp,
    )
    from tapegrad.critical_section import CriticalSection
    from tapegrad.ctc.labels import edit_distance
    from tapegrad.debug.memory_use import memory_info, reset_peak_memory
    from tapegrad.debugging import Assert, assert_equal, assert_greater, assert_less, assert_rank
    from tapegrad.device_spec import DeviceSpec
    from tapegrad.distribute.variable_kinds import VariableAggregation, VariableSynchronization
    from tapegrad.keras import initializers, metrics
    from tapegrad.keras.initializers import (
        Constant as constant_initializer,  # noqa: N813
        Ones as ones_initializer,  # noqa: N813
        RandomNormal as random_normal_initializer,  # noqa: N813
        RandomUniform as random_uniform_initializer,  # noqa: N813
        Zeros as zeros_initializer,  # noqa: N813
    )
    from tapegrad.logger import get_logger
    from tapegrad.ops.casting.cast import cast
    from tapegrad.ops.composed import is_tensor, reverse_sequence, saturate_cast, scalar_mul
    from tapegrad.ops.control.control_flow import (
        case,
        cond,
        foldl,
        foldr,
        map_fn,
        scan,
        switch_case,
        while_loop,
    )
    from tapegrad.ops.control.stop_gradient import stop_gradient
    from tapegrad.ops.control.tensor_array import TensorArray
    from tapegrad.ops.creation import (
        constant,
        convert_to_tensor,
        eye,
        fill,
        linspace,
        one_hot,
        ones,
        ones_like,
        range,
        zeros,
        zeros_like,
    )
    from tapegrad.ops.elementwise.arithmetic import (
        add,
        divide,
        divide as realdiv,
        divide as truediv,
        multiply,
        negative,
        subtract,
    )
    from tapegrad.ops.elementwise.comparison import (
        equal,
        greater,
        greater_equal,
        less,
        less_equal,
        logical_and,
        logical_not,
        logical_or,
        not_equal,
    )
    from tapegrad.ops.elementwise.complex_numbers import complex
    from tapegrad.ops.elementwise.exponential import exp
    from tapegrad.ops.elementwise.magnitude import abs, sign
    from tapegrad.ops.elementwise.powers import power as pow, sqrt, square
    from tapegrad.ops.elementwise.rounding import (
        floor,
        floor_divide as floordiv,
        fmod as truncatemod,
        mod as math_mod,
        round,
        truncatediv,
    )
    from tapegrad.ops.elementwise.selection import clip_by_value, maximum, minimum
    from tapegrad.ops.elementwise.sigmoids import sigmoid
    from tapegrad.ops.elementwise.trigonometric import (
        acos,
        acosh,
        asin,
        asinh,
        atan,
        atan2,
        atanh,
        cos,
        cosh,
        sin,
        sinh,
        tan,
        tanh,
    )
    from tapegrad.ops.fourier.any_axes import fftnd, ifftnd, irfftnd, rfftnd
    from tapegrad.ops.indexing.functions import index_add, index_update
    from tapegrad.ops.indexing.gather import gather, gather_nd
    from tapegrad.ops.indexing.scatter import (
        dynamic_stitch,
        scatter_nd,
        tensor_scatter_nd_add,
        tensor_scatter_nd_max,
        tensor_scatter_nd_min,
        tensor_scatter_nd_sub,
        tensor_scatter_nd_update,
    )
    from tapegrad.ops.indexing.slices_and_masks import (
        boolean_mask,
        dynamic_partition,
        sequence_mask,
        slice_tensor as slice,
        strided_slice,
        unravel_index,
        where,
    )
    from tapegrad.ops.indexing.sorting import argsort, searchsorted, sort
    from tapegrad.ops.interface.placement import identity
    from tapegrad.ops.linalg.eigen import eig, eigvals
    from tapegrad.ops.linalg.functions import sqrtm as matrix_square_root
    from tapegrad.ops.linalg.norms import norm
    from tapegrad.ops.nn.clipping import clip_by_global_norm, clip_by_norm
    from tapegrad.ops.products.einsum import einsum
    from tapegrad.ops.products.functions import matmul, tensordot
    from tapegrad.ops.reduction.counting import (
        histogram_fixed_width,
        histogram_fixed_width_bins,
        unique,
        unique_with_counts,
    )
    from tapegrad.ops.reduction.cumulative import cumsum
    from tapegrad.ops.reduction.functions import (
        argmax,
        argmin,
        reduce_all,
        reduce_any,
        reduce_logsumexp,
        reduce_max,
        reduce_mean,
        reduce_min,
        reduce_prod,
        reduce_sum,
    )
    from tapegrad.ops.reduction.sums import add_n
    from tapegrad.ops.shape.functions import (
        broadcast_dynamic_shape,
        broadcast_static_shape,
        broadcast_to,
        ensure_shape,
        expand_dims,
        identity_n,
        rank,
        reshape,
        shape,
        shape_n,
        size,
        squeeze,
        to_device,
        transpose,
    )
    from tapegrad.ops.shape.joining import (
        concat,
        split,
        stack,
        stack as parallel_stack,
        unstack,
    )
    from tapegrad.ops.shape.padding import pad
    from tapegrad.ops.shape.rearranging import (
        batch_to_space,
        meshgrid,
        repeat,
        required_space_to_batch_paddings,
        reverse,
        roll,
        space_to_batch,
        tile,
    )
    from tapegrad.program.building import wait_for_programs
    from tapegrad.program.function_decorator import function
    from tapegrad.program.graph_mode import (
        control_dependencies,
        executing_eagerly,
        get_static_value,
        group,
        init_scope,
        inside_function,
        is_symbolic_tensor,
        name_scope,
        no_op,
        tuple_of as tuple,
    )
    from tapegrad.program.host_call import numpy_function, py_function, timestamp
    from tapegrad.program.record.effects import print_tensors as print
    from tapegrad.program.record.history import gradients
    from tapegrad.program.record.signature import TensorSpec
    from tapegrad.ragged import RaggedTensor
    from tapegrad.sparse import SparseTensor
    from tapegrad.type_specs import (
        RaggedTensorSpec,
        SparseTensorSpec,
        TypeSpec,
        type_spec_from_value,
    )

# The year and the month: scripts that ask for version 2 or newer of TensorFlow accept it.
__version__ = "2026.11.0"

newaxis = None
pi = 3.141592653589793


def __getattr__(name: str) -> Any:
    """Import a namespace or a function on first use."""
    value = globals()[name] = _load(name)
    return value


def __dir__() -> list[str]:
    return __all__


__all__ = [
    "Assert", "CriticalSection", "DType", "DeviceSpec", "GradientTape", "IndexedSlices", "Module",
    "RaggedTensor", "RaggedTensorSpec", "SparseTensor", "SparseTensorSpec", "Tensor", "TensorArray",
    "TensorShape", "TensorSpec", "TypeSpec", "UnconnectedGradients", "Variable",
    "VariableAggregation", "VariableSynchronization", "abs", "acos", "acosh", "add", "add_n",
    "argmax", "argmin", "argsort", "as_dtype", "asin", "asinh", "assert_equal", "assert_greater",
    "assert_less", "assert_rank", "atan", "atan2", "atanh", "audio", "autodiff", "autograph",
    "batch_to_space", "bitwise", "bool", "boolean_mask", "broadcast_dynamic_shape",
    "broadcast_static_shape", "broadcast_to", "case", "cast", "checkpoint", "clip_by_global_norm",
    "clip_by_norm", "clip_by_value", "compat", "complex", "complex128", "complex64", "concat",
    "cond", "config", "constant", "constant_initializer", "control_dependencies",
    "convert_to_tensor", "cos", "cosh", "cumsum", "custom_gradient", "data", "debug", "debugging",
    "device", "distribute", "divide", "double", "dtypes", "dynamic_partition", "dynamic_stitch",
    "edit_distance", "eig", "eigvals", "einsum", "ensure_shape", "equal", "errors",
    "executing_eagerly", "exp", "expand_dims", "experimental", "extend", "eye", "fftnd", "fill",
    "float16", "float32", "float64", "floor", "floordiv", "foldl", "foldr", "function", "gather",
    "gather_nd", "get_logger", "get_static_value", "grad", "grad_pass_through", "gradients",
    "greater", "greater_equal", "group", "half", "hessian", "histogram_fixed_width",
    "histogram_fixed_width_bins", "hub", "hvp", "identity", "identity_n", "ifftnd", "image",
    "index_add", "index_update", "init_scope", "initializers", "inside_function", "int16", "int32",
    "int64", "int8", "io", "irfftnd", "is_symbolic_tensor", "is_tensor", "jacobian", "jvp", "keras",
    "less", "less_equal", "linalg", "linspace", "list_devices", "logical_and", "logical_not",
    "logical_or", "lookup", "losses", "map_fn", "math", "math_mod", "matmul", "matrix_square_root",
    "maximum", "memory_info", "meshgrid", "metrics", "minimum", "multiply", "name_scope",
    "negative", "nest", "newaxis", "nn", "no_op", "norm", "not_equal", "numpy", "numpy_function",
    "one_hot", "ones", "ones_initializer", "ones_like", "onnx", "optimizers", "pad",
    "parallel_stack", "pi", "pow", "print", "profiler", "py_function", "quantization", "queue",
    "ragged", "random", "random_normal_initializer", "random_uniform_initializer", "range", "rank",
    "realdiv", "recompute_grad", "reduce_all", "reduce_any", "reduce_logsumexp", "reduce_max",
    "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum", "register_tensor_conversion_function",
    "repeat", "required_space_to_batch_paddings", "reset_peak_memory", "reshape", "reverse",
    "reverse_sequence", "rfftnd", "roll", "round", "saturate_cast", "scalar_mul", "scan",
    "scatter_nd", "scipy", "searchsorted", "sequence_mask", "sets", "shape", "shape_n", "sigmoid",
    "sign", "signal", "sin", "sinh", "size", "slice", "sort", "space_to_batch", "sparse", "special",
    "split", "sqrt", "square", "squeeze", "stack", "stop_gradient", "strided_slice", "string",
    "strings", "subtract", "summary", "switch_case", "tan", "tanh", "tensor_scatter_nd_add",
    "tensor_scatter_nd_max", "tensor_scatter_nd_min", "tensor_scatter_nd_sub",
    "tensor_scatter_nd_update", "tensordot", "test", "testing", "tile", "timestamp", "to_device",
    "train", "transpose", "truediv", "truncatediv", "truncatemod", "tuple", "type_spec_from_value",
    "types", "uint16", "uint32", "uint64", "uint8", "unique", "unique_with_counts", "unravel_index",
    "unstack", "value_and_grad", "vectorized_map", "version", "vjp", "vmap", "wait_for_programs",
    "where", "while_loop", "zeros", "zeros_initializer", "zeros_like",
]  # fmt: skip

_check_calls(globals(), ("GradientTape", "IndexedSlices", "Variable"), ("__init__",))
