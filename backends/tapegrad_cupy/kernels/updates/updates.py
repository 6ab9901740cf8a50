"""Optimizer steps of one variable in one launch, which never overwrites its inputs.

The kernels read the learning rate and the step count on the device. Complex parameters and mixed
dtypes are left to the generic kernels. Optimizers usually update all variables in one launch: see
multi_updates.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cupy
import numpy as np

from tapegrad_cupy.kernels.generic import run_generic
from tapegrad_cupy.kernels.updates.updates_source import (
    RULES,
    WHOLE_POWER,
    Rule,
    rule_for,
    update_source,
)
from tapegrad_cupy.launch.cuda_prelude import C_TYPES, FLOATS
from tapegrad_cupy.launch.cuda_source import (
    FULL_GRID,
    THREADS,
    Source,
    compile_kernel,
    contiguous,
    full_source,
    is_aligned,
    wide_dtype,
    wide_name,
)
from tapegrad_cupy.launch.launch import Kernel

Array = Any


@functools.cache
def _kernel(rule: str, dtype: np.dtype[Any], rate_dtype: np.dtype[Any]) -> tuple[Any, int]:
    """Return the kernel of a rule, and how many elements a thread processes at a time."""
    macros = _macros(dtype.name, rate_dtype.name)
    return compile_kernel(update_source(rule), "update", **macros), 16 // dtype.itemsize


def _macros(dtype: str, rate: str) -> dict[str, str | int]:
    types = {"P": dtype, "S": wide_name(dtype), "R": rate}
    return {"N": 16 // FLOATS[dtype], **{name: C_TYPES[kind] for name, kind in types.items()}}


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    yield Source("add_one", full_source(_COUNT))
    yield Source("nadam_product", full_source(_PRODUCT))
    for rule in [rule for rule, how in RULES.items() if not how.at_tensor]:
        rates = ("float32", "float64") if RULES[rule].has_rate else ("float32",)
        for dtype in FLOATS:
            for rate in rates:
                text = full_source(update_source(rule), **_macros(dtype, rate))
                yield Source(f"update_{rule} {dtype} rate {rate}", text)


@functools.cache
def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether the kernels take parameters of this dtype."""
    return dtype.name in FLOATS


def fits(p: Array, gradients: Sequence[Array], slots: Sequence[Array]) -> bool:
    """Return whether the kernels take these arrays."""
    dtype = p.dtype
    if not is_float(dtype):
        return False
    wide = wide_dtype(dtype)
    return all([g.dtype == dtype and g.shape == p.shape for g in gradients]) and all(
        [slot.dtype == wide and slot.shape == p.shape for slot in slots]
    )


def _run(
    name: str,
    values: Sequence[Array],
    scalars: Sequence[Array],
    slots: Sequence[Array],
    **params: Any,
) -> tuple[Array, ...]:
    """Launch an update; `values` are the parameter and its gradient.

    The scalars are the rate, the step and further numbers, as far as the rule reads them.
    """
    if not fits(values[0], values[1:], slots):
        by_generic: tuple[Array, ...] = run_generic(name, *values, *scalars, *slots, **params)
        return by_generic
    rule, constants = rule_for(name, params, len(slots))
    values = [contiguous(array) for array in values]
    slots = [contiguous(array) for array in slots]
    p = values[0]
    scalars, rate_dtype = _readable(RULES[rule], scalars)
    new = [cupy.empty(p.shape, p.dtype), *(cupy.empty(p.shape, slot.dtype) for slot in slots)]
    count = p.size
    if count:
        kernel, width = _kernel(rule, p.dtype, rate_dtype)
        vectors = count // width if is_aligned(*values, *slots) else 0
        blocks = min(FULL_GRID, ((vectors or count) + THREADS - 1) // THREADS)
        arrays = (*values, *scalars, *slots, *new)
        kernel((blocks,), (THREADS,), (*arrays, count, vectors, *constants))
    return tuple(new)


def _readable(rule: Rule, scalars: Sequence[Array]) -> tuple[list[Array], np.dtype[Any]]:
    """Return the scalars in the dtypes that the kernel of a rule reads, and that of the rate."""
    dtypes = [np.int64] * rule.has_step + [np.float64] * len(rule.further)
    rest = scalars[rule.has_rate :]
    others = [number.astype(dtype, copy=False) for number, dtype in zip(rest, dtypes, strict=True)]
    if not rule.has_rate:
        return others, np.dtype(np.float32)
    rate = readable_rate(scalars[0])
    return [rate, *others], rate.dtype


def readable_rate(rate: Array) -> Array:
    """Return a learning rate in a dtype that the kernels read."""
    return rate if rate.dtype in (np.float32, np.float64) else rate.astype(np.float64)


def count_update(count: Array) -> Array:
    """Return the step count plus one, in half the time of CuPy's addition."""
    new = cupy.ndarray((), np.int64)
    _count(1, 1, count.astype(np.int64, copy=False).data.ptr, new.data.ptr)
    return new


def nadam_product_update(
    product: Array, step: Array, *, beta_1: float, beta_2: float
) -> tuple[Array, ...]:
    """Return the product of momenta and the factors derived from it, in one launch."""
    dtype, step = product.dtype, step.astype(np.int64, copy=False)
    product = product.astype(np.float64, copy=False)
    new = [cupy.ndarray((), np.float64) for _ in range(4)]
    addresses = [number.data.ptr for number in new]
    _product(1, 1, product.data.ptr, step.data.ptr, *addresses, beta_1, beta_2)
    return tuple([number.astype(dtype, copy=False) for number in new])


_COUNT = r"""
extern "C" __global__ void add_one(const i64* __restrict__ count, i64* __restrict__ sum) {
    *sum = *count + 1;
}
"""
_count = Kernel(lambda: compile_kernel(_COUNT, "add_one"), "PP")

_MULTIPLY = r"""
extern "C" __global__ void multiply(
    const double* __restrict__ product, const i64* __restrict__ step,
    double* __restrict__ new_product, double* __restrict__ share_of_m,
    double* __restrict__ share_of_g, double* __restrict__ unbias, double beta_1, double beta_2
) {
    double power = whole_power(0.96, *step);
    double now = beta_1 * (1.0 - 0.5 * power), later = beta_1 * (1.0 - 0.5 * 0.96 * power);
    double all = *product * now;
    *new_product = all;
    *share_of_m = later / (1.0 - all * later);
    *share_of_g = (1.0 - now) / (1.0 - all);
    *unbias = 1.0 / (1.0 - whole_power(beta_2, *step));
}
"""
_PRODUCT = WHOLE_POWER + _MULTIPLY
_product = Kernel(lambda: compile_kernel(_PRODUCT, "multiply"), "PPPPPPdd")


def _update(name: str) -> Callable[..., tuple[Array, ...]]:
    """Return the kernel of a primitive, which takes arrays, scalars and slots in this order."""
    rule = RULES[name.removesuffix("_update")]
    arrays = 1 + rule.has_gradient
    numbers = arrays + rule.has_rate + rule.has_step + len(rule.further)

    def update(*given: Array, **params: Any) -> tuple[Array, ...]:
        return _run(name, given[:arrays], given[arrays:numbers], given[numbers:], **params)

    return update


_RULE_NAMES = ("adadelta", "adagrad", "adam", "adamax", "average", "decay", "ftrl", "lamb_change",
             "lion", "momentum", "nadam", "rmsprop", "sgd")  # fmt: skip

KERNELS = {
    "count_update": count_update,
    "nadam_product_update": nadam_product_update,
    **{name: _update(name) for name in [f"{rule}_update" for rule in _RULE_NAMES]},
}
