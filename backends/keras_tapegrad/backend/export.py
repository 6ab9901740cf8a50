"""Export of models to folders that `tapegrad.saved_model.load` and `TFSMLayer` read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keras.src.utils.io_utils import print_msg

import tapegrad as tg
from keras_tapegrad.backend.tensors import convert_to_tensor
from tapegrad.keras.saving.saved_model import write_saved_model


class _Exported(tg.Module):
    """The variables that a folder holds, by the name of their collection."""

    def __init__(self) -> None:
        super().__init__()
        self.all_variables: list[Any] = []


class TapegradExportArchive:
    """Collects functions and variables, and writes them to a folder in tapegrad's format.

    TensorFlow does not read the folder; it holds programs and arrays, and no code.
    """

    def __init__(self) -> None:
        self._root = _Exported()
        self._endpoints: dict[str, tuple[Any, tuple[Any, ...]]] = {}

    @property
    def variables(self) -> list[Any]:
        """The variables that are tracked."""
        return list(self._root.all_variables)

    @property
    def trainable_variables(self) -> list[Any]:
        return [one for one in self._root.all_variables if one.trainable]

    @property
    def non_trainable_variables(self) -> list[Any]:
        return [one for one in self._root.all_variables if not one.trainable]

    def track(self, resource: Any) -> None:
        """Add the variables of a layer or model, which must have been built."""
        if not getattr(resource, "built", True):
            raise ValueError(
                "The layer provided has not yet been built. It must be built before export."
            )
        known = {one.number for one in self._root.all_variables}
        for variable in getattr(resource, "variables", ()):
            value = getattr(variable, "_value", variable)
            if isinstance(value, tg.Variable) and value.number not in known:
                self._root.all_variables.append(value)
                known.add(value.number)

    def add_endpoint(
        self, name: str, fn: Callable[..., Any], input_signature: Any = None, **kwargs: Any
    ) -> Any:
        """Add a function by the name under which it can be called after loading."""
        if name in self._endpoints:
            raise ValueError(f"Endpoint name '{name}' is already taken.")
        self.track(getattr(fn, "__self__", fn))
        if input_signature is None:
            specs = _recorded_specs(fn, name)
            function = fn
        else:
            specs = _specs(input_signature)
            function = tg.function(_called(fn))
        self._endpoints[name] = (getattr(function, "__func__", function), specs)
        return function

    def track_and_add_endpoint(
        self, name: str, resource: Any, input_signature: Any, **kwargs: Any
    ) -> Any:
        """Track a layer or model, and add its call in inference mode."""
        self.track(resource)

        def serve(*inputs: Any) -> Any:
            return resource(*inputs, training=False)

        return self.add_endpoint(name, serve, input_signature, **kwargs)

    def add_variable_collection(self, name: str, variables: Sequence[Any]) -> None:
        """Add variables that the functions do not use."""
        for one in variables:
            self.track(_Holder([one]))

    def write_out(self, filepath: Any, options: Any = None, verbose: bool = True) -> None:
        """Write the folder."""
        if not self._endpoints:
            raise ValueError("No endpoints have been set yet. Call add_endpoint().")
        write_saved_model(self._root, filepath, endpoints=self._endpoints)
        if verbose:
            names = ", ".join(repr(name) for name in self._endpoints)
            print_msg(f"Saved artifact at '{filepath}'. Its endpoints: {names}.")


class _Holder:
    built = True

    def __init__(self, variables: list[Any]) -> None:
        self.variables = variables


def _called(fn: Callable[..., Any]) -> Callable[..., Any]:
    def serve(*inputs: Any) -> Any:
        return tg.nest.map_structure(convert_to_tensor, fn(*inputs))

    return serve


def _specs(signature: Any) -> tuple[Any, ...]:
    given = signature if isinstance(signature, list | tuple) else [signature]
    return tuple(tg.nest.map_structure(_spec, one) for one in given)


def _spec(one: Any) -> Any:
    if isinstance(one, tg.TensorSpec):
        return one
    shape, dtype = getattr(one, "shape", None), getattr(one, "dtype", None)
    if shape is None or dtype is None:
        raise ValueError(f"The `shape` and `dtype` must be provided. Received: x={one}")
    if not hasattr(one, "ndim") or hasattr(one, "array"):
        shape = (None, *tuple(shape)[1:])
    return tg.TensorSpec(tuple(shape), str(getattr(dtype, "name", dtype)))


def _recorded_specs(fn: Any, name: str) -> tuple[Any, ...]:
    given = getattr(fn, "_specs", None)
    recorded = list(getattr(fn, "recorded_specs", {}).values())
    if given is None and len(recorded) == 1:
        given = recorded[0][0]
    if given is None:
        raise ValueError(
            f"The endpoint '{name}' needs an input_signature, or a tapegrad.function that has one "
            "or has been called once."
        )
    return tuple(given)
