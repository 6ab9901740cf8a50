"""Optimizer steps of many variables in one launch or two, in place where nobody can see it.

Values read from a variable never change. So an array is written to only if it owns its memory and
nobody but the variable holds it: neither a tensor that was read, nor a tape that saved it, nor a
view. Python's reference counts of the array, of its pointer and of its memory say so. What somebody
holds is copied first. Threads that read a variable while another one steps must take turns with it.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_
from sys import getrefcount
from typing import Any

import cupy
import numpy as np

from tapegrad.errors import ShapeError
from tapegrad_cupy.compiled import (
    C_TYPES,
    FLOATS,
    THREADS,
    Source,
    compiled,
    complete,
    wide_dtype,
    wide_name,
)
from tapegrad_cupy.launch import Kernel
from tapegrad_cupy.updates.multi_norms import clip_factor
from tapegrad_cupy.updates.multi_tensors import Layout, capacities, layout, on_device, readable
from tapegrad_cupy.updates.updates import is_float, readable_rate
from tapegrad_cupy.updates.updates_source import RULES, group_source, rule_for

Array = Any

_current_device = cupy.cuda.runtime.getDevice


def update_group(
    name: str, arrays: Sequence[Array], variables: int, averaged: bool
) -> UpdateGroup | None:
    """Return what makes the step of the primitive `name` on these arrays, or None.

    They come column by column: the parameters of that many variables, then each of their slots,
    then their averages if there are any.
    """
    p, wide = arrays[0], wide_dtype(arrays[0].dtype)
    if not is_float(p.dtype):
        return None
    columns = len(arrays) // variables
    kinds = [p.dtype, *[wide] * (columns - 1 - averaged), *[p.dtype] * averaged]
    wanted = [kind for kind in kinds for _ in range(variables)]
    if any(array.dtype != kind for array, kind in zip(arrays, wanted, strict=True)):
        return None
    return UpdateGroup(name, p, variables, columns, averaged)


class UpdateGroup:
    """A step of variables on one device; keeps their arrays and where they lie between steps."""

    def __init__(self, name: str, p: Array, variables: int, columns: int, averaged: bool) -> None:
        self._name = name
        self._dtype = p.dtype
        self._device: int = p.data.device_id
        self._variables = variables
        self._columns = columns
        self._averaged = averaged
        self._arrays: list[Array] = []
        self._watched: list[Any] = []
        self._alone: list[int] = []
        self._layout = Layout(0, 0, [])
        self._tables: list[bytes] = []
        self._launches: dict[str, list[list[Callable[..., None]]]] = {}

    def __call__(
        self,
        arrays: list[Array],
        gradients: Sequence[Array],
        rate: Array,
        count: Array,
        params: Mapping[str, Any],
        *,
        amount: float = 0.0,
        decayed: int = 0,
        share: float = 0.0,
        factor: Array = None,
        further: Sequence[Array] = (),
    ) -> list[Array]:
        """Make a step and return the arrays that hold its result: the same list if none is new.

        Each array must be held by its variable and by the list, which nothing else may hold. The
        first `decayed` variables are shrunk by `rate * amount`; averages move by `share` towards
        the new values, and start there where `count` is 1; gradients are multiplied by `factor`;
        `further` are numbers in double precision that the rule reads.
        """
        if _current_device() != self._device:
            with on_device(self._device):
                clipped = {"factor": factor, "further": further}
                options = {"amount": amount, "decayed": decayed, "share": share, **clipped}
                return self(arrays, gradients, rate, count, params, **options)
        rate = readable_rate(rate)
        dtype = self._dtype
        if any([gradient.dtype is not dtype for gradient in gradients]):
            gradients = [gradient.astype(dtype, copy=False) for gradient in gradients]
        _kept, places = readable(gradients)
        if not self._may_write_to(arrays):
            arrays = self._adopt(arrays)
        rule, constants = rule_for(self._name, params, self._columns - 1 - self._averaged)
        launches = self._launches.get(rule) or self._prepare(rule)
        scalars = (rate.data.ptr, rate.dtype.itemsize == 8, count.data.ptr)
        chunk, _, parts = self._layout
        if RULES[rule].first:
            most = max([part.blocks for part in parts], default=0)
            further = (cupy.ndarray((most, 2), np.float64),)
        at_further = [number.data.ptr for number in further]
        at_factor = 0 if factor is None else factor.data.ptr
        for part, table, in_order in zip(parts, self._tables, launches):
            length, shrunk = len(part.positions), bisect_left(part.positions, decayed)
            for launch in in_order:
                launch(
                    table, part.column(places), *scalars, at_factor, chunk, length, shrunk,
                    amount, share, *at_further, *constants,
                )  # fmt: skip
        return arrays

    def factor(self, gradients: Sequence[Array], limit: float) -> Array:
        """Return what to multiply the gradients by so that their global norm is at most `limit`."""
        with on_device(self._device):
            return clip_factor(gradients, limit)

    def _may_write_to(self, arrays: list[Array]) -> bool:
        """Whether these are the arrays of the last step, and nobody has got hold of them since."""
        mine = self._arrays
        return (
            len(mine) == len(arrays)
            and all(map(is_, arrays, mine))
            and [*map(getrefcount, self._watched)] == self._alone
        )

    def _adopt(self, arrays: list[Array]) -> list[Array]:
        """Return arrays that may be written to, copies of those that may not, and remember them."""
        self._arrays, self._watched, self._launches = [], [], {}
        self._check_shapes(arrays)
        alone = _counts_of_one_alone()
        filled = [at for at, array in enumerate(arrays) if array.size]
        watched = _watched([arrays[at] for at in filled])
        counts = [*map(getrefcount, watched)]
        length = len(filled)
        ours = [
            tuple(counts[k::length]) == alone and _owns_memory(array)
            for k, array in enumerate(watched[:length])
        ]
        new = list(arrays)
        for at, is_ours in zip(filled, ours, strict=True):
            if not is_ours:
                new[at] = arrays[at].copy(order="C")
        self._plan(new)
        self._arrays = new
        self._watched = _watched([new[at] for at in filled])
        # The list of arrays is one more that holds them.
        self._alone = [alone[0] + 1] * length + [alone[1]] * length + [alone[2]] * length
        return list(new)

    def _check_shapes(self, arrays: Sequence[Array]) -> None:
        for at, array in enumerate(arrays):
            shape = arrays[at % self._variables].shape
            if array.shape != shape:
                raise ShapeError(
                    f"A variable has shape {shape} and a slot that the optimizer keeps for it "
                    f"has {array.shape}. Make a new optimizer after changing a variable's shape."
                )

    def _plan(self, arrays: Sequence[Array]) -> None:
        """Lay out the launches for arrays that stay where they are."""
        variables = self._variables
        sizes = tuple([array.size for array in arrays[:variables]])
        # The gradients, which come each time anew, are one more column.
        self._layout = layout(sizes, 16 // self._dtype.itemsize, self._columns + 1)
        places = [array.data.ptr for array in arrays]
        columns = [places[k : k + variables] for k in range(0, len(places), variables)]
        self._tables = [part.table(*columns) for part in self._layout.parts]

    def _prepare(self, rule: str) -> list[list[Callable[..., None]]]:
        dtype, capacity = self._dtype, self._layout.capacity
        kernels = [_kernel(rule, dtype, self._averaged, capacity)]
        if RULES[rule].first:
            # Both read the same table, in which the averages come last.
            kernels.insert(0, _kernel(RULES[rule].first, dtype, self._averaged, capacity))
        parts = self._layout.parts
        launches = [[k.launcher(part.blocks, THREADS) for k in kernels] for part in parts]
        self._launches[rule] = launches
        return launches


def _watched(arrays: Sequence[Array]) -> list[Any]:
    """The arrays, their pointers and their memory: whoever sees the values holds one of them."""
    pointers = [array.data for array in arrays]
    return [*arrays, *pointers, *[pointer.mem for pointer in pointers]]


def _counts_of_one_alone() -> tuple[int, ...]:
    """Reference counts of an array, its pointer and its memory, held by one name and two lists.

    The name stands for a variable. Python's versions count differently, so it is tried out.
    """
    array = cupy.ndarray(1, np.uint8)
    arrays = [array]
    watched = _watched(arrays)
    return tuple(map(getrefcount, watched))


@functools.cache
def _own_memory() -> type:
    """The type of memory that CuPy's allocator gives, as opposed to what other libraries lend."""
    return type(cupy.ndarray(1, np.uint8).data.mem)


def _owns_memory(array: Array) -> bool:
    """Whether an array is no view, fills its memory in order, and got it from the allocator."""
    pointer = array.data
    return (
        array.base is None
        and array._c_contiguous
        and not pointer.ptr & 15
        and type(pointer.mem) is _own_memory()
    )


def _macros(dtype: str, capacity: int) -> dict[str, str | int]:
    types = {"P": C_TYPES[dtype], "S": C_TYPES[wide_name(dtype)]}
    return {**types, "N": 16 // FLOATS[dtype], "T": capacity}


@functools.cache
def _kernel(rule: str, dtype: np.dtype[Any], averaged: bool, capacity: int) -> Kernel:
    """Return the kernel of a rule; its table has one more column for the gradients."""
    columns = 1 + RULES[rule].slots + averaged
    table = f"{columns * capacity * 8 + capacity * 12}s{capacity * 8}s"
    numbers = "PqPPqiidd" + "P" * len(RULES[rule].further) + "d" * len(RULES[rule].constants)
    source, macros = group_source(rule, averaged), _macros(dtype.name, capacity)
    return Kernel(lambda: compiled(source, "update", **macros), table + numbers)


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for rule in [rule for rule, how in RULES.items() if how.has_gradient and how.has_rate]:
        for averaged in (False, True):
            capacity = capacities(2 + RULES[rule].slots + averaged)[1]
            source = group_source(rule, averaged)
            for dtype in FLOATS:
                text = complete(source, **_macros(dtype, capacity))
                yield Source(f"update_group_{rule} {dtype}{' averaged' * averaged}", text)


KERNELS = {"update.group": update_group}
