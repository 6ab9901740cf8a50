"""NumPy's universal functions as objects, with `reduce`, `accumulate`, `outer` and `at`.

The computations are those of `tapegrad.ops`; this module adds NumPy's parameters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.checked_calls import leave_unchecked
from tapegrad.core.primitive.operand import normalize_axes, normalize_axis
from tapegrad.core.values.convert import NUMBERS, to_host_array
from tapegrad.core.values.dtypes import numpy_dtype
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError, ArgumentTypeError, IndexOutOfRangeError
from tapegrad.numpy import folding, loops
from tapegrad.numpy.values import (
    as_array,
    check_cast,
    deliver,
    dtype_of,
    is_array,
    is_axis_of_number,
    operands,
    refuse_order,
    selected,
    side_by_side,
    summed_dtype,
    with_dtype,
)
from tapegrad.ops.creation import full_like_p
from tapegrad.ops.elementwise import comparison
from tapegrad.ops.indexing import functions as indexing
from tapegrad.ops.shape.functions import broadcast_to, moveaxis, reshape
from tapegrad.ops.shape.joining import stack, unstack

Function = Callable[..., Any]


def _computed(name: str, function: Function, inputs: tuple[Any, ...], **options: Any) -> Any:
    """Call a function with NumPy's options."""
    out, where, casting = options["out"], options["where"], options["casting"]
    if options["signature"] is not None:
        raise ArgumentTypeError(f"{name} does not support signature= for tensors. Use dtype=.")
    refuse_order(options["order"])
    if options["dtype"] is not None or casting != "same_kind":
        given = [type(x) if type(x) in NUMBERS else dtype_of(x) for x in inputs]
        wanted = None if options["dtype"] is None else numpy_dtype(options["dtype"])
        kinds = loops.loop_dtypes(name, tuple(given), wanted, casting)
        pairs = zip(inputs, kinds, strict=False)
        inputs = tuple([x if type(x) in NUMBERS else with_dtype(x, kind) for x, kind in pairs])
    result = function(*inputs)
    if not isinstance(result, tuple):
        return deliver(selected(result, where, out), out, casting, broadcasts=True)
    places = (None,) * len(result) if out is None else out
    parts = zip(result, places, strict=True)
    return tuple(
        [deliver(selected(part, where, to), to, casting, broadcasts=True) for part, to in parts]
    )


def _check_written(name: str, a: Any) -> None:
    if not is_array(a):
        raise ArgumentTypeError(
            f"{name}.at needs a tensor to write into if another operand is a tensor. Got "
            f"{type(a).__name__}: convert it with tapegrad.numpy.asarray."
        )


class Ufunc:
    """The common part of unary and binary ufuncs."""

    nin: int
    _each: str

    def __init__(
        self, name: str, function: Function, nout: int = 1, module: str = "tapegrad.numpy"
    ) -> None:
        self.__name__ = name
        self.__module__ = module
        self.__doc__ = f"Compute {name} of each {self._each}."
        self.nout = nout
        self.nargs = self.nin + nout
        self._function = function

    def __repr__(self) -> str:
        return f"<tapegrad.numpy.{self.__name__}>"

    def __reduce__(self) -> str:
        return self.__name__

    def _change_at(self, a: Any, places: np.ndarray, *others: Any) -> None:
        """Apply the function at `places`; repeated places are updated in several rounds."""
        x, turns = as_array(a), np.arange(places.size)
        flat = reshape(x, (-1,))
        while places.size:
            now, first = np.unique(places, return_index=True)
            changed = self._function(flat[now], *[values[turns[first]] for values in others])
            check_cast(f"{self.__name__}.at", dtype_of(changed), dtype_of(x), "same_kind")
            flat = indexing.index_update(flat, now, with_dtype(changed, dtype_of(x)))
            places, turns = np.delete(places, first), np.delete(turns, first)
        a[...] = reshape(flat, tuple(x.shape))


class Unary(Ufunc):
    """A unary ufunc: `sin(x, out=None, where=True, dtype=None)`."""

    nin = 1
    _each = "element"

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
        signature: Any = None,
    ) -> Any:
        x = x if type(x) is Tensor else as_array(x)
        plain = out is None and where is True and dtype is None and signature is None
        if plain and casting == "same_kind" and order == "K":
            return self._function(x)
        options = {"casting": casting, "order": order, "dtype": dtype, "signature": signature}
        return _computed(self.__name__, self._function, (x,), out=out, where=where, **options)

    def at(self, a: Any, indices: Any) -> None:
        """Apply the function in place at `indices`, once for each occurrence of an index."""
        _check_written(self.__name__, a)
        self._change_at(a, _chosen(as_array(a), indices).reshape(-1))


def _host_index(indices: Any) -> Any:
    """Return an index with tensors converted to NumPy arrays."""
    if isinstance(indices, tuple):
        return tuple(_host_index(part) for part in indices)
    return to_host_array(indices.numpy()) if isinstance(indices, Tensor) else indices


def _chosen(x: Any, indices: Any) -> np.ndarray:
    """Return the flat indices of the elements at `indices`."""
    chosen: np.ndarray = np.arange(x.size).reshape(tuple(x.shape))[_host_index(indices)]
    return chosen


class Binary(Ufunc):
    """A binary ufunc, with broadcasting and NumPy's methods.

    `identity` is the result of an empty reduction. `reduction` and `running` are optional functions
    that reduce and accumulate over an axis; `placing` optionally implements `at`. Several axes are
    only reduced if the function may combine elements `in_any_order`.
    """

    nin = 2
    _each = "pair of elements"

    def __init__(
        self,
        name: str,
        function: Function,
        identity: Any = None,
        reduction: Function | None = None,
        running: Function | None = None,
        placing: Function | None = None,
        in_any_order: bool = False,
        nout: int = 1,
        module: str = "tapegrad.numpy",
    ) -> None:
        super().__init__(name, function, nout, module)
        self.identity = identity
        self._reduction = reduction
        self._running = running
        self._placing = placing
        self._in_any_order = in_any_order or identity is not None or reduction is not None

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
        signature: Any = None,
    ) -> Any:
        if type(x1) is not Tensor or type(x2) is not Tensor:
            x1, x2 = operands(x1, x2)
        plain = out is None and where is True and dtype is None and signature is None
        if plain and casting == "same_kind" and order == "K":
            return self._function(x1, x2)
        options = {"casting": casting, "order": order, "dtype": dtype, "signature": signature}
        return _computed(self.__name__, self._function, (x1, x2), out=out, where=where, **options)

    def _operand(self, method: str, array: Any, dtype: Any, near: Any = None) -> Any:
        """Return the operand of a method: sums and products of small integers use 64 bits."""
        if self.nout > 1:
            raise ArgumentTypeError(f"{self.__name__}.{method} does not support two results.")
        x = as_array(array, near)
        if dtype is None and self.__name__ in ("add", "multiply"):
            return with_dtype(x, summed_dtype(x))
        wanted = None if dtype is None else numpy_dtype(dtype)
        kind = loops.reduction_dtype(self.__name__, dtype_of(x), wanted)
        if kind.kind == "b" and dtype_of(x).kind != "b":
            return comparison.not_equal(x, 0)
        return with_dtype(x, kind)

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
        """Reduce over `axis` (None: over all axes)."""
        x = self._operand("reduce", array, dtype, where)
        if where is not True and self.identity is None and initial is None:
            raise ArgumentError(f"{self.__name__}.reduce with where= needs initial=.")
        axis = () if is_axis_of_number(axis, x) else axis  # numbers have nothing to reduce
        axes = normalize_axes(axis, len(x.shape), f"{self.__name__}.reduce")
        if len(axes) > 1 and not self._in_any_order:
            raise ArgumentError(
                f"{self.__name__}.reduce depends on the order, so it takes one axis. Got {axis}."
            )
        if self._reduction is None:
            fold = folding.Fold(self.__name__, self._function, self.identity, initial)
            return deliver(fold.over(x, axes, keepdims, where), out)
        if where is not True:
            fill = initial if self.identity is None else self.identity
            x = selected(x, where, full_like_p(x, shape=(), value=fill, dtype=dtype_of(x)))
        if initial is not None and self.identity is None and 0 in [x.shape[k] for k in axes]:
            lengths = [1 if k in axes else n for k, n in enumerate(x.shape)]
            kept = [n for k, n in enumerate(lengths) if keepdims or k not in axes]
            return deliver(broadcast_to(with_dtype(as_array(initial, x), dtype_of(x)), kept), out)
        result = self._reduction(x, axis=axes, keepdims=keepdims)
        if initial is not None:
            result = self._function(with_dtype(as_array(initial, result), dtype_of(result)), result)
        return deliver(result, out)

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Return the reductions of all prefixes along an axis."""
        x = self._operand("accumulate", array, dtype)
        axis = normalize_axis(axis, len(x.shape), f"{self.__name__}.accumulate")
        if self._running is not None:
            running = self._running(x, axis)
            return deliver(running if dtype is None else with_dtype(running, dtype), out)
        parts = list(unstack(x, axis=axis)) if x.shape[axis] else []
        for k in range(1, len(parts)):
            parts[k] = self._function(parts[k - 1], parts[k])
        if len({dtype_of(part) for part in parts}) > 1:
            parts[0] = with_dtype(parts[0], dtype_of(parts[-1]))
        return deliver(stack(parts, axis) if parts else x, out)

    def outer(self, a: Any, b: Any, /, **options: Any) -> Any:
        """Apply the function to every pair of an element of `a` and an element of `b`."""
        a, b = side_by_side(a, b)
        return self(reshape(a, (*a.shape, *[1] * len(b.shape))), b, **options)

    def reduceat(
        self, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None
    ) -> Any:
        """Reduce the segments of an axis that begin at `indices`."""
        x = moveaxis(self._operand("reduceat", array, dtype), axis, 0)
        starts = [int(k) for k in np.asarray(_host_index(indices))]
        if any([not 0 <= start < x.shape[0] for start in starts]):
            raise IndexOutOfRangeError(
                f"{self.__name__}.reduceat needs indices from 0 to {x.shape[0] - 1}. Got {starts}."
            )
        if not starts:
            nothing = self.reduce(x[:0], 0, initial=0, keepdims=True)[:0]
            return deliver(moveaxis(nothing, 0, axis), out)
        ends = [*starts[1:], x.shape[0]]
        pieces = [
            self.reduce(indexing.getitem(x, slice(start, end if start < end else start + 1)), 0)
            for start, end in zip(starts, ends, strict=True)
        ]
        return deliver(moveaxis(stack(pieces), 0, axis), out)

    def at(self, a: Any, indices: Any, b: Any) -> None:
        """Apply the function in place at `indices`, once for each occurrence of an index."""
        _check_written(self.__name__, a)
        x = as_array(a)
        if self._placing is not None and np.can_cast(dtype_of(as_array(b)), dtype_of(x), "safe"):
            a[...] = self._placing(x, indices, b)
            return
        chosen = _chosen(x, indices)
        values = reshape(broadcast_to(as_array(b, x), chosen.shape), (-1,))
        self._change_at(a, chosen.reshape(-1), values)


def shorten_calls() -> None:
    """Let calls of ufuncs with tensors alone skip the parameters and the checks of their kinds.

    They are a third of the time of a small call. A call that fails is made again with the checks,
    which name the argument.
    """
    Unary.__call__ = _short_unary(Unary.__call__)  # type: ignore[method-assign]
    Binary.__call__ = _short_binary(Binary.__call__)  # type: ignore[method-assign]


def _short_unary(checked: Function) -> Function:
    @functools.wraps(checked)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        if not options and len(args) == 1 and type(args[0]) is Tensor:
            try:
                return self._function(args[0])
            except Exception:  # `checked` raises it in the words of NumPy's parameters
                pass
        return checked(self, *args, **options)

    return leave_unchecked(call)


def _short_binary(checked: Function) -> Function:
    @functools.wraps(checked)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        if not options and len(args) == 2 and type(args[0]) is type(args[1]) is Tensor:
            try:
                return self._function(*args)
            except Exception:  # as above
                pass
        return checked(self, *args, **options)

    return leave_unchecked(call)
