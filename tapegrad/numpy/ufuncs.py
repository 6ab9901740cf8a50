"""NumPy's universal functions as objects: called, or used by `reduce`, `accumulate`, `outer`.

What they compute is one of the functions in `tapegrad.ops`; here are only NumPy's parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.convert import NUMBERS
from tapegrad.core.operand import normalize_axes, normalize_axis
from tapegrad.core.tensor import Tensor
from tapegrad.errors import ArgumentError
from tapegrad.numpy.values import as_array, deliver, dtype_of, operands, selected, with_dtype
from tapegrad.ops import indexing
from tapegrad.ops.creation import full_like_p
from tapegrad.ops.joining import stack, unstack
from tapegrad.ops.shape import moveaxis, reshape

Function = Callable[..., Any]


class Unary:
    """A function of each element: `sin(x, out=None, where=True, dtype=None)`."""

    nin = 1
    nargs = 2

    def __init__(
        self, name: str, function: Function, nout: int = 1, module: str = "tapegrad.numpy"
    ) -> None:
        self.__name__ = name
        self.__module__ = module
        self.__doc__ = f"Compute {name} of each element."
        self.nout = nout
        self._function = function

    def __call__(
        self,
        x: Any,
        /,
        out: Any = None,
        *,
        where: Any = True,
        casting: str = "same_kind",
        order: str = "K",
        dtype: Any = None,
        subok: bool = True,
    ) -> Any:
        x = x if type(x) is Tensor else as_array(x)
        if dtype is not None:
            x = with_dtype(x, dtype)
        result = self._function(x)
        if out is None and where is True:
            return result
        return deliver(selected(result, where, out), out)

    def __repr__(self) -> str:
        return f"<tapegrad.numpy.{self.__name__}>"

    def __reduce__(self) -> str:
        return self.__name__


class Binary:
    """A function of two operands that broadcast, with NumPy's methods for reducing by it.

    `identity` is the result of reducing nothing. `reduction` and `running` are functions that
    reduce and accumulate over one axis at once, where there are any; `placing` one that does what
    `at` does.
    """

    nin = 2
    nargs = 3
    nout = 1

    def __init__(
        self,
        name: str,
        function: Function,
        identity: Any = None,
        reduction: Function | None = None,
        running: Function | None = None,
        placing: Function | None = None,
        module: str = "tapegrad.numpy",
    ) -> None:
        self.__name__ = name
        self.__module__ = module
        self.__doc__ = f"Compute {name} of each pair of elements."
        self.identity = identity
        self._function = function
        self._reduction = reduction
        self._running = running
        self._placing = placing

    def __call__(
        self,
        x1: Any,
        x2: Any,
        /,
        out: Any = None,
        *,
        where: Any = True,
        casting: str = "same_kind",
        order: str = "K",
        dtype: Any = None,
        subok: bool = True,
    ) -> Any:
        if type(x1) is not Tensor or type(x2) is not Tensor:
            x1, x2 = operands(x1, x2)
        if dtype is not None:
            x1, x2 = (x if type(x) in NUMBERS else with_dtype(x, dtype) for x in (x1, x2))
        result = self._function(x1, x2)
        if out is None and where is True:
            return result
        return deliver(selected(result, where, out), out)

    def reduce(
        self,
        array: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        """Combine all elements over `axis` (None: over all axes)."""
        x = with_dtype(as_array(array), dtype)
        if where is not True:
            if self.identity is None and initial is None:
                raise ArgumentError(f"{self.__name__}.reduce with where= needs initial=.")
            fill = initial if self.identity is None else self.identity
            x = selected(x, where, full_like_p(x, shape=(), value=fill, dtype=dtype_of(x)))
        axes = normalize_axes(axis, len(x.shape), f"{self.__name__}.reduce")
        if self._reduction is not None:
            result = self._reduction(x, axis=axes, keepdims=keepdims)
        else:
            result = self._fold(x, axes, keepdims)
        if initial is not None:
            result = self(initial, result)
        return deliver(result, out)

    def _fold(self, x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
        shape = tuple(1 if k in axes else n for k, n in enumerate(x.shape))
        if not keepdims:
            shape = tuple(n for k, n in enumerate(x.shape) if k not in axes)
        for axis in sorted(axes, reverse=True):
            parts = list(unstack(x, axis=axis)) if x.shape[axis] else []
            if not parts and self.identity is None:
                raise ArgumentError(f"{self.__name__}.reduce of nothing has no value.")
            if not parts:
                kept = (*x.shape[:axis], *x.shape[axis + 1 :])
                parts = [full_like_p(x, shape=kept, value=self.identity, dtype=dtype_of(x))]
            x = parts[0]
            for part in parts[1:]:
                x = self._function(x, part)
        return reshape(x, shape)

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Return what `reduce` gives of each beginning of an axis."""
        x = with_dtype(as_array(array), dtype)
        axis = normalize_axis(axis, len(x.shape), f"{self.__name__}.accumulate")
        if self._running is not None:
            return deliver(self._running(x, axis), out)
        parts = list(unstack(x, axis=axis)) if x.shape[axis] else []
        for k in range(1, len(parts)):
            parts[k] = self._function(parts[k - 1], parts[k])
        return deliver(stack(parts, axis) if parts else x, out)

    def outer(self, a: Any, b: Any, /, **options: Any) -> Any:
        """Return the function of every pair of an element of `a` with one of `b`."""
        a, b = as_array(a), as_array(b)
        return self(reshape(a, (*a.shape, *[1] * len(b.shape))), b, **options)

    def reduceat(self, array: Any, indices: Any, axis: int = 0, dtype: Any = None) -> Any:
        """Reduce the pieces of an axis that begin at `indices`."""
        x = moveaxis(with_dtype(as_array(array), dtype), axis, 0)
        starts = [int(k) for k in np.asarray(indices)]
        ends = [*starts[1:], x.shape[0]]
        pieces = [
            self.reduce(indexing.getitem(x, slice(start, end if start < end else start + 1)), 0)
            for start, end in zip(starts, ends, strict=True)
        ]
        return moveaxis(stack(pieces), 0, axis)

    def at(self, a: Any, indices: Any, b: Any) -> None:
        """Apply the function in place at `indices`, again for each time that one comes."""
        if self._placing is not None:
            a[...] = self._placing(as_array(a), indices, b)
            return
        x, places = as_array(a), np.arange(int(np.prod(tuple(a.shape)))).reshape(tuple(a.shape))
        index = indices.numpy() if isinstance(indices, Tensor) else indices
        where = places[index].reshape(-1)
        values = reshape(as_array(b) + 0 * indexing.getitem(x, index), (-1,))
        flat = reshape(x, (-1,))
        for k, place in enumerate(where.tolist()):
            changed = self._function(flat[place], values[k])
            flat = indexing.index_update(flat, place, changed)
        a[...] = reshape(flat, tuple(a.shape))

    def __repr__(self) -> str:
        return f"<tapegrad.numpy.{self.__name__}>"

    def __reduce__(self) -> str:
        return self.__name__
