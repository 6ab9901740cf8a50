"""Assignment to slices of a Variable: `v[i].assign(x)`, `v[i] = x`, and the scatter methods.

The array of a Variable is replaced, never changed in place: values read earlier do not change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.recorder import EMPTY, note_cut, using_stack
from tapegrad.core.update_lock import updating
from tapegrad.core.values import host
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentTypeError
from tapegrad.ops.elementwise import arithmetic
from tapegrad.ops.indexing import scatter
from tapegrad.ops.indexing.functions import getitem, index_update
from tapegrad.ops.indexing.gather import gather, gather_nd
from tapegrad.ops.indexing.write_hook import with_number
from tapegrad.ops.shape.functions import expand_dims


class VariableSlice(Tensor):
    """The result of `v[index]`: a tensor with methods that assign to the slice."""

    __slots__ = ("index", "variable")

    index: Any
    variable: Variable

    why_read_only = (
        "This is a copy of a slice of a Variable, and writing to it would not change the "
        "Variable. Write `v[0, 1] = x` instead of `v[0][1] = x`."
    )

    def assign(
        self, value: Any, use_locking: bool = False, name: Any = None, read_value: bool = True
    ) -> Any:
        """Replace this slice of the variable; return the variable."""
        return _replace(self.variable, self.index, value, "assign", read_value)

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: Any = None, read_value: bool = True
    ) -> Any:
        """Add to this slice of the variable; return the variable."""
        with updating:
            new = _on_state(self.variable, arithmetic.add, self.index, delta, "assign_add")
            return _replace(self.variable, self.index, new, "assign_add", read_value)

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: Any = None, read_value: bool = True
    ) -> Any:
        """Subtract from this slice of the variable; return the variable."""
        with updating:
            new = _on_state(self.variable, arithmetic.subtract, self.index, delta, "assign_sub")
            return _replace(self.variable, self.index, new, "assign_sub", read_value)


def variable_getitem(variable: Variable, index: Any) -> VariableSlice:
    """Return `variable[index]` as a tensor with `assign` methods."""
    part = getitem(variable.shared_value(), index)
    result: VariableSlice = object.__new__(VariableSlice)
    result.array, result.node = part.array, part.node
    result.index, result.variable = index, variable
    return result


def variable_setitem(variable: Variable, index: Any, value: Any) -> None:
    """Do `variable[index] = value`, an assignment that no tape records."""
    _replace(variable, index, value, "assign", False)


def _on_state(
    variable: Variable, function: Callable[..., Any], index: Any, delta: Any, method: str
) -> Any:
    with using_stack(EMPTY):
        return function(getitem(wrap(variable.array), index), _detached(delta, variable, method))


def _replace(variable: Variable, index: Any, value: Any, method: str, read_value: bool) -> Any:
    with updating:
        array = with_number(variable.array, index, value)
        if array is None:
            with using_stack(EMPTY):
                new = _detached(value, variable, method)
                array = index_update(wrap(variable.array), index, new).array
        variable.array = array
    return variable._after_assign(read_value)


def _detached(value: Any, variable: Variable, method: str) -> Tensor:
    """Return a value detached from the tape, with the dtype and device of the variable."""
    node = getattr(value, "node", None)
    if node is not None:
        note_cut(f"became the state of {variable.name!r} by {method}", (node,))
    tensor: Tensor = scatter.like(value, wrap(variable.array))
    if tensor.dtype != variable.dtype:
        raise ArgumentTypeError(
            f"{method} on {variable.name!r} expects {variable.dtype}. Got {tensor.dtype}; cast it "
            f"with tapegrad.cast(x, '{variable.dtype}')."
        )
    return wrap(host.move(tensor.array, variable.device))


# Scatter methods, by the rows of IndexedSlices or by coordinates


def _rows(method: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(
        self: Variable, sparse_delta: IndexedSlices, use_locking: bool = False, name: Any = None
    ) -> Any:
        if not isinstance(sparse_delta, IndexedSlices):
            raise ArgumentTypeError(
                f"{method} needs an IndexedSlices. Got {type(sparse_delta).__name__}."
            )
        coordinates = expand_dims(sparse_delta.indices, -1)
        return _scatter(self, function, coordinates, sparse_delta.values, method)

    call.__name__ = method
    call.__doc__ = f"Apply {method.removeprefix('scatter_')} at the rows of an IndexedSlices."
    return call


def _slices(method: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Variable, indices: Any, updates: Any, name: Any = None) -> Any:
        return _scatter(self, function, indices, updates, method)

    call.__name__ = method
    call.__doc__ = f"Apply {method.removeprefix('scatter_nd_')} at coordinates."
    return call


def _scatter(
    variable: Variable, function: Callable[..., Any], indices: Any, updates: Any, method: str
) -> Any:
    with updating, using_stack(EMPTY):
        plain = _detached(updates, variable, method)
        variable.array = function(wrap(variable.array), indices, plain).array
    return variable._after_assign(True)


def _scatter_multiply(tensor: Any, indices: Any, updates: Any) -> Any:
    return _scatter_by_rounds(arithmetic.multiply, tensor, indices, updates)


def _scatter_divide(tensor: Any, indices: Any, updates: Any) -> Any:
    return _scatter_by_rounds(arithmetic.divide, tensor, indices, updates)


def _scatter_by_rounds(
    function: Callable[..., Any], tensor: Any, indices: Any, updates: Any
) -> Any:
    """Apply a function to all rows at once, with further rounds for repeated rows."""
    wanted = read_on_host(indices, "scatter_mul() or scatter_div()").reshape(-1)
    rounds = _occurrences(wanted)
    for number in range(int(rounds.max(initial=-1)) + 1):
        chosen = np.flatnonzero(rounds == number)
        rows = wanted[chosen].reshape(-1, 1)
        new = function(gather_nd(tensor, rows), getitem(updates, chosen))
        tensor = scatter.tensor_scatter_nd_update(tensor, rows, new)
    return tensor


def _occurrences(values: np.ndarray) -> np.ndarray:
    """Return for each value the number of its earlier occurrences."""
    seen: dict[int, int] = {}
    counts = np.zeros(values.size, np.int64)
    for position, value in enumerate(values.tolist()):
        counts[position] = seen.get(value, 0)
        seen[value] = int(counts[position]) + 1
    return counts


def _sparse_read(self: Variable, indices: Any, name: Any = None) -> Any:
    """Return rows of the variable; the gradient is an IndexedSlices."""
    return gather(self, indices)


def _gather_nd(self: Variable, indices: Any, name: Any = None) -> Any:
    """Return slices of the variable at coordinates."""
    return gather_nd(self, indices)


METHODS: dict[str, Callable[..., Any]] = {
    "scatter_update": _rows("scatter_update", scatter.tensor_scatter_nd_update),
    "scatter_add": _rows("scatter_add", scatter.tensor_scatter_nd_add),
    "scatter_sub": _rows("scatter_sub", scatter.tensor_scatter_nd_sub),
    "scatter_mul": _rows("scatter_mul", _scatter_multiply),
    "scatter_div": _rows("scatter_div", _scatter_divide),
    "scatter_min": _rows("scatter_min", scatter.tensor_scatter_nd_min),
    "scatter_max": _rows("scatter_max", scatter.tensor_scatter_nd_max),
    "scatter_nd_update": _slices("scatter_nd_update", scatter.tensor_scatter_nd_update),
    "scatter_nd_add": _slices("scatter_nd_add", scatter.tensor_scatter_nd_add),
    "scatter_nd_sub": _slices("scatter_nd_sub", scatter.tensor_scatter_nd_sub),
    "sparse_read": _sparse_read,
    "gather_nd": _gather_nd,
}

for _name, _method in METHODS.items():
    setattr(Variable, _name, _method)
