"""Functions that only HIPS autograd has, or for which it defines another derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad import numpy as tensors
from tapegrad.compat.autograd.values import Function, raw
from tapegrad.errors import ArgumentError


def make_diagonal(D: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return matrices with the last axis of `D` on their diagonals: the inverse of diagonal.

    >>> make_diagonal([1.0, 2.0], axis1=-1, axis2=-2).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    if offset != 0:
        raise ArgumentError(f"make_diagonal supports only offset=0. Got {offset}.")
    D = tensors.asarray(D)
    square = D[..., :, None] * tensors.eye(D.shape[-1], dtype=D.dtype)
    return tensors.moveaxis(square, (-2, -1), (axis1, axis2))


def _shared_on_ties(function: Function) -> Function:
    """On a tie, each argument gets half of the gradient, as in HIPS autograd."""

    def call(x1: Any, x2: Any, /, **options: Any) -> Any:
        chosen = function(x1, x2, **options)
        if not chosen.dtype.is_differentiable:
            return chosen
        a, b = (tensors.asarray(x, dtype=chosen.dtype) for x in (x1, x2))
        return tensors.where(tensors.equal(a, b), 0.5 * a + 0.5 * b, chosen)

    return call


def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None and y is None:
        return tensors.where(condition)
    return tensors.where(condition, x, y)


def _host_where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Unlike NumPy's function, take keywords and do not convert all arguments to arrays."""
    if x is None and y is None:
        return np.where(condition)
    if isinstance(condition, bool) and not hasattr(x, "dtype") and not hasattr(y, "dtype"):
        return x if condition else y
    return np.where(condition, x, y)


def _partition(a: Any, kth: Any, axis: int | None = -1, **options: Any) -> Any:
    """The order within the parts is arbitrary; on the CPU it is NumPy's."""
    values = raw(a)
    if not isinstance(values, np.ndarray):
        return tensors.partition(a, kth, axis)
    if axis is None:
        return _partition(tensors.ravel(a), kth, 0, **options)
    return tensors.take_along_axis(a, np.argpartition(values, kth, axis, **options), axis)


def _fortran(a: Any, dtype: Any = None, **options: Any) -> Any:
    """Tensors have no memory order."""
    return tensors.asarray(a, dtype=dtype)


OWN: dict[str, Function] = {
    "asfortranarray": _fortran,
    "fmax": _shared_on_ties(tensors.fmax),
    "fmin": _shared_on_ties(tensors.fmin),
    "make_diagonal": make_diagonal,
    "maximum": _shared_on_ties(tensors.maximum),
    "minimum": _shared_on_ties(tensors.minimum),
    "partition": _partition,
    "where": _where,
}
"""Functions for traced values that take precedence over `tapegrad.numpy`."""

ON_HOST: dict[str, Function] = {"where": _host_where}
"""Functions for arrays that take precedence over NumPy's."""


def _eigh(a: Any, UPLO: str = "L") -> Any:
    """The signs of the vectors are arbitrary; on the CPU they are NumPy's."""
    found = tensors.linalg.eigh(a, UPLO)
    host, vectors = raw(a), raw(found[1])
    if UPLO.upper() != "U" or not isinstance(host, np.ndarray) or np.iscomplexobj(host):
        return found
    agrees = np.sum(np.linalg.eigh(host, "U")[1] * vectors, axis=-2, keepdims=True) >= 0.0
    return type(found)(found[0], found[1] * np.where(agrees, 1.0, -1.0))


LINALG: dict[str, Function] = {"eigh": _eigh}
"""The same for the functions of `numpy.linalg`."""


class _IntegerKind(type):
    """Makes the replacement of an integer type compare and check instances like that type."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.__mro__[1])

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.__mro__[1])


def integer_type(kind: type) -> type:
    """Return an integer type that also converts traced values to constants.

    >>> integer_type(np.int64)(2.5), isinstance(np.int64(1), integer_type(np.int64))
    (np.int64(2), True)
    """

    def new(cls: type, value: Any = 0, *args: Any) -> Any:
        return kind(raw(value), *args)

    return _IntegerKind(kind.__name__, (kind,), {"__new__": new})
