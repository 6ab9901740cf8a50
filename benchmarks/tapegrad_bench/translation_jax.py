"""Kernels of JAX for primitives whose generic kernels write into arrays or are slow there.

Convolutions and pooling use the operations of `jax.lax`, and their gradients the transposes that
JAX derives. Scatters use `.at[]`.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from tapegrad.ops.convolution.generic_kernels import window_counts
from tapegrad.ops.indexing.runs import Run

Array = Any
Shape = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]
Index = tuple[Any, ...]


def jax_kernels(generic: Callable[[str], Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Return kernels by the names of primitives; `generic` finds the generic one by name."""
    windows, scatters = _Windows(), _Scatters()
    return {
        "conv": windows.conv,
        "conv_input_gradient": windows.conv_input_gradient,
        "conv_filter_gradient": windows.conv_filter_gradient,
        "max_pool": windows.max_pool,
        "avg_pool": windows.avg_pool,
        "avg_pool_gradient": windows.avg_pool_gradient,
        "pool_scatter": scatters.pool_scatter,
        "unslice": scatters.unslice,
        "slice_set": scatters.slice_set,
        "take_add": scatters.take_add,
        "take_runs_add": scatters.take_runs_add,
        "scatter_along_axis": scatters.along_axis,
        "segment_sum": scatters.segment_sum,
        "linear_recurrence": _linear_recurrence,
        "float_exponent": _float_exponent,
        "polygamma": _polygamma,
        "sqrtm": lambda x: _complex_sqrtm(x) if x.dtype.kind == "c" else generic("sqrtm")(x),
        "logm": lambda x: _complex_logm(x) if x.dtype.kind == "c" else generic("logm")(x),
        "schur": _schur,
        "schur_real": _schur,
        "igamma_grad_a": _broadcasting("igamma_grad_a"),
        "random_gamma_grad": _broadcasting("random_gamma_grad"),
    }


class _Windows:
    """Convolutions and pooling over `x[n, *spatial, c]`."""

    def __init__(self) -> None:
        self.jax: Any = importlib.import_module("jax")
        self.lax: Any = self.jax.lax
        self.jnp: Any = importlib.import_module("jax.numpy")

    def conv(
        self, x: Array, w: Array, *, strides: Shape, padding: Padding, dilation: Shape, groups: int
    ) -> Array:
        dtype = self.jnp.promote_types(x.dtype, w.dtype)
        spatial = "0123456789"[: len(strides)]
        return self.lax.conv_general_dilated(
            x.astype(dtype),
            w.astype(dtype),
            strides,
            padding,
            rhs_dilation=dilation,
            dimension_numbers=(f"N{spatial}C", f"{spatial}IO", f"N{spatial}C"),
            feature_group_count=groups,
        )

    def conv_input_gradient(
        self, t: Array, w: Array, *, input_shape: Shape, **params: Any
    ) -> Array:
        dtype = self.jnp.promote_types(t.dtype, w.dtype)
        w = w.astype(dtype)
        return self._transposed(lambda x: self.conv(x, w, **params), input_shape, t.astype(dtype))

    def conv_filter_gradient(self, x: Array, t: Array, *, window: Shape, **params: Any) -> Array:
        dtype = self.jnp.promote_types(x.dtype, t.dtype)
        x = x.astype(dtype)
        shape = (*window, x.shape[-1] // params["groups"], t.shape[-1])
        return self._transposed(lambda w: self.conv(x, w, **params), shape, t.astype(dtype))

    def _transposed(self, function: Callable[[Array], Array], shape: Shape, t: Array) -> Array:
        """Apply the transpose of a linear function of an array of this shape."""
        like = self.jax.ShapeDtypeStruct(shape, t.dtype)
        return self.jax.linear_transpose(function, like)(t)[0]

    def max_pool(
        self, x: Array, *, window: Shape, strides: Shape, padding: Padding, dilation: Shape
    ) -> tuple[Array, Array]:
        is_floating = self.jnp.issubdtype(x.dtype, self.jnp.floating)
        least = -math.inf if is_floating else self.jnp.iinfo(x.dtype).min
        counts = window_counts(x.shape[1:-1], window, strides, padding, dilation)
        best = self.lax.reduce_window(
            x,
            np.asarray(least, x.dtype),  # JAX differentiates a maximum if it knows where it begins
            self.lax.max,
            (1, *window, 1),
            (1, *strides, 1),
            ((0, 0), *padding, (0, 0)),
            window_dilation=(1, *dilation, 1),
        )
        # The positions have no derivative, and XLA removes them if nothing reads them.
        fixed, top = self.lax.stop_gradient(x), self.lax.stop_gradient(best)
        around = ((0, 0), *padding, (0, 0))
        padded = self.jnp.pad(fixed, around, constant_values=least)
        numbers = self.jnp.arange(math.prod(x.shape[1:-1])).reshape(1, *x.shape[1:-1], 1)
        places = self.jnp.pad(numbers, around, constant_values=-1)
        found = self.jnp.full(best.shape, -1, places.dtype)
        for position in reversed([*product(*map(range, window))]):
            parts = (
                slice(at * step, at * step + (count - 1) * stride + 1, stride)
                for at, step, count, stride in zip(position, dilation, counts, strides, strict=True)
            )
            covered = (slice(None), *parts, slice(None))
            candidate = padded[covered]
            is_best = (candidate == top) | ((candidate != candidate) & (top != top))
            found = self.jnp.where(is_best & (places[covered] >= 0), places[covered], found)
        return best, found

    def avg_pool(
        self,
        x: Array,
        *,
        window: Shape,
        strides: Shape,
        padding: Padding,
        count_padding: bool,
    ) -> Array:
        def window_sum(y: Array) -> Array:
            return self.lax.reduce_window(
                y,
                self.jnp.zeros((), y.dtype),
                self.lax.add,
                (1, *window, 1),
                (1, *strides, 1),
                ((0, 0), *padding, (0, 0)),
            )

        if count_padding:
            return window_sum(x) / math.prod(window)
        real = window_sum(self.jnp.ones((1, *x.shape[1:-1], 1), x.dtype))
        return window_sum(x) / self.jnp.where(real == 0, 1, real)

    def avg_pool_gradient(self, t: Array, *, spatial: Shape, **params: Any) -> Array:
        shape = (t.shape[0], *spatial, t.shape[-1])
        return self._transposed(lambda x: self.avg_pool(x, **params), shape, t)


class _Scatters:
    """Writes into parts of arrays. Indices out of range are dropped."""

    def __init__(self) -> None:
        self.jnp: Any = importlib.import_module("jax.numpy")

    def unslice(self, t: Array, *, index: Index, shape: Shape) -> Array:
        return self.slice_set(self.jnp.zeros(shape, t.dtype), t, index=index)

    def slice_set(self, x: Array, v: Array, *, index: Index) -> Array:
        return x.at[index].set(v)

    def take_add(self, t: Array, indices: Array, *, axis: int, size: int) -> Array:
        outer, inner = t.shape[:axis], t.shape[axis + indices.ndim :]
        rows = t.reshape((*outer, math.prod(indices.shape), *inner))
        zeros = self.jnp.zeros((*outer, size, *inner), t.dtype)
        return zeros.at[(*[slice(None)] * axis, indices.reshape(-1))].add(rows, mode="drop")

    def take_runs_add(self, t: Array, *, axis: int, runs: tuple[Run, ...], size: int) -> Array:
        places = [first + step * k for first, step, count in runs for k in range(count)]
        return self.take_add(t, np.array(places), axis=axis, size=size)

    def along_axis(
        self, t: Array, indices: Array, *, axis: int, length: int, unique: bool
    ) -> Array:
        shape = list(t.shape)
        shape[axis] = length
        grid = list(self.jnp.indices(t.shape, sparse=True))
        grid[axis] = self.jnp.broadcast_to(indices, t.shape)
        zeros = self.jnp.zeros(shape, t.dtype)
        return zeros.at[tuple(grid)].add(t, mode="drop", unique_indices=unique)

    def segment_sum(self, x: Array, ids: Array, *, num: int) -> Array:
        # A negative index would count from the end.
        rows = self.jnp.where(ids < 0, num, ids)
        return self.jnp.zeros((num, *x.shape[1:]), x.dtype).at[rows].add(x, mode="drop")

    def pool_scatter(self, t: Array, indices: Array, *, spatial: Shape) -> Array:
        n, channels = t.shape[0], t.shape[-1]
        zeros = self.jnp.zeros((n, math.prod(spatial), channels), t.dtype)
        image = self.jnp.arange(n).reshape(n, 1, 1)
        places = indices.reshape(n, -1, channels)
        total = zeros.at[image, places, self.jnp.arange(channels)].add(t.reshape(n, -1, channels))
        return total.reshape(n, *spatial, channels)


def _linear_recurrence(a: Array, b: Array, *, axis: int, reverse: bool) -> Array:
    lax: Any = importlib.import_module("jax.lax")

    def joined(first: Any, second: Any) -> Any:
        return first[0] * second[0], second[0] * first[1] + second[1]

    a, b = (x.astype("float32") if x.dtype.itemsize == 2 else x for x in (a, b))
    return lax.associative_scan(joined, (a, b), axis=axis, reverse=reverse)[1]


def _float_exponent(x: Array) -> Array:
    jnp: Any = importlib.import_module("jax.numpy")
    return jnp.where(jnp.isfinite(x), jnp.frexp(x)[1], 0)


def _polygamma(n: Array, x: Array) -> Array:
    special: Any = importlib.import_module("jax.scipy.special")
    whole = n if isinstance(n, int) else n.astype("int64")
    return special.polygamma(whole, x)


def _complex_sqrtm(x: Array) -> Array:
    linalg: Any = importlib.import_module("jax.scipy.linalg")
    jnp: Any = importlib.import_module("jax.numpy")
    return jnp.vectorize(linalg.sqrtm, signature="(n,n)->(n,n)")(x)


def _complex_logm(x: Array) -> Array:
    """Take square roots, then integrate z / (1 + s z) over s from 0 to 1, which is log(1 + z)."""
    jnp: Any = importlib.import_module("jax.numpy")
    roots = 10
    for _ in range(roots):
        x = _complex_sqrtm(x)
    one = jnp.eye(x.shape[-1], dtype=x.dtype)
    nodes, weights = np.polynomial.legendre.leggauss(8)
    terms = [
        jnp.linalg.solve(one + (x - one) * ((node + 1) / 2), x - one) * (weight / 2)
        for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True)
    ]
    return sum(terms) * 2.0**roots


def _schur(x: Array) -> tuple[Array, Array]:
    linalg: Any = importlib.import_module("jax.lax").linalg
    form, vectors = linalg.schur(x, compute_schur_vectors=True)
    return form, vectors


def _broadcasting(name: str) -> Callable[..., Any]:
    """Return a function of jax.lax, whose operands must have one shape, for any that broadcast."""
    lax: Any = importlib.import_module("jax.lax")
    jnp: Any = importlib.import_module("jax.numpy")
    return lambda *arrays: getattr(lax, name)(*jnp.broadcast_arrays(*arrays))
