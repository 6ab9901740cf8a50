"""Optimizer steps of many variables in one launch or two, in place if nothing else can see it.

An array is written in place only if its variable alone holds it; otherwise it is copied first.
tapegrad/core/ownership.py explains the rule. A thread must not read a variable while another thread
updates it.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any

import cupy
import numpy as np

from tapegrad.core.ownership import reference_counts
from tapegrad.errors import ShapeError
from tapegrad_cupy.kernels.updates.multi_norms import clip_factor
from tapegrad_cupy.kernels.updates.updates import is_float, readable_rate
from tapegrad_cupy.kernels.updates.updates_source import RULES, group_source, rule_for
from tapegrad_cupy.launch.cuda_prelude import C_TYPES, FLOATS
from tapegrad_cupy.launch.cuda_source import (
    THREADS,
    Source,
    compile_kernel,
    full_source,
    wide_dtype,
    wide_name,
)
from tapegrad_cupy.launch.launch import Kernel
from tapegrad_cupy.launch.multi_tensors import Layout, aligned_inputs, capacities, layout, on_device
from tapegrad_cupy.runtime.array_references import expected_counts, owns_memory, watched

Array = Any

_current_device = cupy.cuda.runtime.getDevice


def update_group(
    name: str, arrays: Sequence[Array], variables: int, averaged: bool
) -> UpdateGroup | None:
    """Return the step of the primitive `name` on these arrays, or None if it is not supported.

    The arrays are the parameters of all variables, then each of their slots, then their averages
    if there are any.
    """
    p, wide = arrays[0], wide_dtype(arrays[0].dtype)
    if not is_float(p.dtype):
        return None
    columns = len(arrays) // variables
    dtypes = [p.dtype, *[wide] * (columns - 1 - averaged), *[p.dtype] * averaged]
    wanted = [dtype for dtype in dtypes for _ in range(variables)]
    if any(array.dtype != dtype for array, dtype in zip(arrays, wanted, strict=True)):
        return None
    return UpdateGroup(name, p, variables, columns, averaged)


def average_group(averages: Sequence[Array]) -> Callable[..., list[Array]]:
    """Return what moves these averages, of one floating dtype, towards what was seen."""
    group = UpdateGroup("follow_update", averages[0], len(averages), 1, False)
    return group.move_averages


class UpdateGroup:
    """A step of variables on one device, which keeps their arrays and addresses between steps."""

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
        """Make a step and return the arrays of its results: the same list if none is new.

        Each array must be held by its variable and by the list, which only the caller may hold. The
        first `decayed` variables decay by `rate * amount`. Averages move by `share` towards the new
        values, and start there if `count` is 1. Gradients are multiplied by `factor`. `further` are
        numbers in double precision that the rule reads.
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
        _kept, addresses = aligned_inputs(gradients)
        if not self._may_write_to(arrays):
            arrays = self._adopt(arrays)
        rule, constants = rule_for(self._name, params, self._columns - 1 - self._averaged)
        launches = self._launches.get(rule) or self._prepare(rule)
        scalars = (rate.data.ptr, rate.dtype.itemsize == 8, count.data.ptr)
        chunk, _, parts = self._layout
        if RULES[rule].first:
            most = max([part.blocks for part in parts], default=0)
            further = (cupy.ndarray((most, 2), np.float64),)
        further_addresses = [number.data.ptr for number in further]
        factor_address = 0 if factor is None else factor.data.ptr
        for part, table, in_order in zip(parts, self._tables, launches):
            length, shrunk = len(part.positions), bisect_left(part.positions, decayed)
            for launch in in_order:
                launch(
                    table, part.column(addresses), *scalars, factor_address, chunk, length, shrunk,
                    amount, share, *further_addresses, *constants,
                )  # fmt: skip
        return arrays

    def move_averages(
        self, averages: list[Array], seen: Sequence[Array], share: float
    ) -> list[Array]:
        """Move averages by `share` of the distance to what was seen."""
        # All kernels of groups take a rate and a step number; this rule reads neither.
        return self(averages, seen, seen[0], seen[0], {"along": share})

    def factor(self, gradients: Sequence[Array], limit: float) -> Array:
        """Return the factor that limits the global norm of the gradients to `limit`."""
        with on_device(self._device):
            return clip_factor(gradients, limit)

    def _may_write_to(self, arrays: list[Array]) -> bool:
        """Return whether these are the arrays of the last step, without new references to them."""
        mine = self._arrays
        return (
            len(mine) == len(arrays)
            and all(map(is_, arrays, mine))
            and reference_counts(self._watched) == self._alone
        )

    def _adopt(self, arrays: list[Array]) -> list[Array]:
        """Return the arrays, copied if others hold them, and keep them for the next step."""
        self._arrays, self._watched, self._launches = [], [], {}
        self._check_shapes(arrays)
        filled = [at for at, array in enumerate(arrays) if array.size]
        length = len(filled)
        seen = watched([arrays[at] for at in filled])
        # Each array is held by its variable and by the list of arrays.
        alone = _expected(seen[:length], 2)
        counts = reference_counts(seen)
        ours = [
            counts[k::length] == alone[k::length] and owns_memory(array)
            for k, array in enumerate(seen[:length])
        ]
        new = list(arrays)
        for at, is_ours in zip(filled, ours, strict=True):
            if not is_ours:
                new[at] = arrays[at].copy(order="C")
        self._plan(new)
        self._arrays = new
        self._watched = watched([new[at] for at in filled])
        # `_arrays` holds each array too.
        self._alone = _expected(self._watched[:length], 3)
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
        """Plan the launches for arrays whose addresses stay the same."""
        variables = self._variables
        sizes = tuple([array.size for array in arrays[:variables]])
        # The gradients are one more column, which differs at every step.
        self._layout = layout(sizes, 16 // self._dtype.itemsize, self._columns + 1)
        addresses = [array.data.ptr for array in arrays]
        columns = [addresses[k : k + variables] for k in range(0, len(addresses), variables)]
        self._tables = [part.table(*columns) for part in self._layout.parts]

    def _prepare(self, rule: str) -> list[list[Callable[..., None]]]:
        dtype, capacity = self._dtype, self._layout.capacity
        kernels = [_kernel(rule, dtype, self._averaged, capacity)]
        if RULES[rule].first:
            # Both kernels read the same table, in which the averages come last.
            kernels.insert(0, _kernel(RULES[rule].first, dtype, self._averaged, capacity))
        parts = self._layout.parts
        launches = [[k.launcher(part.blocks, THREADS) for k in kernels] for part in parts]
        self._launches[rule] = launches
        return launches


def _expected(arrays: Sequence[Array], holders: int) -> list[int]:
    """Return the reference counts of arrays that this many lists and variables hold."""
    return expected_counts(arrays, [holders] * len(arrays), [0] * len(arrays))


def _macros(dtype: str, capacity: int) -> dict[str, str | int]:
    types = {"P": C_TYPES[dtype], "S": C_TYPES[wide_name(dtype)]}
    return {**types, "N": 16 // FLOATS[dtype], "T": capacity}


@functools.cache
def _kernel(rule: str, dtype: np.dtype[Any], averaged: bool, capacity: int) -> Kernel:
    """Return the kernel of a rule; the gradients are a second table."""
    columns = 1 + RULES[rule].slots + averaged
    table = f"{columns * capacity * 8 + capacity * 12}s{capacity * 8}s"
    numbers = "PqPPqiidd" + "P" * len(RULES[rule].further) + "d" * len(RULES[rule].constants)
    source, macros = group_source(rule, averaged), _macros(dtype.name, capacity)
    return Kernel(lambda: compile_kernel(source, "update", **macros), table + numbers)


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for rule in [rule for rule, how in RULES.items() if how.has_gradient and how.has_rate]:
        for averaged in (False, True):
            capacity = capacities(2 + RULES[rule].slots + averaged)[1]
            source = group_source(rule, averaged)
            for dtype in FLOATS:
                text = full_source(source, **_macros(dtype, capacity))
                yield Source(f"update_group_{rule} {dtype}{' averaged' * averaged}", text)
