"""Assign losses, targets and weights to the outputs of a model by name or position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.values import nest
from tapegrad.errors import ArgumentError


def output_names(outputs: Any, known: Sequence[str] | None = None) -> list[str]:
    """Return the names of outputs: dictionary keys, the known names, or numbered names.

    >>> output_names({"b": 1, "a": 2}), output_names([1, 2]), output_names([1, 2], ["x", "y"])
    (['a', 'b'], ['output_0', 'output_1'], ['x', 'y'])
    """
    if isinstance(outputs, dict):
        return [str(key) for key in sorted(outputs)]
    count = len(nest.flatten(outputs))
    if known is not None and len(known) == count:
        return list(known)
    return [f"output_{k}" for k in range(count)]


def one_per_output(given: Any, names: Sequence[str], what: str) -> list[Any]:
    """Return an entry per output, from one entry for all, a list, or a dictionary by name.

    >>> one_per_output({"b": "mse"}, ["a", "b"], "losses")
    [None, 'mse']
    """
    if isinstance(given, dict) and "class_name" not in given:
        return _by_name(given, names, what)
    if isinstance(given, list | tuple):
        if len(given) != len(names):
            raise ArgumentError(
                f"The model has {len(names)} outputs: {_listed(names)}. "
                f"Got {len(given)} {what} for them."
            )
        return list(given)
    return [given] * len(names)


def _by_name(given: dict[Any, Any], names: Sequence[str], what: str) -> list[Any]:
    unknown = sorted(str(key) for key in given if key not in names)
    if unknown:
        raise ArgumentError(
            f"The {what} name outputs that do not exist: {_listed(unknown)}. The model's outputs "
            f"are {_listed(names)}."
        )
    return [given.get(name) for name in names]


def targets_per_output(
    y: Any, outputs: Any, names: Sequence[str], is_wanted: Sequence[bool]
) -> list[Any]:
    """Return the target of each output, given by name or in the order of outputs with a loss.

    >>> targets_per_output([5], [1, 2], ["a", "b"], [False, True])
    [None, 5]
    """
    if isinstance(y, dict):
        if len(names) == 1 and len(y) == 1:
            return list(y.values())
        found = _by_name(y, names, "targets")
        missing = [n for n, one, needed in zip(names, found, is_wanted) if needed and one is None]
        if missing:
            raise ArgumentError(f"Targets are missing for the outputs {_listed(missing)}.")
        return found
    leaves = nest.flatten(y)
    order = list(range(len(names)))
    if isinstance(outputs, dict):  # a list of targets follows the order of the model's dictionary
        order = [names.index(str(key)) for key in outputs]
    if len(leaves) != len(names):
        order = [place for place in order if is_wanted[place]]
    if len(leaves) != len(order):
        raise ArgumentError(
            f"The model has {len(names)} outputs: {_listed(names)}. "
            f"Got {len(leaves)} targets for them."
        )
    targets: list[Any] = [None] * len(names)
    for place, leaf in zip(order, leaves):
        targets[place] = leaf
    return targets


def weights_per_output(given: Any, names: Sequence[str]) -> list[Any]:
    """Return the sample weights of each output, from one array, a list, or a dictionary by name.

    >>> weights_per_output(None, ["a", "b"])
    [None, None]
    """
    if isinstance(given, list | tuple) and len(given) == 1:
        given = given[0]
    return one_per_output(given, names, "sample weights")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)
