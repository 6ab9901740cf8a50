"""CUDA sources of optimizer steps: one table of rules, for one variable or for many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tapegrad_cupy.launch.multi_tensors import TENSOR_OF_BLOCK


@dataclass(frozen=True)
class Rule:
    """One step of one element, in CUDA C.

    `body` updates the parameter `x` and the slots `s0`, `s1`, ... from the gradient `g` and the
    rate `lr`. `constants` are passed by the host, and `setup` runs before all elements. `further`
    names numbers in double precision that are read on the device, like the rate and the step.

    In groups of variables, `at_tensor` runs when a block has found its variable, and `at_end` after
    its elements. A rule that needs a sum over all elements of a variable takes two launches. The
    launch of the rule `first` leaves parameters unchanged and writes two numbers per block. The
    other launch reads them and leaves slots unchanged.
    """

    body: str
    constants: tuple[str, ...] = ()
    slots: int = 0
    has_gradient: bool = True
    has_rate: bool = True
    has_step: bool = False
    setup: str = ""
    further: tuple[str, ...] = ()
    at_tensor: str = ""
    at_end: str = ""
    first: str = ""

    @property
    def is_first(self) -> bool:
        """Whether another launch follows, which updates the parameters."""
        return bool(self.at_end)


_ADAM_SCALE = r"""
    __shared__ S shared_scale;
    if (threadIdx.x == 0) {
        // In single precision 1 - beta_2 would have only four digits at the first steps.
        double correction = sqrt(1.0 - whole_power(beta_2, *step));
        shared_scale = (S)((double)*rate * (correction / (1.0 - whole_power(beta_1, *step))));
    }
    __syncthreads();
    S scale = shared_scale, share_1 = (S)(1.0 - beta_1), share_2 = (S)(1.0 - beta_2);
"""
_ADAMAX_SCALE = r"""
    __shared__ S shared_scale;
    if (threadIdx.x == 0) shared_scale = (S)((double)*rate / (1.0 - whole_power(beta_1, *step)));
    __syncthreads();
    S scale = shared_scale;
"""
_NADAM_SCALES = r"""
    S from_m = (S)((double)*rate * *share_of_m), from_g = (S)((double)*rate * *share_of_g);
    S scale = (S)*unbias, share_1 = (S)(1.0 - beta_1), share_2 = (S)(1.0 - beta_2);
"""
_LAMB_SCALES = r"""
    __shared__ S shared_scales[2];
    if (threadIdx.x < 2) {
        double beta = threadIdx.x ? beta_2 : beta_1;
        shared_scales[threadIdx.x] = (S)(1.0 / (1.0 - whole_power(beta, *step)));
    }
    __syncthreads();
    S unbias_1 = shared_scales[0], unbias_2 = shared_scales[1];
    S share_1 = (S)(1.0 - beta_1), share_2 = (S)(1.0 - beta_2);
"""
_LAMB_CHANGE = "s0 * unbias_1 / (sqrt(s1 * unbias_2) + (S)epsilon)"
_LAMB_LENGTHS = r"""
    size = block_sum(size);
    __syncthreads();
    length = block_sum(length);
    if (threadIdx.x == 0) sums[2 * blockIdx.x] = size, sums[2 * blockIdx.x + 1] = length;
"""
_LAMB_RATIO = r"""
    __shared__ S shared_scale;
    double size = 0.0, length = 0.0;
    int behind = k + 1 < tensors ? table.first[k + 1] : (int)gridDim.x;
    for (int i = table.first[k] + (int)threadIdx.x; i < behind; i += 256) {
        size += sums[2 * i], length += sums[2 * i + 1];
    }
    size = block_sum(size);
    __syncthreads();
    length = block_sum(length);
    if (threadIdx.x == 0) {
        bool is_scaled = size > 0.0 && length > 0.0;
        shared_scale = (S)(*rate * (is_scaled ? sqrt(size) / sqrt(length) : 1.0));
    }
    __syncthreads();
    S scale = shared_scale;
"""
_FTRL = r"""
    S before = @POWER@(s0), shrunk = g + (S)(2.0 * shrinkage) * x;
    s0 += g * g;
    S after = @POWER@(s0);
    s1 += shrunk - (after - before) * per_rate * x;
    S limited = s1 > (S)l1 ? (S)l1 : s1 < -(S)l1 ? -(S)l1 : s1;
    x = (limited - s1) / ((after + (S)beta) * per_rate + (S)(2.0 * l2));
"""
_FTRL_CONSTANTS = ("beta", "l1", "l2", "shrinkage")
_PER_RATE = "S per_rate = (S)(1.0 / (double)*rate);"
_MOMENTS = "s0 += (g - s0) * share_1; s1 += (g * g - s1) * share_2;"
_SQUARES = "s0 = (S)rho * s0 + (S)(1.0 - rho) * (g * g);"
_MEAN = "s1 = (S)rho * s1 + (S)(1.0 - rho) * g; S spread = s0 - s1 * s1;"
_BETAS = ("beta_1", "beta_2", "epsilon")

RULES = {
    "sgd": Rule("x -= lr * g;"),
    "decay": Rule("x -= lr * (S)amount * x;", ("amount",), has_gradient=False),
    # A moving average; the parameter that it follows takes the place of the gradient.
    "average": Rule(
        "x = starts ? g : x + (g - x) * (S)share;",
        ("share",),
        has_rate=False,
        has_step=True,
        setup="bool starts = *step == 1;",
    ),
    # A step towards the values in the place of the gradient.
    "follow": Rule("x += (g - x) * (S)along;", ("along",)),
    "momentum": Rule("s0 = (S)momentum * s0 - lr * g; x += s0;", ("momentum",), 1),
    "nesterov": Rule(
        "s0 = (S)momentum * s0 - lr * g; x += (S)momentum * s0 - lr * g;", ("momentum",), 1
    ),
    "adam": Rule(
        f"{_MOMENTS} x -= scale * s0 / (sqrt(s1) + (S)epsilon);",
        _BETAS,
        2,
        has_step=True,
        setup=_ADAM_SCALE,
    ),
    "amsgrad": Rule(
        # The larger of the two, or NaN.
        f"{_MOMENTS} s2 = s1 > s2 || s1 != s1 ? s1 : s2;x -= scale * s0 / (sqrt(s2) + (S)epsilon);",
        _BETAS,
        3,
        has_step=True,
        setup=_ADAM_SCALE,
    ),
    "rmsprop": Rule(f"{_SQUARES} x -= lr * g / sqrt(s0 + (S)epsilon);", ("rho", "epsilon"), 1),
    "rmsprop_momentum": Rule(
        f"{_SQUARES} s1 = (S)momentum * s1 + lr * g / sqrt(s0 + (S)epsilon); x -= s1;",
        ("rho", "epsilon", "momentum"),
        2,
    ),
    "rmsprop_centered": Rule(
        f"{_SQUARES} {_MEAN} x -= lr * g / sqrt(spread + (S)epsilon);", ("rho", "epsilon"), 2
    ),
    "rmsprop_centered_momentum": Rule(
        f"{_SQUARES} {_MEAN} s2 = (S)momentum * s2 + lr * g / sqrt(spread + (S)epsilon); x -= s2;",
        ("rho", "epsilon", "momentum"),
        3,
    ),
    "adagrad": Rule("s0 += g * g; x -= lr * g / sqrt(s0 + (S)epsilon);", ("epsilon",), 1),
    "adadelta": Rule(
        "s0 += (g * g - s0) * (S)(1.0 - rho);"
        "S change = g * sqrt(s1 + (S)epsilon) / sqrt(s0 + (S)epsilon);"
        "s1 += (change * change - s1) * (S)(1.0 - rho); x -= lr * change;",
        ("rho", "epsilon"),
        2,
    ),
    "adamax": Rule(
        "s0 += (g - s0) * (S)(1.0 - beta_1); S size = fabs(g), kept = (S)beta_2 * s1;"
        # The larger of the two, or NaN.
        "s1 = size > kept || size != size ? size : kept; x -= scale * s0 / (s1 + (S)epsilon);",
        _BETAS,
        2,
        has_step=True,
        setup=_ADAMAX_SCALE,
    ),
    "nadam": Rule(
        f"{_MOMENTS} x -= (from_m * s0 + from_g * g) / (sqrt(s1 * scale) + (S)epsilon);",
        _BETAS,
        2,
        setup=_NADAM_SCALES,
        further=("share_of_m", "share_of_g", "unbias"),
    ),
    # The direction of the step is written to the parameter; its norm decides the step size.
    "lamb_change": Rule(
        f"{_MOMENTS} x = {_LAMB_CHANGE};",
        _BETAS,
        2,
        has_rate=False,
        has_step=True,
        setup=_LAMB_SCALES,
    ),
    "lamb_lengths": Rule(
        f"{_MOMENTS} double change = {_LAMB_CHANGE};"
        "size += (double)x * (double)x; length += change * change;",
        _BETAS,
        2,
        has_step=True,
        setup=_LAMB_SCALES,
        further=("sums",),
        at_tensor="double size = 0.0, length = 0.0;",
        at_end=_LAMB_LENGTHS,
    ),
    "lamb": Rule(
        f"x -= scale * ({_LAMB_CHANGE});",
        _BETAS,
        2,
        has_step=True,
        setup=_LAMB_SCALES,
        further=("sums",),
        at_tensor=_LAMB_RATIO,
        first="lamb_lengths",
    ),
    "lion": Rule(
        "S mix = (S)beta_1 * s0 + (S)(1.0 - beta_1) * g; s0 += (g - s0) * (S)(1.0 - beta_2);"
        # Its sign, or NaN.
        "x -= lr * (mix > (S)0 ? (S)1 : mix < (S)0 ? (S)-1 : mix);",
        ("beta_1", "beta_2"),
        1,
    ),
    "ftrl": Rule(_FTRL.replace("@POWER@", "sqrt"), _FTRL_CONSTANTS, 2, setup=_PER_RATE),
    "ftrl_power": Rule(
        _FTRL.replace("@POWER@(s0)", "pow(s0, (S)power)"),
        ("power", *_FTRL_CONSTANTS),
        2,
        setup=_PER_RATE,
    ),
}


def rule_for(name: str, params: Mapping[str, Any], slots: int) -> tuple[str, tuple[float, ...]]:
    """Return the rule of a primitive with these params, and the rule's constants."""
    if name == "momentum_update":
        rule = "nesterov" if params["nesterov"] else "momentum"
    elif name == "adam_update":
        rule = "amsgrad" if slots > 2 else "adam"
    elif name == "rmsprop_update":
        rule = "rmsprop" + "_centered" * bool(params["centered"])
        rule += "_momentum" * bool(params["momentum"])
    elif name == "ftrl_update":
        # The usual power is 0.5, and a square root is much faster than a power.
        rule = "ftrl" if params["power"] == 0.5 else "ftrl_power"
    else:
        rule = name.removesuffix("_update")
    return rule, tuple([float(params[constant]) for constant in RULES[rule].constants])


# The step count is an integer, so a few multiplications give the power; pow() would take more
# registers than the rest of the kernel.
WHOLE_POWER = r"""
__device__ __forceinline__ double whole_power(double base, i64 exponent) {
    double result = 1.0;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) result *= base;
        base *= base;
    }
    return result;
}
"""

# At least two blocks per multiprocessor allow 128 registers per thread. Square roots and quotients
# in double precision need more than the compiler's default of 64.
_ONE = r"""
// P is the type of the parameter, S of the slots, R of the rate; N elements fill 16 bytes.
typedef Vec<P, N> Ps;
typedef Vec<S, N> Ss;

extern "C" __global__ void __launch_bounds__(256, 2) update(
    @PARAMETERS@, i64 count, i64 vectors@CONSTANTS@
) {
    @RATE@
    @SETUP@
    i64 stride = (i64)gridDim.x * blockDim.x;
    i64 first = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    for (i64 i = first; i < vectors; i += stride) {
        Ps xs = ((const Ps*)p)[i];
        @LOAD_VECTORS@
        #pragma unroll
        for (int j = 0; j < N; ++j) {
            S x = widen(xs.v[j]);
            @LOAD_FROM_VECTORS@
            @BODY@
            xs.v[j] = narrow<P>(x);
            @STORE_TO_VECTORS@
        }
        ((Ps*)new_p)[i] = xs;
        @STORE_VECTORS@
    }
    for (i64 i = vectors * N + first; i < count; i += stride) {
        S x = widen(p[i]);
        @LOAD@
        @BODY@
        new_p[i] = narrow<P>(x);
        @STORE@
    }
}
"""


def update_source(rule: str) -> str:
    """Return the kernel `update` of a rule, for the macros P, S, R and N."""
    how = RULES[rule]
    slots = range(how.slots)
    gradient = how.has_gradient
    inputs = ["const P* __restrict__ p"]
    inputs += ["const P* __restrict__ gradient"] if gradient else []
    inputs += ["const R* __restrict__ rate"] if how.has_rate else []
    inputs += ["const i64* __restrict__ step"] if how.has_step else []
    inputs += [f"const double* __restrict__ {name}" for name in how.further]
    inputs += [f"const S* __restrict__ slot{k}" for k in slots]
    outputs = ["P* __restrict__ new_p", *(f"S* __restrict__ new_slot{k}" for k in slots)]
    parts = {
        "PARAMETERS": ", ".join([*inputs, *outputs]),
        "CONSTANTS": "".join(f", double {name}" for name in how.constants),
        "RATE": _if(how.has_rate, "S lr = (S)*rate;"),
        "SETUP": how.setup,
        "BODY": how.body,
        "LOAD_VECTORS": _if(gradient, "Ps gs = ((const Ps*)gradient)[i];")
        + "".join(f"Ss v{k} = ((const Ss*)slot{k})[i];" for k in slots),
        "LOAD_FROM_VECTORS": _if(gradient, "S g = widen(gs.v[j]);")
        + "".join(f"S s{k} = v{k}.v[j];" for k in slots),
        "STORE_TO_VECTORS": "".join(f"v{k}.v[j] = s{k};" for k in slots),
        "STORE_VECTORS": "".join(f"((Ss*)new_slot{k})[i] = v{k};" for k in slots),
        "LOAD": _if(gradient, "S g = widen(gradient[i]);")
        + "".join(f"S s{k} = slot{k}[i];" for k in slots),
        "STORE": "".join(f"new_slot{k}[i] = s{k};" for k in slots),
    }
    return _filled(WHOLE_POWER + _ONE, parts)


# All pointers are aligned to 16 bytes, and the first element of a block is a multiple of N.
_MANY = r"""
typedef Vec<P, N> Ps;
typedef Vec<S, N> Ss;

// A number in single precision, or in double precision if `is_double`.
struct Number {
    const void* at;
    i64 is_double;
    __device__ __forceinline__ double operator*() const {
        return is_double ? *(const double*)at : (double)*(const float*)at;
    }
};

struct Table { P* p[T]; @COLUMNS@ i64 size[T]; int first[T]; };
struct Gradients { const P* of[T]; };

extern "C" __global__ void __launch_bounds__(256, 2) update(
    const __grid_constant__ Table table, const __grid_constant__ Gradients gradients,
    Number rate, const i64* __restrict__ step, const S* __restrict__ factor,
    i64 chunk, int tensors, int decayed, double amount, double share@FURTHER@@CONSTANTS@
) {
    S lr = (S)*rate;
    S clip = factor ? *factor : (S)1;
    @SETUP@
    int k = tensor_of_block(table.first, tensors);
    i64 begin = (i64)((int)blockIdx.x - table.first[k]) * chunk;
    i64 end = begin + chunk < table.size[k] ? begin + chunk : table.size[k];
    S decay = lr * (S)amount;
    bool decays = k < decayed;
    P* p = table.p[k];
    const P* gradient = gradients.of[k];
    @POINTERS@
    @AT_TENSOR@
    i64 vectors = end / N;
    for (i64 i = begin / N + threadIdx.x; i < vectors; i += 256) {
        Ps xs = ((const Ps*)p)[i], gs = ((const Ps*)gradient)[i];
        @LOAD_VECTORS@
        #pragma unroll
        for (int j = 0; j < N; ++j) {
            S x = widen(xs.v[j]), g = widen(gs.v[j]) * clip;
            @LOAD_FROM_VECTORS@
            if (decays) x -= decay * x;
            @BODY@
            xs.v[j] = narrow<P>(x);
            @STORE_TO_VECTORS@
        }
        @STORE_VECTORS@
    }
    for (i64 i = vectors * N + threadIdx.x; i < end; i += 256) {
        S x = widen(p[i]), g = widen(gradient[i]) * clip;
        @LOAD@
        if (decays) x -= decay * x;
        @BODY@
        @STORE@
    }
    @AT_END@
}
"""


def group_source(rule: str, averaged: bool) -> str:
    """Return the kernel `update` of a rule, which updates many variables in place.

    Its macros are P, S, N, and T, the capacity of its table in variables.
    """
    how = RULES[rule]
    slots = range(how.slots)
    written = [] if how.first else slots
    averages = averaged and not how.is_first
    further = "double*" if how.is_first else "const double* __restrict__"
    average = (
        "S a = widen(@PLACE@), y = widen(narrow<P>(x)); a = starts ? y : a + (y - a) * (S)share;"
    )
    parts = {
        "FURTHER": "".join(f", {further} {name}" for name in how.further),
        "COLUMNS": "".join(f"S* slot{k}[T]; " for k in slots) + _if(averaged, "P* average[T];"),
        "CONSTANTS": "".join(f", double {name}" for name in how.constants),
        "SETUP": how.setup,
        "BODY": how.body,
        "AT_TENSOR": how.at_tensor,
        "AT_END": how.at_end,
        "POINTERS": "".join(f"S* slot{k} = table.slot{k}[k];" for k in slots)
        + _if(averages, "P* average = table.average[k]; bool starts = *step == 1;"),
        "LOAD_VECTORS": "".join(f"Ss v{k} = ((const Ss*)slot{k})[i];" for k in slots)
        + _if(averages, "Ps as = ((const Ps*)average)[i];"),
        "LOAD_FROM_VECTORS": "".join(f"S s{k} = v{k}.v[j];" for k in slots),
        "STORE_TO_VECTORS": "".join(f"v{k}.v[j] = s{k};" for k in written)
        + _if(averages, average.replace("@PLACE@", "as.v[j]") + "as.v[j] = narrow<P>(a);"),
        "STORE_VECTORS": _if(not how.is_first, "((Ps*)p)[i] = xs;")
        + "".join(f"((Ss*)slot{k})[i] = v{k};" for k in written)
        + _if(averages, "((Ps*)average)[i] = as;"),
        "LOAD": "".join(f"S s{k} = slot{k}[i];" for k in slots),
        "STORE": _if(not how.is_first, "p[i] = narrow<P>(x);")
        + "".join(f"slot{k}[i] = s{k};" for k in written)
        + _if(averages, average.replace("@PLACE@", "average[i]") + "average[i] = narrow<P>(a);"),
    }
    sums = _if(bool(how.at_tensor), BLOCK_SUM)
    return TENSOR_OF_BLOCK + sums + _filled(WHOLE_POWER + _MANY, parts)


BLOCK_SUM = r"""
// The sum over the 256 threads of a block; thread 0 gets it.
__device__ __forceinline__ double block_sum(double sum) {
    __shared__ double sums[8];
    #pragma unroll
    for (int offset = 16; offset; offset >>= 1) sum += __shfl_down_sync(~0u, sum, offset);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x) return 0.0;
    #pragma unroll
    for (int k = 1; k < 8; ++k) sum += sums[k];
    return sum;
}
"""


def _filled(source: str, parts: dict[str, str]) -> str:
    for name, text in parts.items():
        source = source.replace(f"@{name}@", text)
    return source


def _if(is_wanted: bool, text: str) -> str:
    return text if is_wanted else ""
