"""Checks of the arguments of `compile`, `fit`, `evaluate` and `predict`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import LARGEST, described
from tapegrad.core.values import nest
from tapegrad.errors import ArgumentError, ArgumentTypeError, OutOfRangeError


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Raise an error unless a count is None or an integer of at least `least`.

    >>> check_count("batch_size", 0)
    Traceback (most recent call last):
    tapegrad.errors.ArgumentError: batch_size must be an integer of at least 1. Got 0.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ArgumentTypeError(
            f"{name} must be an integer of at least {least}. Got {type(value).__name__}: {value!r}."
        )
    if value > LARGEST:
        raise OutOfRangeError(f"{name} must fit into 64 bits. Got {described(int(value))}.")
    if value < least:
        raise ArgumentError(f"{name} must be an integer of at least {least}. Got {value}.")


def is_due(frequency: int | Collection[int], epoch: int) -> bool:
    """Whether `fit` validates after an epoch, counted from 0.

    >>> is_due(2, 1), is_due([1, 4], 0), is_due([1, 4], 1)
    (True, True, False)
    """
    if isinstance(frequency, int):
        return (epoch + 1) % frequency == 0
    return epoch + 1 in frequency


def check_frequency(value: Any) -> None:
    """Raise an error if `validation_freq` is not valid.

    >>> check_frequency([1, 5])
    """
    if isinstance(value, list | tuple | set | frozenset):
        for one in value:
            check_count("An epoch in validation_freq", one)
    else:
        check_count("validation_freq", value)


def check_verbose(value: Any) -> None:
    """Raise an error if `verbose` is not valid.

    >>> check_verbose("auto")
    """
    if value not in ("auto", 0, 1, 2):
        raise ArgumentError(f"verbose must be 'auto', 0, 1 or 2. Got {value!r}.")


def split(x: Any, y: Any, weights: Any, part: Any) -> tuple[Any, Any]:
    """Split arrays into a training part and a validation part, which is the last `part` of them.

    >>> front, back = split(np.arange(4), None, None, 0.25)
    >>> front[0].tolist(), back[0].tolist()
    ([0, 1, 2], [3])
    """
    leaves = [leaf for leaf in nest.flatten((x, y, weights)) if leaf is not None]
    is_fraction = isinstance(part, int | float) and 0 < part < 1
    if not is_fraction or not all(hasattr(leaf, "shape") for leaf in leaves):
        raise ArgumentError(
            "validation_split must be a fraction between 0 and 1, and needs arrays in memory. "
            f"Got {part!r} of {type(x).__name__}."
        )
    counts = {tuple(leaf.shape)[:1] for leaf in leaves}
    if len(counts) != 1 or () in counts:
        shapes = [tuple(leaf.shape) for leaf in leaves]
        raise ArgumentError(
            "All arrays must have the same number of examples along their first axis. "
            f"Got shapes {shapes}."
        )
    count = counts.pop()[0]
    cut = int(np.floor(count * (1 - part)))
    if cut in (0, count):
        raise ArgumentError(
            f"validation_split={part} of {count} examples leaves no examples for training or for "
            "validation."
        )
    front = nest.map_structure(lambda a: None if a is None else a[:cut], (x, y, weights))
    back = nest.map_structure(lambda a: None if a is None else a[cut:], (x, y, weights))
    return front, back
