"""keras.ops: NumPy functions, neural network functions and loops, all differentiable.

from tapegrad.keras import ops

def call(self, inputs):
    return ops.softmax(ops.matmul(inputs, self.kernel), axis=-1)

They take tensors and arrays, and symbolic tensors in functional models. Result dtypes follow Keras:
a result has 64 bits only if an argument has 64 bits.
"""

from importlib import import_module
from typing import Any

from tapegrad.core.checked_calls import check_function
from tapegrad.keras.absent import absent_name as _absent_name
from tapegrad.keras.ops.operation import operation

_FACES = {
    "tapegrad.numpy": """
        abs absolute add all allclose amax amin angle any append arange arccos arccosh arcsin
        arcsinh arctan arctan2 arctanh argmax argmin argpartition argsort array array_split average
        bartlett bitwise_and bitwise_invert bitwise_left_shift bitwise_not bitwise_or
        bitwise_right_shift bitwise_xor blackman broadcast_to cbrt ceil clip column_stack
        concatenate conj conjugate copy corrcoef correlate cos cosh count_nonzero cross cumprod
        cumsum deg2rad diag diagflat diagonal diff digitize divide dot dsplit dstack einsum empty
        empty_like equal exp exp2 expand_dims expm1 eye fabs flip fliplr flipud floor floor_divide
        fmax fmin fmod full full_like gcd geomspace greater greater_equal hamming hanning heaviside
        histogram hsplit hstack hypot i0 identity imag inner isclose isfinite isin isinf isnan
        isneginf isposinf isreal kaiser kron lcm ldexp left_shift less less_equal linspace log log10
        log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logspace
        matmul max maximum mean median meshgrid min minimum mod moveaxis multiply
        nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanpercentile
        nanprod nanquantile nanstd nansum nanvar ndim negative nextafter nonzero not_equal ones
        ones_like outer percentile power prod ptp quantile rad2deg ravel real reciprocal repeat
        reshape right_shift roll rot90 round searchsorted select sign signbit sin sinc sinh size
        sort split sqrt square squeeze stack std subtract sum swapaxes take take_along_axis tan tanh
        tensordot tile trace transpose trapezoid tri tril triu true_divide trunc vander var
        vdot vectorize vsplit vstack where zeros zeros_like
    """,
    "tapegrad.numpy.linalg": """
        cholesky det eig eigh inv lstsq matrix_power matrix_rank norm pinv qr slogdet solve svd
    """,
    "tapegrad.math": """
        divide_no_nan erf erfc erfinv gammainc=igamma logsumexp=reduce_logsumexp rsqrt
    """,
    "tapegrad.nn": "depth_to_space in_top_k space_to_depth top_k",
    "tapegrad.keras.activations": """
        celu elu glu hard_shrink hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid
        log_softmax relu relu6 selu sigmoid silu soft_shrink softmax softplus softsign sparse_plus
        sparse_sigmoid sparsemax squareplus swish tanh_shrink threshold
    """,
    "tapegrad": """
        cast cond custom_gradient is_tensor saturate_cast scatter=scatter_nd stop_gradient
        unravel_index unstack vectorized_map
    """,
    "tapegrad.keras.ops.arrays": """
        cholesky_inverse convert_to_numpy dtype fft fft2 get_item ifft2 irfft polar rfft
        segment_max segment_min segment_prod segment_sum shape slice_update solve_triangular
        view_as_complex view_as_real
    """,
    "tapegrad.keras.ops.alignment": "ctc_decode ctc_loss",
    "tapegrad.keras.ops.frames": "extract_sequences istft stft",
    "tapegrad.keras.ops.layouts": "rearrange view",
    "tapegrad.keras.ops.loops": "associative_scan fori_loop map scan switch",
    "tapegrad.keras.ops.matrices": "cdist jvp logdet lu_factor",
    "tapegrad.keras.ops.neural": """
        average_pool batch_normalization binary_crossentropy categorical_crossentropy conv
        conv_transpose depthwise_conv dot_product_attention gelu layer_normalization max_pool
        moments multi_hot normalize one_hot psnr rms_normalization separable_conv
        sparse_categorical_crossentropy
    """,
    "tapegrad.keras.ops.parameters": """
        bincount convert_to_tensor nan_to_num pad scatter_update slice unique while_loop
    """,
    "tapegrad.keras.ops.windows": "adaptive_average_pool adaptive_max_pool fold unfold",
}
# The module of each function, and its name in that module.
_PLACES = {
    name.partition("=")[0]: (face, name.rpartition("=")[2])
    for face, names in _FACES.items()
    for name in names.split()
}
_PARTS = ("linalg", "nn", "numpy")  # Keras has the same functions in keras.ops.numpy and so on
_MODULES = ("image",)

__all__ = sorted(_PLACES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(__name__)
    if name in _MODULES:
        # On first use, as the functions.
        return import_module(f"tapegrad.keras.ops.{name}")
    if name not in _PLACES:
        raise _absent_name("keras.ops", name, __all__)
    face, name_there = _PLACES[name]
    function = check_function(getattr(import_module(face), name_there))
    made = globals()[name] = operation(name, function)
    return made


def __dir__() -> list[str]:
    return [*__all__, *_PARTS, *_MODULES]
