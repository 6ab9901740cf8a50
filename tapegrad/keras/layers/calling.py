"""What is known of a layer's own `call` and `build`: which arguments they take."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from typing import Any, NamedTuple

from tapegrad.core import nest
from tapegrad.errors import ArgumentTypeError


class CallSpec(NamedTuple):
    """The names of the arguments of `call`, and whether it takes `training` and `mask`."""

    names: tuple[str, ...]
    takes_training: bool
    takes_mask: bool


@cache
def call_spec(function: Callable[..., Any]) -> CallSpec:
    """Return what a class's `call` takes (the function as it stands in the class)."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    names = tuple(p.name for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD)
    return CallSpec(names, "training" in names, "mask" in names)


@cache
def _names_of(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)[1:]


def shapes_for(
    method: str, layer: Any, spec: CallSpec, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what `build` or `compute_output_shape` takes for a call with these arguments.

    That is the shape of the first one, or NAME_shape of those that it asks for.
    """
    names = _names_of(getattr(type(layer), method))
    given = {**dict(zip(spec.names, args)), **kwargs}
    if not given:
        raise ArgumentTypeError(f"Layer {layer.name!r} must be called with its input.")
    if len(names) == 1:
        return {names[0]: shape_of(next(iter(given.values())))}
    shapes = {f"{name}_shape": shape_of(value) for name, value in given.items()}
    return {name: shapes[name] for name in names if name in shapes}


def built_afterwards(build: Callable[..., None]) -> Callable[..., None]:
    """Return a `build` that notes that it was run, so that no call runs it again."""

    @wraps(build)
    def run(layer: Any, *args: Any, **kwargs: Any) -> None:
        build(layer, *args, **kwargs)
        layer.built = True

    return run


def shape_of(value: Any) -> Any:
    """Return the shape of a tensor, or the shapes of a structure of them."""
    if hasattr(value, "shape"):
        return tuple(value.shape)
    if nest.is_nested(value):
        return nest.map_structure(shape_of, value)
    return None
