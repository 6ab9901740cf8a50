"""Special functions: those of CuPy where they are precise, otherwise those of the NumPy backend.

Each kernel takes arrays that broadcast, of any floating dtype or integers. It returns an array of
the widest floating dtype among them, or float64. Each function is compiled at its first call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import cupy as xp
import numpy as np
from cupyx.scipy import special as cupy_special

from tapegrad_cupy.kernels.elementwise.pointwise import Pointwise
from tapegrad_cupy.kernels.special.special_bessel import bessel_source, modified_bessel_source
from tapegrad_cupy.kernels.special.special_gamma import gamma_source
from tapegrad_cupy.kernels.special.special_incomplete import (
    incomplete_beta_source,
    incomplete_gamma_source,
)
from tapegrad_cupy.kernels.special.special_integrals import integrals_source
from tapegrad_cupy.launch.cuda_source import Source

Array = Any
Axes = tuple[int, ...]
Formula = Callable[..., Array]

_FLOATS = ("bfloat16", "float16", "float32", "float64")
_ARGUMENTS = ("a", "b", "c")

_CUPY = ("erf", "erfc", "erfcx", "erfinv", "erfcinv", "ndtr", "ndtri", "log_ndtr")

# The functions that each source defines, with the number of their arguments.
_SOURCES: tuple[tuple[Callable[[], str], dict[str, int]], ...] = (
    (gamma_source, {"lgamma": 1, "digamma": 1, "polygamma": 2, "zeta": 2, "lbeta": 2}),
    (
        incomplete_gamma_source,
        {"igamma": 2, "igammac": 2, "igamma_grad_a": 2, "random_gamma_grad": 2},
    ),
    (incomplete_beta_source, {"betainc": 3}),
    (bessel_source, {"bessel_j0": 1, "bessel_j1": 1, "bessel_y0": 1, "bessel_y1": 1}),
    (
        modified_bessel_source,
        {f"bessel_{name}": 1 for name in ("i0", "i1", "i0e", "i1e", "k0", "k1", "k0e", "k1e")},
    ),
    (integrals_source, {"dawsn": 1, "expint": 1, "spence": 1, "fresnel_sin": 1, "fresnel_cos": 1}),
)


def _lift(name: str, load: Callable[[], Formula]) -> Formula:
    """Extend a function of float32 and float64 to every supported dtype."""

    def run(*args: Any) -> Array:
        dtype, work = _dtypes(name, args)
        values = [arg.astype(work, copy=False) if _is_array(arg) else arg for arg in args]
        if not any(_is_array(value) for value in values):
            values = [xp.full((), value, dtype=work) for value in values]
        return load()(*values).astype(dtype, copy=False)

    return run


def _is_array(value: Any) -> bool:
    return isinstance(value, xp.ndarray)


def _dtypes(name: str, args: tuple[Any, ...]) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Return the dtype of the result and the dtype to compute in."""
    given = [arg.dtype for arg in args if _is_array(arg)]
    for dtype in given:
        if dtype.name not in _FLOATS and dtype.kind not in "biu":
            raise TypeError(
                f"{name} takes real arrays: {', '.join(_FLOATS)} or integers. Got {dtype.name}."
            )
    floats = [dtype for dtype in given if dtype.name in _FLOATS]
    result = np.result_type(*floats) if floats else np.dtype(np.float64)
    single = len(floats) == len(given) and result.itemsize < 8
    return result, np.dtype(np.float32 if single else np.float64)


def _device_function(name: str, arity: int, source: Callable[[], str]) -> Callable[[], Formula]:
    """Return a function that creates the kernel at its first call and caches it."""

    @functools.cache
    def load() -> Formula:
        kernel: Formula = _pointwise(name, arity, source).kernel()
        return kernel

    return load


def _pointwise(name: str, arity: int, source: Callable[[], str]) -> Pointwise:
    """Return the kernel of a function, which computes in float64 as in the NumPy backend."""
    names = _ARGUMENTS[:arity]
    call = f"tapegrad::{name}({', '.join(f'(double){argument}' for argument in names)})"
    inputs = ", ".join(f"T {argument}" for argument in names)
    return Pointwise(inputs, "T y", f"y = (T){call}", f"tapegrad_{name}", source())


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for source, functions in _SOURCES:
        for name, arity in functions.items():
            for dtype in ("float32", "float64"):
                yield _pointwise(name, arity, source).source(T=dtype)


def _cupy_function(name: str) -> Callable[[], Formula]:
    function: Formula = getattr(cupy_special, name)
    return lambda: function


def any_(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    """Return whether any element along the axes is not 0."""
    return _reduce(xp.any, x, axis, keepdims)


def all_(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    """Return whether all elements along the axes are not 0."""
    return _reduce(xp.all, x, axis, keepdims)


def _reduce(reduction: Formula, x: Array, axis: Axes, keepdims: bool) -> Array:
    truth = x if x.dtype == np.bool_ else x != 0
    # CuPy treats an empty tuple of axes differently.
    return truth.copy() if axis == () else reduction(truth, axis=axis, keepdims=keepdims)


KERNELS = {
    **{name: _lift(name, _cupy_function(name)) for name in _CUPY},
    **{
        name: _lift(name, _device_function(name, arity, source))
        for source, functions in _SOURCES
        for name, arity in functions.items()
    },
    "gcd": xp.gcd,
    "lcm": xp.lcm,
    "any": any_,
    "all": all_,
}
