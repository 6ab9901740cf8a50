"""Derivatives by NumPy arrays, returned as NumPy arrays.

Programs that hold NumPy arrays pass derivatives on to code that insists on NumPy arrays, such as
SciPy's optimizers. A derivative on a GPU stays there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.autodiff.batching import current_frame
from tapegrad.core.backend.registry import backend_of
from tapegrad.core.recorder import active_stack
from tapegrad.core.values import nest
from tapegrad.core.values.device import backend_for
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.tensor import Tensor

_ON_HOST = (np.ndarray, np.generic)


class HostArray(np.ndarray[Any, np.dtype[Any]]):
    """A NumPy array that has the method `numpy`, as tensors have. Results of it are plain arrays.

    >>> import numpy as np, tapegrad
    >>> gradient = tapegrad.grad(lambda x: (x * x).sum())(np.array([1.0, 2.0]))
    >>> gradient
    array([2., 4.])
    >>> gradient.numpy()
    array([2., 4.])
    """

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the array itself, without this method."""
        return self.view(np.ndarray)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        plain = np.asarray(array)
        return plain[()] if return_scalar else plain

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))


def as_given(derivatives: Any, given: Any) -> Any:
    """Return derivatives with respect to NumPy arrays as NumPy arrays if they are on the CPU.

    `given` are the arguments as the caller wrote them. `derivatives` has one leaf for each of
    their leaves, or that many for each output of the function. Inside of a tape, `vmap` or a
    recorded function all derivatives stay tensors, so that they can be recorded.
    """
    if isinstance(given, _ON_HOST):
        on_host = [True]
    elif nest.is_nested(given):
        on_host = [isinstance(leaf, _ON_HOST) for leaf in nest.flatten(given)]
    else:
        return derivatives
    if not any(on_host) or active_stack().recorders or current_frame() is not None:
        return derivatives
    if not nest.is_nested(derivatives):
        return _to_host(derivatives)
    leaves = nest.flatten(derivatives)
    every = len(on_host)
    moved = [_to_host(x) if on_host[i % every] else x for i, x in enumerate(leaves)]
    return nest.pack_sequence_as(derivatives, moved)


def _to_host(value: Any) -> Any:
    if not isinstance(value, Tensor | IndexedSlices):
        return value  # None, for an integer argument of vjp
    array = value.array if isinstance(value, Tensor) else value.values.array
    backend = backend_of(array)
    device = backend.device_of(array)
    # An array of a function under recording is no array of its device's backend.
    is_on_host = device == "cpu" and backend_for(device) is backend
    return np.asarray(value.numpy()).view(HostArray) if is_on_host else value
