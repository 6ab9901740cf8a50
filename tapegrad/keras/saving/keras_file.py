"""Model files of Keras: describe a model as Keras does, and create one from such a description."""

from __future__ import annotations

import operator
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from tapegrad.core.values.dtypes import DType, as_dtype
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import FileFormatError
from tapegrad.keras.configured import keeping_objects
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.registry import get_registered_name
from tapegrad.keras.saving.kept_functions import kept_number
from tapegrad.keras.saving.keras_records import FUNCTIONAL, for_keras
from tapegrad.keras.saving.objects import deserialize_keras_object, face_of

KERAS_VERSION = "3.15.1"
"""The version whose files were compared."""


def keras_model_record(model: Any) -> dict[str, Any]:
    """Return the description of a model, with its compile arguments, as Keras writes it.

    >>> from tapegrad.keras import Sequential, layers
    >>> record = keras_model_record(Sequential([layers.Input((3,)), layers.Dense(2)]))
    >>> record["class_name"], [layer["class_name"] for layer in record["config"]["layers"]]
    ('Sequential', ['InputLayer', 'Dense'])
    """
    record = dict(keras_record(model))
    with keeping_objects():
        given = model.get_compile_config()
    known = {key: keras_record(value, False) for key, value in (given or {}).items()}
    if known.get("jit_compile") == "auto":
        known["jit_compile"] = None
    return {**record, "compile_config": {k: v for k, v in known.items() if v is not None}}


def keras_record(value: Any, is_by_name: bool = True) -> Any:
    """Return an object as the JSON values that Keras writes; functions of Keras may be names."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [keras_record(one, is_by_name) for one in value]
    if isinstance(value, Mapping):
        return {key: keras_record(one, is_by_name) for key, one in value.items()}
    if isinstance(value, DType | np.dtype):
        return as_dtype(value).name
    if isinstance(value, slice):
        parts = {"start": value.start, "stop": value.stop, "step": value.step}
        return {"class_name": "__slice__", "config": parts}
    if value is ...:
        return {"class_name": "__ellipsis__", "config": {}}
    if isinstance(value, np.ndarray | Tensor):
        array = np.asarray(value)
        kind = "__tensor__" if isinstance(value, Tensor) else "__numpy__"
        return {"class_name": kind, "config": {"value": array.tolist(), "dtype": array.dtype.name}}
    if hasattr(value, "get_config") and not isinstance(value, type):
        return _object_record(value)
    return _function_record(value, is_by_name)


def _function_record(value: Any, is_by_name: bool) -> Any:
    name = value.__name__
    is_known = face_of(value) is not None and getattr(operator, name, None) is not value
    if is_known and is_by_name:
        return name
    known = name if is_known else get_registered_name(value)
    kept = {} if is_known or isinstance(value, type) else {"kept": kept_number(value)}
    return {"module": "builtins", "class_name": "function", "config": known,
            "registered_name": "function", **kept}  # fmt: skip


def _object_record(value: Any) -> dict[str, Any]:
    kind = type(value)
    face, name = face_of(kind), kind.__name__
    module = "keras" if face == "keras.models" else face or kind.__module__
    known = None if face else get_registered_name(kind)
    graph = value._graph() if hasattr(value, "_graph") else None
    if graph is not None:
        config = _network().keras_graph_config(graph, keras_record)
        config["name"], config["trainable"] = value.name, value.trainable
        if face is not None:
            module, name, known = FUNCTIONAL, "Functional", "Functional"
    else:
        with keeping_objects():
            is_stack = kind.get_config.__qualname__ == "Sequential.get_config"
            given = value._config_of_objects() if is_stack else value.get_config()
        if given.get("name", "") is None:
            given = {**given, "name": getattr(value, "name", None)}
        config = for_keras(name, {key: keras_record(one) for key, one in given.items()})
        if name == "Lambda" and face is not None:
            config["function"] = _function_record(given["function"], is_by_name=False)
    record = {"module": module, "class_name": name, "config": config, "registered_name": known}
    if isinstance(value, Layer) and value.built and (build := value.get_build_config()):
        return {**record, "build_config": keras_record(build)}
    shape = _build_shape(value)
    return record if shape is None else {**record, "build_config": {"input_shape": shape}}


def _build_shape(value: Any) -> Any:
    """Return the shape with which a subclassed model was called, or None."""
    called = getattr(value, "__dict__", {}).get("_called_with")
    if called is None or not isinstance(value, Layer):
        return None
    args, _ = called()
    return list(args[0].shape) if args and hasattr(args[0], "shape") else None


def _network() -> Any:
    return sys.modules["tapegrad.keras.models.keras_graph"]


def model_of(config: Any) -> Any:
    """Create the model that a configuration of Keras describes, with new weights."""
    if not isinstance(config, dict) or "class_name" not in config:
        raise FileFormatError("This JSON is not a model of Keras.")
    model = deserialize_keras_object(config)
    if not isinstance(model, Layer):
        raise FileFormatError(f"This JSON describes a {type(model).__name__} and not a model.")
    build = config.get("build_config") or {}
    shape = build.get("input_shape") if isinstance(build, dict) else None
    if shape is not None and not model.variables:
        model.build(_shapes(shape))
    return model


def _shapes(shape: Any) -> Any:
    """Return a shape, or a structure of shapes, with tuples in place of lists."""
    if isinstance(shape, dict):
        return {key: _shapes(one) for key, one in shape.items()}
    if isinstance(shape, list) and shape and isinstance(shape[0], list):
        return [_shapes(one) for one in shape]
    return (None, *shape[1:])
