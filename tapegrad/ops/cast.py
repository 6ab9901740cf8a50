"""Changing the data type."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.backend import backend_of
from tapegrad.core.dtypes import as_dtype, numpy_dtype
from tapegrad.core.families import Function, nondifferentiable
from tapegrad.core.fastpath import one_operand
from tapegrad.core.operand import as_operand
from tapegrad.core.primitive import PRIMITIVES, Primitive, record
from tapegrad.core.recorder import active_stack
from tapegrad.core.tensor import Tensor, wrap
from tapegrad.core.variable import Variable
from tapegrad.ops.casts_ahead import cast_ahead
from tapegrad.ops.stop_gradient import identity


def _astype(xp: Any, x: Any, *, dtype: np.dtype[Any]) -> Any:
    if _kind(x) == "c" and as_dtype(dtype).kind != "c":
        x = xp.real(x)
    return xp.astype(x, dtype)


def _kind(array: Any) -> str:
    return as_dtype(backend_of(array).dtype_of(array)).kind


def _batch(primitive: Primitive) -> Any:
    return lambda size, batched, x, *, dtype: primitive(x, dtype=dtype)


cast_p = Primitive("cast", _astype)
cast_p.by_element = True
# The sweep brings every gradient to the dtype of its input, so the cotangent passes as it is.
cast_p.vjps(lambda t: t)
cast_p.jvps(lambda t, *, dtype: cast_p(t, dtype=dtype))
cast_p.batch(_batch(cast_p))

cast_to_integer_p = nondifferentiable("cast_to_integer", _astype, by_element=True)
cast_to_integer_p.batch(_batch(cast_to_integer_p))


_by_name: dict[str, tuple[Function, np.dtype[Any]]] = {}


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """Return `x` with another dtype; casts to integers and booleans have no derivative.

    What has the dtype already is not copied.

    >>> cast([1.5, 2.5], "int32").tolist()
    [1, 2]
    """
    known = _by_name.get(dtype) if type(dtype) is str else None
    if known is not None and type(x) in (Tensor, Variable):
        short, own = known
        given = x.array.dtype
        if isinstance(given, np.dtype) and given == own:
            return _same(x)
        return short(x) if type(x) is Tensor else _cast_variable(x, short, own)
    wanted = as_dtype(dtype)
    if type(x) in (Tensor, Variable) and x.dtype == wanted:
        return _same(x)
    primitive = cast_p if wanted.is_differentiable else cast_to_integer_p
    if type(dtype) is str:
        _by_name[dtype] = one_operand(primitive, {"dtype": wanted.dtype}), wanted.dtype
    return primitive(as_operand(x), dtype=wanted.dtype)


def in_dtype(x: Any, dtype: Any) -> Any:
    """Return an operand in a dtype: itself where it has it, of which `cast` would make another."""
    own = x.dtype
    # In this order it takes the least time: dtypes are mostly the same object, or given by name.
    return x if own is dtype or own.name == dtype or own == dtype else cast(x, dtype)


def _cast_variable(x: Variable, short: Function, dtype: np.dtype[Any]) -> Any:
    """Cast a variable, with others that the last tape saw cast where that is one launch.

    The result of such a cast is a leaf itself, unless the variable was read before: then all that
    arrives for it is added up in one place.
    """
    stack = active_stack()
    if not stack.tokens or stack.listeners or stack.framed or dtype.itemsize != 2:
        return short(x)
    result = cast_ahead(x, dtype, stack)
    if result is None:
        return short(x)
    if not x.was_read(stack):
        node = x.new_leaf(stack)
        if node is not None:
            node.fit = x.array.dtype
        return wrap(result, node)
    source = x.leaf(stack)
    if source is None:
        return wrap(result)
    return wrap(result, record(stack, cast_p, {"dtype": dtype}, (x.array,), (source,), result))


def _same(x: Any) -> Any:
    """The value as a tensor of its own, in its gradient and when somebody writes into it."""
    x = x if type(x) is Tensor else x.value()
    if type(x) is not Tensor:  # a variable inside vmap
        return x
    if x.node is None:
        return wrap(x.array)
    primitive = PRIMITIVES[identity.__name__]
    return wrap(x.array, record(active_stack(), primitive, {}, (x.array,), (x.node,), x.array))


def cast_like(x: Any, dtype: Any) -> Any:
    """Bring a gradient to its input's dtype (a backend's own dtype object is fine)."""
    if type(x) in cast_p.kernels and isinstance(dtype, np.dtype):
        return cast_p.kernels[type(x)](x, dtype=dtype)
    try:
        wanted = numpy_dtype(dtype)
    except TypeError:
        wanted = np.dtype(str(dtype).rpartition(".")[2])
    return cast_p(x, dtype=wanted)
