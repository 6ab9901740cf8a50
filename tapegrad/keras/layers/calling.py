"""Signatures of a layer's `call` and `build`, and errors about wrong arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from numbers import Real
from typing import Any, NamedTuple, NoReturn

from tapegrad.core.values import nest
from tapegrad.core.values.convert import to_tensor
from tapegrad.errors import ArgumentTypeError, TapegradError
from tapegrad.keras.absent import why_absent

NOT_BUILT = (
    "Weights are created on the first call: call the layer on a batch, or call build() with the "
    "shape of its input."
)


class CallSpec(NamedTuple):
    """The names of the arguments of `call`, and whether it takes `training` and `mask`."""

    names: tuple[str, ...]
    takes_training: bool
    takes_mask: bool


@cache
def call_spec(function: Callable[..., Any]) -> CallSpec:
    """Return which arguments the `call` of a layer class takes."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    names = tuple(p.name for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD)
    return CallSpec(names, "training" in names, "mask" in names)


@cache
def _names_of(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)[1:]


@cache
def _needed_by(function: Callable[..., Any]) -> tuple[str, ...]:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return tuple(p.name for p in parameters if p.default is p.empty and p.kind <= 1)


def shapes_for(
    method: str, layer: Any, spec: CallSpec, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of `build` or `compute_output_shape` for a call of the layer.

    A method with one parameter gets the shape of the first argument of the call. A method with
    several parameters gets the shape of the argument NAME as NAME_shape, or the shapes in the order
    of the arguments if no parameter has such a name.
    """
    names = _names_of(getattr(type(layer), method))
    given = {**dict(zip(spec.names, args)), **kwargs}
    if not given:
        raise ArgumentTypeError(f"Layer {layer.name!r} must be called with its input.")
    if next(iter(given.values())) is None:
        raise ArgumentTypeError(f"Layer {_named(layer)} takes tensors or arrays. Got None.")
    needed = _needed_by(type(layer).call)
    missing = [name for name in needed if name not in given]
    if missing:
        raise ArgumentTypeError(
            f"Layer {_named(layer)} must be called with {', '.join(needed)}. "
            f"Got no {', '.join(missing)}."
        )
    if len(names) == 1:
        return {names[0]: shape_of(next(iter(given.values())))}
    shapes = {f"{name}_shape": shape_of(value) for name, value in given.items()}
    if shapes.keys().isdisjoint(names):
        return dict(zip(names, shapes.values()))
    return {name: shapes[name] for name in names if name in shapes}


def built_afterwards(build: Callable[..., None]) -> Callable[..., None]:
    """Return a `build` that checks its arguments and then sets `built`."""

    @wraps(build)
    def run(layer: Any, *args: Any, **kwargs: Any) -> None:
        for shape in [*args, *kwargs.values()][:1]:  # a build of one's own may take more
            if isinstance(shape, int | str):
                raise ArgumentTypeError(
                    f"build() of layer {_named(layer)} takes the shape of the input, such as "
                    f"(None, 3). Got {shape!r}."
                )
        build(layer, *args, **kwargs)
        layer.built = True
        first = vars(layer).get("first_weights")
        if first is not None and type(layer).build is run:  # not the build of a base class
            vars(layer)["first_weights"] = None
            layer.set_weights(first)

    return run


def no_attribute(layer: Any, name: str) -> AttributeError:
    """Return the AttributeError for a missing attribute, with the likely reason."""
    state = vars(layer)
    hint = why_absent("Model", name)
    if hint:
        return AttributeError(f"{type(layer).__name__} has no {name!r}.{hint}")
    if "built" not in state:
        hint = " Call super().__init__() at the beginning of its __init__."
    elif not state["built"] and not name.startswith("__"):
        hint = f" {NOT_BUILT}"
    return AttributeError(f"{type(layer).__name__} has no attribute {name!r}.{hint}")


def lists_as_tensors(args: Sequence[Any], is_batch: bool) -> Sequence[Any]:
    """Return the arguments of a call with a list of numbers as a tensor; others are unchanged.

    With `is_batch`, a list of arrays is a batch, too, as for layers that take one input only.
    """
    first = args[0] if args else None
    if not isinstance(first, list | tuple) or not first:
        return args
    leaves = nest.flatten(first)
    are_arrays = is_batch and all(hasattr(leaf, "shape") for leaf in leaves)
    if not are_arrays and not all(_is_number(leaf) for leaf in leaves):
        return args
    return (to_tensor(first), *args[1:])


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not hasattr(value, "shape")


def check_tensors(layer: Any, args: Sequence[Any]) -> None:
    """Raise an error if no argument of a call is a tensor."""
    leaves = [leaf for leaf in nest.flatten(args) if leaf is not None]
    if leaves and not any(hasattr(leaf, "shape") for leaf in leaves):
        raise ArgumentTypeError(
            f"Layer {_named(layer)} takes tensors or arrays. Got {type(args[0]).__name__}: "
            f"{args[0]!r}; convert it with tapegrad.constant."
        )


def raise_in_layer(layer: Any, args: Sequence[Any], error: TapegradError) -> NoReturn:
    """Raise the error again with the layer's name added, unless it already names a layer."""
    if str(error).startswith(("Layer ", "Model ")):
        raise error
    shapes = ", ".join(str(shape_of(value)) for value in args)
    raise type(error)(f"Layer {_named(layer)} got inputs of shape {shapes}: {error}") from error


def _named(layer: Any) -> str:
    return f"{layer.name!r} ({type(layer).__name__})"


def shape_of(value: Any) -> Any:
    """Return the shape of a tensor, or the shapes of a structure of tensors."""
    if hasattr(value, "shape"):
        return tuple(value.shape)
    if nest.is_nested(value):
        return nest.map_structure(shape_of, value)
    return None
