"""Optimizer steps as one launch per variable. The arrays that come in are never written to.

The learning rate and the step count are read from the device by the kernels themselves. What the
kernels do not take (complex parameters, mixed dtypes) goes to the generic form. The variables of an
optimizer are usually moved together: see multi_updates.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cupy
import numpy as np

from tapegrad.core.primitive import PRIMITIVES
from tapegrad_cupy.compiled import (
    C_TYPES,
    FLOATS,
    FULL,
    THREADS,
    Source,
    compiled,
    complete,
    contiguous,
    is_aligned,
    wide_dtype,
    wide_name,
)
from tapegrad_cupy.launch import Kernel
from tapegrad_cupy.namespace import CupyNamespace
from tapegrad_cupy.updates.updates_source import RULES, WHOLE_POWER, Rule, rule_for, update_source

Array = Any

_xp = CupyNamespace()


@functools.cache
def _kernel(rule: str, dtype: np.dtype[Any], rate_dtype: np.dtype[Any]) -> tuple[Any, int]:
    """Return a rule's kernel, and how many elements it takes at a time."""
    macros = _macros(dtype.name, rate_dtype.name)
    return compiled(update_source(rule), "update", **macros), 16 // dtype.itemsize


def _macros(dtype: str, rate: str) -> dict[str, str | int]:
    types = {"P": dtype, "S": wide_name(dtype), "R": rate}
    return {"N": 16 // FLOATS[dtype], **{name: C_TYPES[kind] for name, kind in types.items()}}


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    yield Source("add_one", complete(_COUNT))
    yield Source("nadam_product", complete(_PRODUCT))
    for rule in [rule for rule, how in RULES.items() if not how.at_tensor]:
        rates = ("float32", "float64") if RULES[rule].has_rate else ("float32",)
        for dtype in FLOATS:
            for rate in rates:
                text = complete(update_source(rule), **_macros(dtype, rate))
                yield Source(f"update_{rule} {dtype} rate {rate}", text)


@functools.cache
def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether the kernels have parameters of this dtype."""
    return dtype.name in FLOATS


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
    name: str,
    values: Sequence[Array],
    scalars: Sequence[Array],
    slots: Sequence[Array],
    **params: Any,
) -> tuple[Array, ...]:
    """Launch an update on the parameter and its gradient, some numbers, and the slots.

    The numbers are the rate and the step, where the rule reads them, and its further ones.
    """
    if not fits(values[0], values[1:], slots):
        return generic(name, *values, *scalars, *slots, **params)
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
        blocks = min(FULL, ((vectors or count) + THREADS - 1) // THREADS)
        arrays = (*values, *scalars, *slots, *new)
        kernel((blocks,), (THREADS,), (*arrays, count, vectors, *constants))
    return tuple(new)


def _readable(rule: Rule, scalars: Sequence[Array]) -> tuple[list[Array], np.dtype[Any]]:
    """Return a rule's numbers in dtypes that its kernel reads, and that of the rate."""
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


def generic(name: str, *arrays: Array, **params: Any) -> tuple[Array, ...]:
    """Run the generic form of an update."""
    forward = PRIMITIVES[name].forward
    assert forward is not None
    new: tuple[Array, ...] = forward(_xp, *arrays, **params)
    return new


def count_update(count: Array) -> Array:
    """Return the step count plus one, which CuPy's own addition takes twice as long for."""
    new = cupy.ndarray((), np.int64)
    _count(1, 1, count.astype(np.int64, copy=False).data.ptr, new.data.ptr)
    return new


def nadam_product_update(
    product: Array, step: Array, *, beta_1: float, beta_2: float
) -> tuple[Array, ...]:
    """Return the product of momenta and what follows from it, in one launch instead of many."""
    dtype, step = product.dtype, step.astype(np.int64, copy=False)
    product = product.astype(np.float64, copy=False)
    new = [cupy.ndarray((), np.float64) for _ in range(4)]
    places = [number.data.ptr for number in new]
    _product(1, 1, product.data.ptr, step.data.ptr, *places, beta_1, beta_2)
    return tuple([number.astype(dtype, copy=False) for number in new])


_COUNT = r"""
extern "C" __global__ void add_one(const i64* __restrict__ count, i64* __restrict__ sum) {
    *sum = *count + 1;
}
"""
_count = Kernel(lambda: compiled(_COUNT, "add_one"), "PP")

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
_product = Kernel(lambda: compiled(_PRODUCT, "multiply"), "PPPPPPdd")


def _update(name: str) -> Callable[..., tuple[Array, ...]]:
    """Return the kernel of a primitive, which takes its arrays, numbers and slots in a row."""
    rule = RULES[name.removesuffix("_update")]
    arrays = 1 + rule.has_gradient
    numbers = arrays + rule.has_rate + rule.has_step + len(rule.further)

    def update(*given: Array, **params: Any) -> tuple[Array, ...]:
        return _run(name, given[:arrays], given[arrays:numbers], given[numbers:], **params)

    return update


_OF_RULES = ("adadelta", "adagrad", "adam", "adamax", "average", "decay", "ftrl", "lamb_change",
             "lion", "momentum", "nadam", "rmsprop", "sgd")  # fmt: skip

KERNELS = {
    "count_update": count_update,
    "nadam_product_update": nadam_product_update,
    **{name: _update(name) for name in [f"{rule}_update" for rule in _OF_RULES]},
}
