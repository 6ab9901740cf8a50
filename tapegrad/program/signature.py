"""What two calls of a function must have in common to be one program."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core import nest
from tapegrad.core.convert import to_tensor
from tapegrad.core.device import current_device
from tapegrad.core.tensor import Tensor
from tapegrad.core.variable import Variable


class UnhashableError(TypeError):
    """An argument is neither a tensor nor something that calls can be told apart by."""

    def __init__(self, position: int, value: Any) -> None:
        super().__init__(
            f"Argument {position} is of type {type(value).__name__}, which has no hash"
        )


def flatten_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The leaves of all arguments, NumPy arrays turned into tensors."""
    leaves = nest.flatten((args, kwargs)) if kwargs or not _is_flat(args) else list(args)
    return [to_tensor(leaf) if type(leaf) is np.ndarray else leaf for leaf in leaves]


def _is_flat(args: tuple[Any, ...]) -> bool:
    return all([type(arg) in nest.LEAF_TYPES for arg in args])


def key_of(leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A key for the program of a call: shapes and dtypes of tensors, all else by value."""
    parts: list[Any] = [current_device()]
    for position, leaf in enumerate(leaves):
        if type(leaf) is Tensor:
            array = leaf.array
            parts.append((type(array), tuple(array.shape), array.dtype))
        elif type(leaf) is Variable:
            parts.append(leaf.number)
        else:
            try:
                hash(leaf)
            except TypeError:
                raise UnhashableError(position, leaf) from None
            parts.append((type(leaf), leaf))
    if kwargs or not _is_flat(args):
        parts.append(_structure((args, kwargs)))
    return tuple(parts)


def _structure(value: Any) -> Any:
    """The containers of a nested value, without its leaves."""
    if not nest.is_nested(value):
        return None
    if isinstance(value, dict):
        return ("dict", tuple((key, _structure(value[key])) for key in sorted(value, key=repr)))
    return (type(value), tuple(_structure(child) for child in nest.children(value)))
