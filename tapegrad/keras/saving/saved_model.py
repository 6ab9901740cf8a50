"""Write the recorded functions and the variables of an object to a folder.

The folder has two files: the programs as JSON, and the arrays in safetensors format. It holds no
code. This is tapegrad's format: TensorFlow does not read it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from secrets import token_hex
from types import MethodType
from typing import Any

from tapegrad.autodiff.arguments import variable_in
from tapegrad.core.call_site import warn_outside
from tapegrad.core.files.atomic import StrPath, replacing
from tapegrad.core.values import nest
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.keras.saving.tensor_file import write_tensors
from tapegrad.keras.saving.tracking import HasVariables, track
from tapegrad.ops.random.generator import get_global_generator
from tapegrad.program.concrete import ConcreteFunction
from tapegrad.program.function import Function
from tapegrad.program.record.signature import TensorSpec
from tapegrad.program.saved.encoding import Encoder
from tapegrad.program.saved.saved_function import encoded_function, with_ranks

FORMAT = {"format": "tapegrad.saved_model", "version": 1}
PROGRAMS = "saved_model.json"
GLOBAL_RANDOM = "~random"
DEFAULT = "serving_default"


def write_saved_model(
    obj: Any,
    export_dir: StrPath,
    signatures: Any = None,
    endpoints: Mapping[str, Any] | None = None,
) -> None:
    """Write an object; `endpoints` are other functions than its own, with their specs, by name.

    The endpoint "serving_default", or else the first one, is the signature of that name.
    """
    if not isinstance(obj, HasVariables) or isinstance(obj, type):
        raise ArgumentTypeError(
            f"saved_model.save takes a Module, a layer or a model. Got {type(obj).__name__}."
        )
    folder, whose = Path(os.fspath(export_dir)), type(obj).__name__
    tracked = track({"root": obj})
    named = {name.removeprefix("root/"): v for name, v in tracked.variables.items()}
    numbers = {variable.number: name for name, variable in named.items()}
    numbers.setdefault(get_global_generator().state.number, GLOBAL_RANDOM)
    encoder = Encoder(numbers, whose)
    held = [*named.values(), *_held_tensors(obj, set())]
    encoder.lengths = sorted({n for one in held for n in one.shape if n > 1})
    if endpoints is None:
        functions = _encoded_functions(obj, whose, encoder)
        signed = _encoded_signatures(obj, signatures, functions, encoder, whose)
    else:
        functions = {
            name: [_encoded(function, (specs, {}), encoder, f"{whose}.{name}")]
            for name, (function, specs) in endpoints.items()
        }
        signed = {DEFAULT: functions[DEFAULT if DEFAULT in functions else next(iter(functions))]}
    own = {variable_in(variable).number for variable in obj.variables}
    named = {n: v for n, v in named.items() if v.number in own or n in encoder.used}
    found = {
        **FORMAT,
        "functions": functions,
        "signatures": signed,
        "variables": {name: v.trainable for name, v in named.items()},
    }
    arrays = {f"variables/{name}": variable for name, variable in named.items()}
    _write(folder, found, {**arrays, **encoder.arrays})


def _write(folder: Path, found: dict[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write the arrays, then the programs, which name the file of arrays; the old one is kept.

    Several processes may write to the folder at the same time, e.g. the replicas of a strategy. The
    last one wins. So each removes only those arrays that its own programs have replaced.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = f"arrays-{token_hex(8)}.safetensors"
    try:
        write_tensors(folder / name, arrays)
        old = _arrays_of(folder)
        with replacing(folder / PROGRAMS) as file:
            file.write(json.dumps({**found, "arrays": name}).encode())
    except BaseException:
        with suppress(OSError):
            (folder / name).unlink()
        raise
    if old is not None:
        with suppress(OSError):
            (folder / old).unlink()


def _arrays_of(folder: Path) -> str | None:
    """Return the name of the file of arrays that the programs of a folder use, if it has any."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        name = json.loads((folder / PROGRAMS).read_bytes())["arrays"]
        if fnmatch(name, "arrays-*.safetensors") and Path(name).name == name:
            return str(name)
    return None


def _encoded_functions(obj: Any, whose: str, encoder: Encoder) -> dict[str, list[Any]]:
    """Return the recorded functions of an object and of those in its attributes."""
    found: dict[str, list[Any]] = {}
    for path, name, function in _functions(obj, "", set()):
        label = f"{path}{name}"
        given = function._specs
        recorded = _without_text([*function.recorded_specs.values()], f"{whose}.{label}")
        calls = [(given, {})] if given is not None else recorded
        if calls:
            found[label] = [
                tree
                for one in calls
                for tree in _of_all_ranks(function, one, encoder, f"{whose}.{label}")
            ]
    call = call_of_model(obj)
    if call is not None and "__call__" not in found:
        found["__call__"] = [_encoded(call[0], (call[1], {}), encoder, whose)]
    return found


def _without_text(calls: list[Any], whose: str) -> list[Any]:
    """Leave out the signatures of a function that take text, if there are others."""
    found = [one for one in calls if not _takes_text(one)]
    if not found or len(found) == len(calls):
        return calls
    warn_outside(
        f"{whose} is saved without the signatures that take text, which is computed in Python and "
        "not by a program. Call the saved function with numbers.",
    )
    return found


def _takes_text(call: Any) -> bool:
    specs = [one for one in nest.flatten(call) if isinstance(one, TensorSpec)]
    return any(one.dtype.name == "string" for one in specs)


def _held_tensors(obj: Any, seen: set[int]) -> Iterator[Tensor]:
    """Yield the tensors in the attributes of an object and of the objects that it holds."""
    if id(obj) not in seen:
        seen.add(id(obj))
        for value in vars(obj).values():
            if isinstance(value, Tensor):
                yield value
            elif isinstance(value, HasVariables) and not isinstance(value, type | Variable):
                yield from _held_tensors(value, seen)


def _functions(obj: Any, path: str, seen: set[int]) -> Iterator[tuple[str, str, Function]]:
    if id(obj) in seen:
        return
    seen.add(id(obj))
    own = {name: value for name, value in vars(obj).items() if isinstance(value, Function)}
    methods = [
        name
        for kind in reversed(type(obj).__mro__)
        for name, value in vars(kind).items()
        if isinstance(value, Function) and not kind.__module__.startswith("tapegrad.keras.")
    ]
    for name in dict.fromkeys([*own, *methods]):
        function: Any = getattr(obj, name)
        yield path, name, getattr(function, "__func__", function)
    for name, value in vars(obj).items():
        if isinstance(value, HasVariables) and not isinstance(value, type | Variable):
            yield from _functions(value, f"{path}{name}.", seen)


def call_of_model(obj: Any) -> tuple[Function, tuple[Any, ...]] | None:
    """Return the function and the specs of the inference of a Keras model, None for others.

    A model that has never been called knows no shapes, and is saved without the function.
    """
    if not hasattr(type(obj), "get_compile_config"):
        return None
    if not getattr(obj, "inputs", None) and obj.__dict__.get("_called_with") is None:
        warn_outside(
            f"Model {obj.name!r} is saved without a function, because the shapes of its inputs are "
            "not known. Call it on a batch first.",
        )
        return None
    return inference_of(obj, specs_of_model(obj))


def inference_of(model: Any, specs: tuple[Any, ...]) -> tuple[Function, tuple[Any, ...]]:
    """Return the function that calls a model in inference mode, and its specs."""

    def serve(*inputs: Any) -> Any:
        return model(*inputs, training=False)

    return Function(serve), specs


def specs_of_model(model: Any) -> tuple[Any, ...]:
    """Return the specs of the inputs of a model that was built."""
    called = model.__dict__.get("_called_with")
    if getattr(model, "inputs", None):
        flat = model.inputs[0] if len(model.inputs) == 1 else model.inputs
        # Keras' Sequential has no `input` before it is part of another model.
        given: tuple[Any, ...] = (getattr(model, "input", flat),)
    elif called is not None:
        given = tuple(called()[0])
    else:
        raise ArgumentError(
            f"Model {model.name!r} does not know its inputs. Call it on a batch first, or pass "
            "input_signature."
        )
    return tuple(nest.map_structure(_spec, one) for one in given)


def _spec(x: Any) -> TensorSpec:
    return TensorSpec(x.shape, x.dtype, getattr(x, "name", None))


def _of_all_ranks(
    function: Function, call: Any, encoder: Encoder, whose: str
) -> list[dict[str, Any]]:
    """Return a function as JSON values, once for each rank that a spec without a shape may have."""
    ranked = with_ranks(call)
    if len(ranked) == 1:
        return [_encoded(function, call, encoder, whose)]
    found = []
    for one in ranked:
        try:
            found.append(_encoded(function, one, encoder, whose))
        except (ArgumentError, ShapeError) as error:  # it does not take this rank
            refusal = error
    if not found:
        raise refusal
    return found


def _encoded(function: Function, call: Any, encoder: Encoder, whose: str) -> dict[str, Any]:
    args, kwargs = call
    names = function._parameters.names
    return encoded_function(function, tuple(args), kwargs, encoder, names, whose)


def _encoded_signatures(
    obj: Any, signatures: Any, functions: Mapping[str, list[Any]], encoder: Encoder, whose: str
) -> dict[str, list[Any]]:
    """Return for each signature the programs of its function, one for each rank of its tensors."""
    if signatures is None:
        chosen = _default_signature(obj, functions)
        return {} if chosen is None else {DEFAULT: chosen}
    given = signatures if isinstance(signatures, Mapping) else {DEFAULT: signatures}
    found = {}
    for name, value in given.items():
        label = f"{whose}.signatures[{name!r}]"
        found[name] = _of_all_ranks(*_signature(value, label), encoder, label)
    return found


def _default_signature(obj: Any, functions: Mapping[str, list[Any]]) -> list[Any] | None:
    """Return the call of a model, or the only own function with an input_signature and results."""
    if hasattr(type(obj), "get_compile_config"):
        inference = functions.get("serve") or functions.get("__call__", [])
        if len(inference) == 1:
            return inference
    own = [
        functions[name]
        for path, name, function in _functions(obj, "", set())
        if not path and function._specs is not None and functions[name][0]["outputs"]
    ]
    return own[0] if len(own) == 1 else None


def _signature(value: Any, label: str) -> tuple[Function, Any]:
    if isinstance(value, MethodType):
        value = value.__func__
    if isinstance(value, ConcreteFunction):
        function: Any = value._function
        bound = value.structured_input_signature
        function = function.__func__ if isinstance(function, MethodType) else function
        return function, bound
    if isinstance(value, Function):
        if value._specs is not None:
            return value, (value._specs, {})
        if len(value.recorded_specs) == 1:
            return value, next(iter(value.recorded_specs.values()))
    raise ArgumentError(
        f"{label} must be a tapegrad.function with an input_signature, or what its "
        "get_concrete_function returns."
    )
