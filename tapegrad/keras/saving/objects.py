"""Convert objects with configurations to JSON values and back.

Only classes and functions of tapegrad.keras, and those that users pass or register, are found.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from importlib import import_module
from typing import Any

import numpy as np

from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.dtypes import DType, as_dtype
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError, ArgumentTypeError, FileFormatError
from tapegrad.keras.configured import Configured, keeping_objects, signature_of
from tapegrad.keras.layers.core import Operation
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.ops import image as _image  # noqa: F401  # so that _of finds it
from tapegrad.keras.registry import custom_object_scope, get_registered_name, get_registered_object
from tapegrad.keras.saving.kept_functions import kept_function, kept_number
from tapegrad.keras.saving.keras_records import (
    fitting,
    is_operation,
    operation_of,
    options_here,
    place_of,
    policy_name,
)
from tapegrad.keras.symbolic import OPERATORS, KerasTensor

_FACES = (
    *("keras.layers", "keras.models", "keras.activations", "keras.initializers", "keras.losses"),
    *("keras.regularizers", "keras.constraints", "keras.metrics", "keras.optimizers"),
    *("keras.optimizers.schedules", "keras.dtype_policies", "keras.layers.core", "keras.ops"),
    "keras.ops.image",
)
_WITH_FUNCTIONS = (
    *("keras.activations", "keras.losses", "keras.metrics", "keras.ops", "keras.ops.image"),
)
_OF_TENSORFLOW = ("tapegrad", "tapegrad.math", "tapegrad.nn", "tapegrad.image")
"""Modules whose functions of tensors may be operations of a functional model."""
_shared: ContextVar[dict[int, Any] | None] = ContextVar("shared", default=None)


class Place:
    """The number of a tensor in the graph of a functional model."""

    def __init__(self, number: int) -> None:
        self.number = number


# Other values in files: the name, a function to JSON values, and a function back.
_KINDS: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    tuple: ("__tuple__", list, tuple),
    slice: ("__slice__", lambda s: [s.start, s.stop, s.step], lambda parts: _sliced(parts)),
    type(...): ("__ellipsis__", lambda _: None, lambda _: ...),
    Place: ("__place__", lambda x: x.number, Place),
    KerasTensor: (
        "__input__",
        lambda x: [x.shape, x.dtype, x.name, *[True] * x.sparse],
        lambda x: KerasTensor(*x),
    ),
    np.ndarray: (
        "__array__",
        lambda x: [x.tolist(), x.dtype.name],
        lambda parts: np.array(parts[0], as_dtype(parts[1]).dtype),
    ),
    Tensor: ("__tensor__", lambda x: x.numpy(), to_tensor),
}
_MAKERS = {name: make for name, _, make in _KINDS.values()}
_MAKERS["__numpy__"] = lambda config: np.array(config["value"], as_dtype(config["dtype"]).dtype)
_MAKERS["__tensor__"] = lambda x: to_tensor(_MAKERS["__numpy__"](x) if isinstance(x, dict) else x)


def _sliced(parts: Any) -> slice:
    """Return a slice from its parts, which Keras names."""
    return slice(*([parts[key] for key in ("start", "stop", "step")] if "stop" in parts else parts))


def serialize_keras_object(obj: Any) -> Any:
    """Return an object, or a structure of objects, as JSON values.

    >>> serialize_keras_object((1, 2))
    {'class_name': '__tuple__', 'config': [1, 2]}
    """
    before = _shared.get()
    # A get_config may call this function again, for layers that are shared.
    token = _shared.set({} if before is None else before)
    try:
        return _written(obj, type(obj).__name__)
    finally:
        _shared.reset(token)


def _written(value: Any, what: str) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list):
        return [_written(item, what) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _written(item, f"{key!r} of {what}") for key, item in value.items()}
    is_class = isinstance(value, type)
    if isinstance(value, DType | np.dtype) or (is_class and issubclass(value, np.generic)):
        return as_dtype(value).name
    if is_class or (callable(value) and hasattr(value, "__name__")):
        return {"class_name": "__name__", "config": _named(value, what)}
    if hasattr(value, "get_config"):
        return _described(value)
    for kind, (name, parts, _) in _KINDS.items():
        if isinstance(value, kind):
            return {"class_name": name, "config": _written(parts(value), what)}
    raise ArgumentTypeError(
        f"A file cannot hold {what}, which is a {type(value).__name__}. get_config must return "
        "numbers, strings, lists and objects that have a get_config."
    )


def _described(value: Any) -> dict[str, Any]:
    kind: Any = type(value)
    what = f"{kind.__name__} {getattr(value, 'name', '')!r}"
    ours = [method.__module__.startswith("tapegrad.") for method in (kind.get_config, kind.__init__)
            if getattr(kind, "needs_own_config", False)]  # fmt: skip
    if ours == [True, False] and not _are_simple(value._arguments.values()):
        raise ArgumentError(
            f"A file cannot hold {what}, because its constructor arguments are unknown. Define "
            "get_config to return them, or use save_weights."
        )
    record, shared = _named(kind, what), _shared.get()
    if isinstance(value, Layer) and shared is not None:
        # Keep a reference to the layer, so that its id is not reused meanwhile.
        record["shared_object_id"] = shared.setdefault(id(value), (len(shared), value))[0]
    with keeping_objects():
        config = dict(value.get_config())
    if config.get("name", "") is None:
        config["name"] = getattr(value, "name", None)
    record["config"] = _written(config, what)
    if isinstance(value, Layer) and value.built and (build := value.get_build_config()):
        record["build_config"] = _written(build, what)
    return record


def _are_simple(values: Any) -> bool:
    """Whether a file can hold these constructor arguments as they are."""
    if isinstance(values, Mapping):
        values = values.values()
    return all(
        _are_simple(value)
        if isinstance(value, list | tuple | Mapping)
        else value is None or isinstance(value, bool | int | float | str)
        for value in values
    )


def _named(value: Any, what: str) -> dict[str, Any]:
    name, face = value.__name__, face_of(value) or _face_of_operation(value)
    known = {} if face else {"registered_name": get_registered_name(value)}
    if face is None and not isinstance(value, type):
        known["kept"] = kept_number(value)
    return {"module": face or getattr(value, "__module__", None), "class_name": name, **known}


def _face_of_operation(value: Any) -> str | None:
    """Return the module that has a function of tensors such as tapegrad.nn.relu, or None.

    Symbolic tensors keep the function without the check of its arguments, so the name counts.
    """
    if not _is_operation(value):
        return None
    faces = ("keras.activations", *_OF_TENSORFLOW)
    return next((face for face in faces if _of(face, value.__name__) is not None), None)


def face_of(value: Any) -> str | None:
    """Return the module of tapegrad.keras that has a class or a function, or None."""
    name = value.__name__
    return next((face for face in ("operator", *_FACES) if _of(face, name) is value), None)


def _of(face: Any, name: str) -> Any:
    """Return a class or a function of a known module of tapegrad.keras, and nothing else."""
    if face == "operator":
        return getattr(operator, name) if name in OPERATORS else None
    if face in _OF_TENSORFLOW:
        return _of_tensorflow(face, name)
    module = sys.modules[f"tapegrad.{face}"] if face in _FACES else None
    value = getattr(module, name, None)
    if isinstance(value, type):
        return value if issubclass(value, Configured) else None
    is_public = face in _WITH_FUNCTIONS and name in getattr(module, "__all__", ())
    return value if is_public and name not in ("get", "serialize", "deserialize") else None


def _of_tensorflow(face: str, name: str) -> Any:
    """Return a function of tensors that a module under a name of TensorFlow has, or None."""
    module = import_module(face)  # on first use, as everywhere
    is_public = name in getattr(module, "__all__", ())
    value = getattr(module, name, None) if is_public else None
    return value if _is_operation(value) else None


def _is_operation(value: Any) -> bool:
    place = str(getattr(value, "__module__", ""))
    is_own = place.startswith(("tapegrad.ops.", "tapegrad.core.primitive."))
    return is_own and callable(value) and not isinstance(value, type)


def deserialize_keras_object(config: Any, custom_objects: Mapping[str, Any] | None = None) -> Any:
    """Create an object from the result of `serialize_keras_object`.

    >>> deserialize_keras_object({"class_name": "__tuple__", "config": [1, 2]})
    (1, 2)
    """
    with custom_object_scope(custom_objects):
        return _read(config, {})


def _read(value: Any, shared: dict[Any, Any]) -> Any:
    if isinstance(value, list):
        return [_read(item, shared) for item in value]
    if not isinstance(value, dict):
        return value
    name, number = value.get("class_name"), value.get("shared_object_id")
    if not isinstance(name, str) or "config" not in value:
        return {key: _read(item, shared) for key, item in value.items()}
    if name == "__name__":
        return _found(value["config"])
    if number in shared:
        return shared[number]
    if (policy := policy_name(value)) is not None:
        return policy
    if name == "function":
        return _found({**value, "module": None, "class_name": value["config"]})
    if name == "__lambda__":
        raise ArgumentError(
            "The file holds a lambda, which is Python code, and no code of files is run. Use a "
            "function with a name, and pass it in custom_objects."
        )
    if is_operation(value):
        return _operation(value, shared)
    kind = None if name in _MAKERS else _found(value)
    config = value["config"]
    if not isinstance(config, dict) or "input_layers" not in config:
        config = _read(config, shared)
    if isinstance(kind, type) and issubclass(kind, Configured) and face_of(kind) is not None:
        config = _fitting(kind, config)
    if kind is not None and "module" not in value:
        return {**value, "config": config}  # the caller knows the kind of the object
    if kind is not None and not isinstance(kind, type):
        return kind  # functions are only looked up, never called
    try:
        if kind is None:
            made = _MAKERS[name](config)
        else:
            made = kind.from_config(config) if hasattr(kind, "from_config") else kind(**config)
        if _is_built_by_class(made) and value.get("build_config"):
            made.build_from_config(_read(value["build_config"], shared))
    except FileFormatError:
        raise  # it already names the layer, or the file
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        whose = config.get("name", "") if isinstance(config, dict) else ""
        raise FileFormatError(f"{name} {whose!r:.99} cannot be recreated: {error}") from error
    if number is not None:
        shared[number] = made
    return made


def _is_built_by_class(made: Any) -> bool:
    """Whether the class of a layer defines `build_from_config` itself."""
    method = getattr(type(made), "build_from_config", None)
    return isinstance(made, Layer) and not method.__module__.startswith("tapegrad.")


def _fitting(kind: type, config: Any) -> Any:
    # Optimizers and models accept the arguments of Keras.
    is_plain = isinstance(config, dict) and not {"layers", "calls", "learning_rate"} & {*config}
    return fitting(kind, config, signature_of(kind).parameters) if is_plain else config


def _operation(record: Mapping[str, Any], shared: dict[Any, Any]) -> Any:
    """Return the layer for an operation of Keras."""
    config = dict(_read(record["config"], shared))
    name = config.pop("name", None)
    config = {key: value for key, value in config.items() if value is not None}
    function = operation_of(
        record["class_name"],
        lambda name: next(filter(None, (_of(face, name) for face in _WITH_FUNCTIONS[-2:])), None),
    )
    return Operation(function, options_here(record["class_name"], config), name=name)


def _found(record: Mapping[str, Any]) -> Any:
    module, name = place_of(record)
    for known in (record.get("registered_name"), record["class_name"]):
        custom = None if known is None else get_registered_object(known)
        if custom is not None:
            return custom
    for face in [module] if module is not None else _FACES:
        if (found := _of(face, name)) is not None:
            return found
    if (kept := kept_function(record.get("kept"))) is not None:
        return kept
    raise ArgumentError(
        f"tapegrad.keras has no {name!r}. Pass custom_objects={{{name!r}: ...}}, or decorate it "
        "with keras.saving.register_keras_serializable() before you load the file."
    )
