"""The records of Keras' own files: where its classes are here, and arguments that differ.

Operations of functional models are classes in Keras, and functions of keras.ops here.
"""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from tapegrad.errors import FileFormatError

OPERATIONS = "keras.src.ops"
FUNCTIONAL = "keras.src.models.functional"
_MODULES = {
    "keras": "keras.models",
    FUNCTIONAL: "keras.models",
    "keras.src.models.model": "keras.models",
    "keras.src.models.sequential": "keras.models",
}
_CLASSES = {"GroupedQueryAttention": "GroupQueryAttention"}
_OPERATORS = {
    "Absolute": "abs",
    "Add": "add",
    "FloorDivide": "floordiv",
    "GetItem": "getitem",
    "Greater": "gt",
    "GreaterEqual": "ge",
    "Less": "lt",
    "LessEqual": "le",
    "Matmul": "matmul",
    "Mod": "mod",
    "Multiply": "mul",
    "Negative": "neg",
    "NotEqual": "ne",
    "Power": "pow",
    "Subtract": "sub",
    "TrueDivide": "truediv",
}
_OF_OPERATORS = {name: kind for kind, name in _OPERATORS.items()}
_NAMES_IN_KERAS: Mapping[str, Mapping[str, str]] = {
    "clip": {"min": "x_min", "max": "x_max", "a_min": "x_min", "a_max": "x_max"},
    "reshape": {"shape": "newshape"},
    "tile": {"reps": "repeats"},
}
"""The names in Keras of arguments for which NumPy or TensorFlow have other names."""
_OPERANDS = {
    ("digitize", "bins"),
    ("full_like", "fill_value"),
    ("quantile", "q"),
    ("slice", "start_indices"),
}
"""Arguments with other names than tensors that are operands in Keras."""
_DROPPED = {"quantization_config", "zero_output_for_mask", "optional", "sparse", "ragged"}
"""Arguments of Keras that change nothing here."""
_OF_EVERY_LAYER = (
    *("name", "dtype", "trainable", "activity_regularizer", "autocast"),
    *("input_shape", "input_dim", "batch_size"),
)
"""Arguments that layers pass on to their base class."""
_NOT_IN_KERAS: Mapping[str, tuple[str, ...]] = {
    "Discretization": ("trainable",),
    "InputLayer": ("trainable",),
    "SpatialDropout1D": ("trainable",),
    "SpatialDropout2D": ("trainable",),
    "SpatialDropout3D": ("trainable",),
}
"""Arguments of ours that the constructors of Keras refuse."""
_TENSOR_NAMES = re.compile(
    r"x\d*|xs|y|a|b|v|inputs|tensors?|operands|arrays|condition|indices|values|updates|target|"
    r"output|query|key|value"
)


def place_of(record: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the module and the name that a class of Keras has here.

    >>> place_of({"module": "keras", "class_name": "Sequential"})
    ('keras.models', 'Sequential')
    """
    module, name = record.get("module"), record["class_name"]
    return _MODULES.get(str(module), module), _CLASSES.get(name, name)


def is_operation(record: Mapping[str, Any]) -> bool:
    """Return whether a record of Keras is an operation, such as an addition."""
    return str(record.get("module")).startswith(OPERATIONS)


def policy_name(record: Mapping[str, Any]) -> str | None:
    """Return the name of a dtype policy if the record is one."""
    config = record.get("config")
    is_policy = record.get("class_name") in ("DTypePolicy", "FloatDTypePolicy")
    return str(config.get("name")) if is_policy and isinstance(config, dict) else None


def operation_of(name: str, known: Callable[[str], Any]) -> Callable[..., Any]:
    """Return the function for an operation of Keras; `known` finds functions of keras.ops."""
    if name in _OPERATORS:
        function: Callable[..., Any] = getattr(operator, _OPERATORS[name])
        return function
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    for one in (snake, snake.replace("_", ""), name.lower()):
        found = known(one)
        if found is not None:
            return found  # type: ignore[no-any-return]
    raise FileFormatError(f"keras.ops has no function for the operation {name!r} of Keras.")


def operation_class(function: Callable[..., Any]) -> str:
    """Return the class that Keras has for an operator or a function of keras.ops.

    >>> operation_class(operator.mul), operation_class(place_of)
    ('Multiply', 'PlaceOf')
    """
    name = function.__name__
    if name in _OF_OPERATORS and function is getattr(operator, name, None):
        return _OF_OPERATORS[name]
    return "".join(part.capitalize() for part in name.split("_"))


def divided_arguments(
    function: Callable[..., Any], args: Any, options: Mapping[str, Any], is_tensor: Any
) -> tuple[list[Any], dict[str, Any]]:
    """Divide the arguments of an operation into operands and options, as Keras does."""
    if function.__module__ in ("operator", "_operator"):
        return list(args), dict(options)
    bound = inspect.signature(function).bind(*args, **options)
    operands: list[Any] = []
    rest: dict[str, Any] = {}
    names = _NAMES_IN_KERAS.get(function.__name__, {})
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            operands.extend(value)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            rest.update(value)
        elif (
            is_tensor(value)
            or _TENSOR_NAMES.fullmatch(name)
            or (function.__name__, name) in _OPERANDS
        ):
            operands.append(value)
        else:
            rest[names.get(name, name)] = value
    if function.__name__ == "einsum" and isinstance(operands[0], str):
        rest["subscripts"] = operands.pop(0)
    return operands, rest


def options_here(class_name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of an operation of Keras under their names here.

    >>> options_here("Slice", {"shape": (2, 2)})
    {'size': (2, 2)}
    """
    if class_name == "Slice":
        return {"size" if name == "shape" else name: value for name, value in config.items()}
    if class_name == "Bincount":
        return {name: value for name, value in config.items() if name != "sparse"}
    return dict(config)


def fitting(kind: type, config: dict[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Drop the arguments of Keras that a class does not have and that change nothing."""
    if "batch_input_shape" in config:  # the name in Keras 2
        config = {**config, "batch_shape": config["batch_input_shape"]}
        del config["batch_input_shape"]
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        known = {*parameters, *_OF_EVERY_LAYER}
    else:
        known = {*parameters}
    unknown = {
        name: value
        for name, value in config.items()
        if name not in known
        and name not in (*_DROPPED, "batch_shape")
        and value not in (None, False, "channels_last")
    }
    if unknown and "layers" not in config:
        given = ", ".join(f"{name}={value!r:.60}" for name, value in unknown.items())
        raise FileFormatError(f"{kind.__name__} of tapegrad.keras does not have {given}.")
    return {name: value for name, value in config.items() if name in known}


def for_keras(class_name: str, config: dict[str, Any]) -> dict[str, Any]:
    """Drop the arguments that a class of Keras does not have."""
    dropped = _NOT_IN_KERAS.get(class_name, ())
    return {name: value for name, value in config.items() if name not in dropped}
