"""Further NumPy functions: packbits, mask_indices, shares_memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.values.convert import read_on_host
from tapegrad.numpy.creation import asarray
from tapegrad.numpy.values import as_array, refuse_order
from tapegrad.ops.creation import as_constant
from tapegrad.ops.indexing.views import share_elements

binary_repr = np.binary_repr
base_repr = np.base_repr
True_, False_ = True, False


def packbits(a: Any, /, axis: int | None = None, bitorder: Any = "big") -> Any:
    """Pack booleans into bytes.

    >>> packbits([1, 0, 0, 0, 0, 0, 0, 1]).tolist()
    [129]
    """
    return as_constant(np.packbits(read_on_host(as_array(a), "packbits()"), axis, bitorder))


def unpackbits(
    a: Any, /, axis: int | None = None, count: int | None = None, bitorder: Any = "big"
) -> Any:
    """Unpack bytes into bits.

    >>> unpackbits(asarray([129], dtype="uint8")).tolist()
    [1, 0, 0, 0, 0, 0, 0, 1]
    """
    values = read_on_host(as_array(a), "unpackbits()")
    return as_constant(np.unpackbits(values, axis, count, bitorder))


def mask_indices(n: int, mask_func: Callable[..., Any], k: Any = 0) -> tuple[Any, ...]:
    """Return the indices at which a function such as `triu` is nonzero for an n × n matrix.

    >>> import tapegrad.numpy as tnp
    >>> [part.tolist() for part in mask_indices(2, tnp.triu)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return mask_func(asarray(np.ones((n, n), int)), k).nonzero()  # type: ignore[no-any-return]


def require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Any:
    """Return `a` as an array of a dtype; the only requirement that raises is Fortran order.

    >>> require([1, 2], "float32").dtype
    <dtype: 'float32'>
    """
    wanted = [requirements] if isinstance(requirements, str) else list(requirements or ())
    names = {name.upper() for name in wanted}
    if names & {"F", "FORTRAN", "F_CONTIGUOUS"}:
        refuse_order("F")
    is_c = bool(names & {"C", "CONTIGUOUS", "C_CONTIGUOUS"})
    return asarray(a, dtype, "C" if is_c else None)


def shares_memory(a: Any, b: Any, /, max_work: int = -1) -> bool:
    """Return whether writing into one array changes the other.

    >>> x = asarray([1.0, 2.0])
    >>> shares_memory(x, x[:1]), shares_memory(x[:1], x[1:])
    (True, False)
    """
    return share_elements(a, b)


may_share_memory = shares_memory
