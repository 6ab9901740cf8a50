"""Arguments that all layers took in earlier versions of Keras."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapegrad.errors import ArgumentError

Shape = tuple[int | None, ...]

FOR_INPUT = ("input_shape", "batch_input_shape", "batch_shape", "batch_size", "input_dim")
"""Constructor arguments that give the first layer of a model its input shape."""
OLDER = frozenset({"weights", "input_length", "implementation"})
"""Initial weights; the length of sequences; a choice between ways to compute the same."""


def check_arguments(kind: str, given: Mapping[str, Any]) -> None:
    """Raise an error for an argument that no layer takes.

    >>> check_arguments("Dense", {"input_dim": 3})
    """
    for key in given:
        if key not in FOR_INPUT and key not in OLDER:
            raise ArgumentError(
                f"{kind} does not take the argument {key!r}. All layers take name, dtype, "
                "trainable and activity_regularizer."
            )


def input_shape_of(given: Mapping[str, Any], has_steps: bool = False) -> Shape | None:
    """Return the input shape, batch included, if the constructor arguments give it.

    `input_dim` is the number of features, of sequences if the layer takes steps.

    >>> input_shape_of({"input_shape": 4}), input_shape_of({"input_dim": 4}, has_steps=True)
    ((None, 4), (None, None, 4))
    """
    for key in ("batch_shape", "batch_input_shape"):
        if given.get(key) is not None:
            return tuple(given[key])
    shape = given.get("input_shape")
    if shape is None and given.get("input_dim") is not None:
        steps = (given.get("input_length"),) if has_steps else ()
        shape = (*steps, given["input_dim"])
    if shape is None:
        return None
    return (given.get("batch_size"), *((shape,) if isinstance(shape, int) else shape))
