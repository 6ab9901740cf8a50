"""Kernels for all libraries of primitives whose generic kernels are for tapegrad's backends only.

Most of them call the kernels of other primitives, which they find in the peer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from tapegrad.ops.products.fused import summed_axis

Array = Any
Kernel = Callable[..., Any]


class Kernels(Protocol):
    """The library that the kernels are for."""

    namespace: Any

    def named(self, name: str) -> Kernel:
        """Return the kernel of a primitive by its name."""


def shared_kernels(peer: Kernels) -> dict[str, Kernel]:
    """Return kernels by the names of primitives."""
    xp = peer.namespace
    return {
        "square": lambda x: x * x,
        "reciprocal": lambda x: 1 / x,
        "pow": lambda x, y: x**y,
        "bitwise_invert": lambda x: ~x,
        "cast": lambda x, *, dtype: _cast(xp, x, dtype),
        "cast_to_integer": lambda x, *, dtype: _cast(xp, x, dtype),
        "to_device": lambda x, **_: x,
        "gelu": lambda x: x * peer.named("ndtr")(x),
        "gelu_slope": lambda x: _gelu_slope(peer, x),
        "random_gammas": lambda *args, **params: peer.named("random_gamma")(*args, **params),
        "random_poissons": lambda *args, **params: peer.named("random_poisson")(*args, **params),
        "reciprocal_gaps": lambda x: _reciprocal_gaps(xp, x),
        "matmul_sum": lambda *args, **params: _matmul_sum(peer, *args, **params),
        "matmul_with_sums": lambda a, b, **params: _matmul_with_sums(peer, a, b, **params),
        "sparse_cross_entropy_and_gradient": lambda x, labels, t: _with_gradient(
            peer, "sparse_cross_entropy", lambda kept: (t, kept, labels), x, labels
        ),
        "cross_entropy_and_gradient": lambda x, labels, t: _with_gradient(
            peer, "cross_entropy", lambda kept: (t, x, labels, kept), x, labels
        ),
    }


def numpy_kernels() -> dict[str, Kernel]:
    """Return kernels for NumPy, whose sorting functions have no `descending`."""
    return {
        "sort": lambda x, *, axis, descending: (
            np.flip(_sorted(x, axis), axis) if descending else _sorted(x, axis)
        ),
        "argsort": _argsort,
        "top_k": _top_k,
        "float_exponent": lambda x: np.where(np.isfinite(x), np.frexp(x)[1], 0),
    }


def _sorted(x: Array, axis: int) -> Array:
    return np.sort(x, axis=axis)


def _argsort(x: Array, *, axis: int, descending: bool, stable: bool) -> Array:
    if not descending:
        return np.argsort(x, axis=axis, stable=True)
    # Equal elements keep their order if the array is reversed before and after.
    back = np.flip(np.argsort(np.flip(x, axis), axis=axis, stable=True), axis)
    return x.shape[axis] - 1 - back


def _top_k(x: Array, *, k: int) -> tuple[Array, Array]:
    order = _argsort(x, axis=-1, descending=True, stable=True)[..., :k]
    return np.take_along_axis(x, order, axis=-1), order


def _cast(xp: Any, x: Array, dtype: Any) -> Array:
    is_complex = "complex" in str(x.dtype)  # np.isdtype refuses bfloat16
    return xp.astype(xp.real(x) if is_complex and "complex" not in str(dtype) else x, dtype)


def _gelu_slope(peer: Kernels, x: Array) -> Array:
    density = peer.namespace.exp(-0.5 * x * x) * (2 * np.pi) ** -0.5
    return peer.named("ndtr")(x) + x * density


def _reciprocal_gaps(xp: Any, x: Array) -> Array:
    """1 / (x_j - x_i), and 0 where the two are equal up to rounding."""
    gaps = x[..., None, :] - x[..., :, None]
    if x.shape[-1] == 0:
        return gaps
    scale = xp.max(xp.abs(x), axis=-1, keepdims=True)[..., None]
    rounding = xp.finfo(x.dtype).eps * x.shape[-1]
    equal = xp.abs(gaps) <= scale * rounding
    one = xp.ones_like(gaps)
    return xp.where(equal, 0 * one, one / xp.where(equal, one, gaps))


def _matmul_sum(
    peer: Kernels,
    a: Array,
    b: Array,
    *addends: Array,
    bias: bool,
    residual: bool,
    activation: str | None,
    **transposes: bool,
) -> Array:
    total = peer.named("matmul")(a, b, **transposes)
    for addend in addends:
        total = total + addend
    return total if activation is None else peer.named(activation)(total)


def _matmul_with_sums(
    peer: Kernels, a: Array, b: Array, *, of_first: bool, **transposes: bool
) -> tuple[Array, Array]:
    axis = summed_axis(**transposes, of_first=of_first)
    sums = peer.namespace.sum(a if of_first else b, axis=axis)
    return peer.named("matmul")(a, b, **transposes), sums


def _with_gradient(
    peer: Kernels, name: str, operands: Callable[[Array], tuple[Array, ...]], *args: Array
) -> tuple[Array, Array]:
    value, kept = peer.named(name)(*args)
    return value, peer.named(f"{name}_gradient")(*operands(kept))
