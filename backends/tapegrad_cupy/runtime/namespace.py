"""CuPy with the function names of the Array API, which the generic kernels use."""

from __future__ import annotations

from typing import Any

import cupy

_CREATORS = frozenset({"arange", "asarray", "empty", "eye", "full", "linspace", "ones", "zeros"})
_ALIASES = {
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "bool": "bool_",
    "concat": "concatenate",
    "permute_dims": "transpose",
    "pow": "power",
}
_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "fV",  # bfloat16 has NumPy's kind V
    "complex floating": "c",
    "numeric": "iufcV",
}


class CupyNamespace:
    """`cupy` with the Array API's names; new arrays are created on the current device."""

    __name__ = "cupy"
    linalg: Any

    def __getattr__(self, name: str) -> Any:
        function = getattr(cupy, _ALIASES.get(name, name))
        if name in _CREATORS:
            function = _without_device(function)
        setattr(self, name, function)  # later lookups skip __getattr__
        return function

    def astype(self, x: Any, dtype: Any, copy: bool = True) -> Any:
        return x.astype(dtype, copy=copy)

    def isdtype(self, dtype: Any, kind: Any) -> bool:
        kinds = kind if isinstance(kind, tuple) else (kind,)
        return any(dtype.kind in _KINDS[k] if isinstance(k, str) else dtype == k for k in kinds)

    def matrix_transpose(self, x: Any) -> Any:
        return x.swapaxes(-1, -2)

    def cumulative_sum(
        self, x: Any, *, axis: int, dtype: Any = None, include_initial: bool = False
    ) -> Any:
        return _running(cupy.cumsum(x, axis=axis, dtype=dtype), axis, 0, include_initial)

    def cumulative_prod(
        self, x: Any, *, axis: int, dtype: Any = None, include_initial: bool = False
    ) -> Any:
        return _running(cupy.cumprod(x, axis=axis, dtype=dtype), axis, 1, include_initial)

    def vecdot(self, x1: Any, x2: Any, *, axis: int = -1) -> Any:
        return (x1.conj() * x2).sum(axis=axis)

    def argsort(
        self, x: Any, *, axis: int = -1, descending: bool = False, stable: bool = True
    ) -> Any:
        if not descending:
            return cupy.argsort(x, axis=axis, kind="stable")
        # Reversing before and after the sort keeps the order of equal elements.
        order = cupy.argsort(cupy.flip(x, axis=axis), axis=axis, kind="stable")
        return x.shape[axis] - 1 - cupy.flip(order, axis=axis)

    def sort(self, x: Any, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
        ordered = cupy.sort(x, axis=axis)
        return cupy.flip(ordered, axis=axis) if descending else ordered


class _Linalg:
    """`cupy.linalg` with the functions that only the Array API has."""

    def __getattr__(self, name: str) -> Any:
        return getattr(cupy.linalg, name)

    def svdvals(self, x: Any) -> Any:
        return cupy.linalg.svd(x, compute_uv=False)

    def pinv(self, x: Any, *, rtol: float | None = None) -> Any:
        return cupy.linalg.pinv(x) if rtol is None else cupy.linalg.pinv(x, rcond=rtol)

    def solve(self, a: Any, b: Any) -> Any:
        """Solve stacks of systems with broadcasting, which CuPy lacks."""
        lead = cupy.broadcast_shapes(a.shape[:-2], b.shape[:-2]) if b.ndim > 1 else ()
        if b.ndim > 1:
            a = cupy.broadcast_to(a, (*lead, *a.shape[-2:]))
            b = cupy.broadcast_to(b, (*lead, *b.shape[-2:]))
        return cupy.linalg.solve(a, b)


CupyNamespace.linalg = _Linalg()


def _running(result: Any, axis: int, start: int, include_initial: bool) -> Any:
    """Prepend the initial value if `include_initial`."""
    if not include_initial:
        return result
    shape = list(result.shape)
    shape[axis] = 1
    return cupy.concatenate([cupy.full(shape, start, dtype=result.dtype), result], axis=axis)


def _without_device(function: Any) -> Any:
    """Accept and ignore `device`; CuPy's creation functions use the current device."""

    def create(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return create
