"""Optimizer steps as one launch per variable. The arrays that come in are never written to.

The learning rate and the step count are read from the device by the kernels themselves. What the
kernels do not take (complex parameters, mixed dtypes) goes to the generic form.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from tapegrad.core.primitive import PRIMITIVES
from tapegrad_cupy.compiled import (
    C_TYPES,
    FULL,
    THREADS,
    compiled,
    contiguous,
    is_aligned,
    wide_dtype,
)
from tapegrad_cupy.namespace import CupyNamespace

Array = Any

_xp = CupyNamespace()
_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


@dataclass(frozen=True)
class _Rule:
    """One step of one element, in CUDA C.

    `body` changes the parameter `x` and the slots `s0`, `s1`, ... by the gradient `g` and the rate
    `lr`; `constants` are what the host passes, and `setup` comes before all elements.
    """

    body: str
    constants: tuple[str, ...] = ()
    slots: int = 0
    has_gradient: bool = True
    has_step: bool = False
    setup: str = "S lr = (S)*rate;"


_ADAM_SCALE = r"""
    // In single precision 1 - beta_2 has only four digits at first.
    __shared__ S shared_scale;
    if (threadIdx.x == 0) {
        double t = (double)*step;
        double correction = sqrt(1.0 - pow(beta_2, t)) / (1.0 - pow(beta_1, t));
        shared_scale = (S)((double)*rate * correction);
    }
    __syncthreads();
    S scale = shared_scale, share_1 = (S)(1.0 - beta_1), share_2 = (S)(1.0 - beta_2);
"""
_MOMENTS = "s0 += (g - s0) * share_1; s1 += (g * g - s1) * share_2;"
_SQUARES = "s0 = (S)rho * s0 + (S)(1.0 - rho) * (g * g);"
_MEAN = "s1 = (S)rho * s1 + (S)(1.0 - rho) * g; S spread = s0 - s1 * s1;"
_BETAS = ("beta_1", "beta_2", "epsilon")

_RULES = {
    "sgd": _Rule("x -= lr * g;"),
    "decay": _Rule("x -= lr * (S)amount * x;", ("amount",), has_gradient=False),
    "momentum": _Rule("s0 = (S)momentum * s0 - lr * g; x += s0;", ("momentum",), 1),
    "nesterov": _Rule(
        "s0 = (S)momentum * s0 - lr * g; x += (S)momentum * s0 - lr * g;", ("momentum",), 1
    ),
    "adam": _Rule(
        f"{_MOMENTS} x -= scale * s0 / (sqrt(s1) + (S)epsilon);",
        _BETAS,
        2,
        has_step=True,
        setup=_ADAM_SCALE,
    ),
    "amsgrad": _Rule(
        # The larger of the two, or NaN.
        f"{_MOMENTS} s2 = s1 > s2 || s1 != s1 ? s1 : s2;x -= scale * s0 / (sqrt(s2) + (S)epsilon);",
        _BETAS,
        3,
        has_step=True,
        setup=_ADAM_SCALE,
    ),
    "rmsprop": _Rule(f"{_SQUARES} x -= lr * g / sqrt(s0 + (S)epsilon);", ("rho", "epsilon"), 1),
    "rmsprop_momentum": _Rule(
        f"{_SQUARES} s1 = (S)momentum * s1 + lr * g / sqrt(s0 + (S)epsilon); x -= s1;",
        ("rho", "epsilon", "momentum"),
        2,
    ),
    "rmsprop_centered": _Rule(
        f"{_SQUARES} {_MEAN} x -= lr * g / sqrt(spread + (S)epsilon);", ("rho", "epsilon"), 2
    ),
    "rmsprop_centered_momentum": _Rule(
        f"{_SQUARES} {_MEAN} s2 = (S)momentum * s2 + lr * g / sqrt(spread + (S)epsilon); x -= s2;",
        ("rho", "epsilon", "momentum"),
        3,
    ),
    "adagrad": _Rule("s0 += g * g; x -= lr * g / sqrt(s0 + (S)epsilon);", ("epsilon",), 1),
}

_KERNEL = r"""
// P is the parameter's type, S that of the slots, R that of the rate; N elements fill 16 bytes.
typedef Vec<P, N> Ps;
typedef Vec<S, N> Ss;

extern "C" __global__ void __launch_bounds__(256) update(
    @PARAMETERS@, i64 count, i64 vectors@CONSTANTS@
) {
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
    how = _RULES[rule]
    slots = range(how.slots)
    inputs = ["const P* __restrict__ p"]
    inputs += ["const P* __restrict__ gradient"] if how.has_gradient else []
    inputs += ["const R* __restrict__ rate"]
    inputs += ["const i64* __restrict__ step"] if how.has_step else []
    inputs += [f"const S* __restrict__ slot{k}" for k in slots]
    outputs = ["P* __restrict__ new_p", *(f"S* __restrict__ new_slot{k}" for k in slots)]
    gradient = how.has_gradient
    parts = {
        "PARAMETERS": ", ".join([*inputs, *outputs]),
        "CONSTANTS": "".join(f", double {name}" for name in how.constants),
        "SETUP": how.setup,
        "BODY": how.body,
        "LOAD_VECTORS": _lines("Ps gs = ((const Ps*)gradient)[i];", gradient)
        + "".join(f"Ss v{k} = ((const Ss*)slot{k})[i];" for k in slots),
        "LOAD_FROM_VECTORS": _lines("S g = widen(gs.v[j]);", gradient)
        + "".join(f"S s{k} = v{k}.v[j];" for k in slots),
        "STORE_TO_VECTORS": "".join(f"v{k}.v[j] = s{k};" for k in slots),
        "STORE_VECTORS": "".join(f"((Ss*)new_slot{k})[i] = v{k};" for k in slots),
        "LOAD": _lines("S g = widen(gradient[i]);", gradient)
        + "".join(f"S s{k} = slot{k}[i];" for k in slots),
        "STORE": "".join(f"new_slot{k}[i] = s{k};" for k in slots),
    }
    source = _KERNEL
    for name, text in parts.items():
        source = source.replace(f"@{name}@", text)
    return source


def _lines(text: str, is_wanted: bool) -> str:
    return text if is_wanted else ""


@functools.cache
def _kernel(rule: str, dtype: np.dtype[Any], rate_dtype: np.dtype[Any]) -> tuple[Any, int]:
    """Return a rule's kernel, and how many elements it takes at a time."""
    width = 16 // dtype.itemsize
    types = {"P": dtype, "S": wide_dtype(dtype), "R": rate_dtype}
    macros: dict[str, str | int] = {name: C_TYPES[kind.name] for name, kind in types.items()}
    return compiled(update_source(rule), "update", N=width, **macros), width


@functools.cache
def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether the kernels have parameters of this dtype."""
    return dtype.name in _FLOATS


def fits(p: Array, gradients: Sequence[Array], slots: Sequence[Array]) -> bool:
    """Whether the kernels take these arrays; all else is left to the generic form."""
    dtype = p.dtype
    if not is_float(dtype):
        return False
    wide = wide_dtype(dtype)
    return all([g.dtype == dtype and g.shape == p.shape for g in gradients]) and all(
        [slot.dtype == wide and slot.shape == p.shape for slot in slots]
    )


def _run(
    rule: str,
    values: Sequence[Array],
    scalars: Sequence[Array],
    slots: Sequence[Array] = (),
    constants: Sequence[float] = (),
) -> tuple[Array, ...]:
    """Launch a rule on the parameter and its gradient, the rate and the step, and the slots."""
    values = [contiguous(array) for array in values]
    slots = [contiguous(array) for array in slots]
    p = values[0]
    scalars = [readable_rate(scalars[0]), *(s.astype(np.int64, copy=False) for s in scalars[1:])]
    new = [cupy.empty(p.shape, p.dtype), *(cupy.empty(p.shape, slot.dtype) for slot in slots)]
    count = p.size
    if count:
        kernel, width = _kernel(rule, p.dtype, scalars[0].dtype)
        vectors = count // width if is_aligned(*values, *slots) else 0
        blocks = min(FULL, ((vectors or count) + THREADS - 1) // THREADS)
        arrays = (*values, *scalars, *slots, *new)
        kernel((blocks,), (THREADS,), (*arrays, count, vectors, *map(float, constants)))
    return tuple(new)


def readable_rate(rate: Array) -> Array:
    """Return a learning rate in a dtype that the kernels read."""
    return rate if rate.dtype in (np.float32, np.float64) else rate.astype(np.float64)


def generic(name: str, *arrays: Array, **params: Any) -> tuple[Array, ...]:
    """Run the generic form of an update."""
    forward = PRIMITIVES[name].forward
    assert forward is not None
    new: tuple[Array, ...] = forward(_xp, *arrays, **params)
    return new


def sgd_update(p: Array, g: Array, rate: Array) -> tuple[Array, ...]:
    if not fits(p, (g,), ()):
        return generic("sgd_update", p, g, rate)
    return _run("sgd", (p, g), (rate,))


def momentum_update(
    p: Array, g: Array, rate: Array, m: Array, *, momentum: float, nesterov: bool
) -> tuple[Array, ...]:
    if not fits(p, (g,), (m,)):
        params = {"momentum": momentum, "nesterov": nesterov}
        return generic("momentum_update", p, g, rate, m, **params)
    return _run("nesterov" if nesterov else "momentum", (p, g), (rate,), (m,), (momentum,))


def adam_update(
    p: Array,
    g: Array,
    rate: Array,
    step: Array,
    *slots: Array,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> tuple[Array, ...]:
    if not fits(p, (g,), slots):
        params = {"beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon}
        return generic("adam_update", p, g, rate, step, *slots, **params)
    rule = "amsgrad" if len(slots) > 2 else "adam"
    return _run(rule, (p, g), (rate, step), slots, (beta_1, beta_2, epsilon))


def rmsprop_update(
    p: Array,
    g: Array,
    rate: Array,
    *slots: Array,
    rho: float,
    momentum: float,
    epsilon: float,
    centered: bool,
) -> tuple[Array, ...]:
    if not fits(p, (g,), slots):
        params = {"rho": rho, "momentum": momentum, "epsilon": epsilon, "centered": centered}
        return generic("rmsprop_update", p, g, rate, *slots, **params)
    rule = "rmsprop" + "_centered" * bool(centered) + "_momentum" * bool(momentum)
    constants = (rho, epsilon, momentum) if momentum else (rho, epsilon)
    return _run(rule, (p, g), (rate,), slots, constants)


def adagrad_update(
    p: Array, g: Array, rate: Array, total: Array, *, epsilon: float
) -> tuple[Array, ...]:
    if not fits(p, (g,), (total,)):
        return generic("adagrad_update", p, g, rate, total, epsilon=epsilon)
    return _run("adagrad", (p, g), (rate,), (total,), (epsilon,))


def decay_update(p: Array, rate: Array, *, amount: float) -> tuple[Array, ...]:
    if not fits(p, (), ()):
        return generic("decay_update", p, rate, amount=amount)
    return _run("decay", (p,), (rate,), (), (amount,))


KERNELS: dict[str, Callable[..., Any]] = {
    "adagrad_update": adagrad_update,
    "adam_update": adam_update,
    "decay_update": decay_update,
    "momentum_update": momentum_update,
    "rmsprop_update": rmsprop_update,
    "sgd_update": sgd_update,
}
