"""Checks of the shapes of model inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.errors import ShapeError
from tapegrad.ops.shape.functions import expand_dims, squeeze


def fitted(value: Any, wanted: Sequence[int | None], who: str, name: str | None = None) -> Any:
    """Return a value with the shape of an input, or raise an error if it does not match.

    As in Keras, a last axis of size 1 may be added or removed, and the size of the batch may be
    another one: the last batch of an epoch is often smaller.

    >>> import tapegrad
    >>> tuple(fitted(tapegrad.zeros([5]), (None, 1), "It").shape)
    (5, 1)
    """
    shape = tuple(value.shape)
    given, wanted = wanted, (None, *wanted[1:]) if wanted else wanted
    if fits(shape, wanted):
        return value
    if shape and fits((*shape, 1), wanted) and wanted[-1] == 1:
        return expand_dims(value, -1)
    if len(shape) > 1 and shape[-1] == 1 and fits(shape[:-1], wanted):
        return squeeze(value, -1)
    what = "inputs" if name is None else f"{name!r}"
    raise ShapeError(f"{who} takes {what} of shape {tuple(given)}. Got {shape}.")


def fits(shape: Sequence[int], wanted: Sequence[int | None]) -> bool:
    """Whether a shape matches the wanted one, in which None means any size.

    >>> fits((2, 3), (None, 3)), fits((2, 3), (None, 4))
    (True, False)
    """
    same = len(wanted) == len(shape)
    return same and all(n is None or n == m for n, m in zip(wanted, shape))
