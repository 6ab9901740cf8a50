"""Arrays in another order of their axes, or with their bytes read as another dtype."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_count
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.indexing.gather import place_next_to
from tapegrad.ops.shape.functions import permute_dims, reshape

Groups = list[list[str]]


def rearrange(tensor: Any, pattern: str, **axes_lengths: int) -> Any:
    """Split, permute and join axes as a pattern says, in which parentheses join axes.

    At most one length in parentheses on the left may be missing.

    >>> rearrange([[1, 2, 3], [4, 5, 6]], "h w -> (w h)").tolist()
    [1, 4, 2, 5, 3, 6]
    >>> rearrange([1, 2, 3, 4], "(rows columns) -> columns rows", rows=2).tolist()
    [[1, 3], [2, 4]]
    """
    x = as_operand(tensor)
    before, after = _sides(pattern)
    names, wanted = (list(chain.from_iterable(side)) for side in (before, after))
    if sorted(names) != sorted(wanted) or len({*names}) < len(names):
        raise ArgumentError(
            f"rearrange needs each axis once on either side of its pattern. Got {pattern!r}."
        )
    unknown = {*axes_lengths} - {*names}
    if unknown:
        raise ArgumentError(
            f"rearrange got a length for {sorted(unknown)[0]!r}, which is not in {pattern!r}."
        )
    lengths = _lengths(before, tuple(x.shape), axes_lengths, pattern)
    split = reshape(x, [lengths[name] for name in names])
    turned = permute_dims(split, [names.index(name) for name in wanted])
    return reshape(turned, [prod([lengths[name] for name in group]) for group in after])


def _sides(pattern: str) -> tuple[Groups, Groups]:
    sides = pattern.split("->")
    words = r"\s*(?:\w+|\(\s*\w+(?:\s+\w+)*\s*\))"
    if len(sides) != 2 or not all(re.fullmatch(rf"(?:{words})*\s*", side) for side in sides):
        raise ArgumentError(
            "rearrange takes a pattern such as 'batch (h w) -> batch w h': names of axes, in "
            f"parentheses where axes are joined. Got {pattern!r}."
        )
    before, after = (
        [re.findall(r"\w+", part) for part in re.findall(r"\w+|\([^)]*\)", side)] for side in sides
    )
    return before, after


def _lengths(
    groups: Groups, shape: Sequence[int], given: Mapping[str, int], pattern: str
) -> dict[str, int]:
    """Return the length of each axis that has a name."""
    if len(groups) != len(shape):
        raise ShapeError(
            f"The pattern {pattern!r} of rearrange has {len(groups)} axes on its left. "
            f"Got shape {tuple(shape)}."
        )
    found = {name: check_count(name, n, "rearrange") for name, n in given.items()}
    for group, size in zip(groups, shape, strict=True):
        missing = [name for name in group if name not in found]
        if len(missing) > 1:
            raise ArgumentError(
                f"rearrange needs the lengths of {missing[1:]} in {pattern!r}, e.g. {missing[1]}=2."
            )
        rest = prod([found[name] for name in group if name in found])
        if missing:
            found[missing[0]] = size // rest if rest else 0
        if prod([found[name] for name in group]) != size:
            raise ShapeError(
                f"rearrange cannot split an axis of {size} elements into {' '.join(group)} with "
                f"{ {name: found[name] for name in group if name not in missing} }."
            )
    return found


def view(x: Any, dtype: Any = None) -> Any:
    """Return the same bytes as another dtype; they are read on the host.

    The length of the last axis changes with the size of an element.

    >>> view([1.0], "int32").tolist()
    [1065353216]
    """
    value = as_operand(x)
    wanted = None if dtype is None else as_dtype(dtype)
    if wanted is None or wanted.name == value.dtype.name:
        return value
    new = np.dtype(wanted.as_numpy_dtype)
    array = np.ascontiguousarray(read_on_host(value, "view"))
    bytes_in_row = array.shape[-1] * array.itemsize if array.ndim else array.itemsize
    if bytes_in_row % new.itemsize or (not array.ndim and new.itemsize != array.itemsize):
        raise ShapeError(
            f"view needs a last axis that holds whole elements of {wanted.name}. Got shape "
            f"{tuple(value.shape)} of {numpy_dtype_of(value)}."
        )
    return place_next_to(value, array.reshape(value.shape).view(new))
