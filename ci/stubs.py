"""Write the type stubs of the modules whose functions return tensors.

    python ci/stubs.py            write tapegrad/__init__.pyi, tapegrad/nn.pyi, ...
    python ci/stubs.py --check    fail if one of them is out of date

The functions behind these names are annotated with Any, because inside of `vmap` and recorded
functions they return other values than tensors. For users they return tensors. What a function
returns is observed while its docstring's example runs; a function whose example shows several
kinds of results, or none, returns Any.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import importlib
import inspect
import io
import sys
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "backends")]

import numpy as np  # noqa: E402

import tapegrad  # noqa: E402
from tapegrad.core.values.tensor import Tensor  # noqa: E402

MODULES = (
    "",
    "bitwise",
    "image",
    "linalg",
    "math",
    "nn",
    "quantization",
    "random",
    "signal",
    "special",
)

PLAIN = {"int", "float", "bool", "str", "None", "Any", "complex"}
"""Annotations that a stub can repeat."""

RESULTS = {
    "grad": "Callable[..., Any]",
    "value_and_grad": "Callable[..., Any]",
    "jacobian": "Callable[..., Any]",
    "hessian": "Callable[..., Any]",
    "vmap": "Callable[..., Any]",
    "custom_gradient": "Callable[..., Any]",
    "recompute_grad": "Callable[..., Any]",
    "checkpoint": "Callable[..., Any]",
    "constant": "Tensor",
    "convert_to_tensor": "Tensor",
    "cond": "Any",
    "case": "Any",
    "switch_case": "Any",
    "while_loop": "Any",
    "map_fn": "Any",
    "scan": "Any",
    "foldl": "Any",
    "foldr": "Any",
    "vectorized_map": "Any",
    "numpy_function": "Any",
    "py_function": "Any",
    "einsum": "Tensor",
    "hvp": "Any",
    "jvp": "builtins.tuple[Any, Any]",
    "vjp": "builtins.tuple[Any, Callable[..., Any]]",
    "device": "AbstractContextManager[None]",
    "name_scope": "Any",
    "list_devices": "list[str]",
    "as_dtype": "DType",
    "stop_gradient": "Tensor",
}
"""Results that depend on what the caller passes, and those of decorators."""

HEADER = """# Made by ci/stubs.py, never by hand.
import builtins
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from tapegrad.core.values.tensor import Tensor
"""

FUNCTION = '''
_P = ParamSpec("_P")
_Q = ParamSpec("_Q")
_R = TypeVar("_R")
_S = TypeVar("_S")

class CompiledFunction(Function, Generic[_P, _R]):
    """What `tapegrad.function` makes: call it as the function that it was made from."""
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @overload
    def __get__(self, instance: None, owner: Any = ...) -> CompiledFunction[_P, _R]: ...
    @overload
    def __get__(
        self: CompiledFunction[Concatenate[_S, _Q], _R], instance: _S, owner: Any = ...
    ) -> CompiledFunction[_Q, _R]: ...

@overload
def function(func: Callable[_P, _R], *options: Any, **more: Any) -> CompiledFunction[_P, _R]: ...
@overload
def function(
    func: None = None, *options: Any, **more: Any
) -> Callable[[Callable[_P, _R]], CompiledFunction[_P, _R]]: ...
'''


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if out of date")
    check = parser.parse_args().check
    results = observed_results()
    stale = []
    for name in MODULES:
        path = ROOT / "tapegrad" / (f"{name}.pyi" if name else "__init__.pyi")
        text = stub_of(name, results)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if not check:
                path.write_text(text, encoding="utf-8")
    if check and stale:
        print(f"Out of date: {', '.join(stale)}. Run: python ci/stubs.py")
    return int(check and bool(stale))


def public_functions() -> dict[str, Any]:
    """Return the functions of all modules by module and name."""
    found = {}
    for module in MODULES:
        face = face_of(module)
        for name in face.__all__:
            value = getattr(face, name)
            if is_function(value):
                found[f"{module}.{name}"] = value
    return found


def face_of(module: str) -> Any:
    return importlib.import_module(f"tapegrad.{module}") if module else tapegrad


def is_function(value: Any) -> bool:
    return isinstance(value, types.FunctionType) or (
        callable(value) and not isinstance(value, type) and hasattr(value, "__wrapped__")
    )


def observed_results() -> dict[int, str]:
    """Return the types of results by the ids of the functions."""
    return {id(function): observed(function) for function in public_functions().values()}


def observed(function: Any) -> str:
    """Return the type of the results in the example of a function."""
    if is_made(function):
        return "Tensor"  # it has no example
    kinds: list[str] = []

    def watched(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        kinds.append(type_of(result))
        return result

    module = importlib.import_module(function.__module__)
    names = {**vars(module), function.__name__: watched}
    test = doctest.DocTestParser().get_doctest(
        inspect.getdoc(function) or "", names, function.__name__, None, 0
    )
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    with contextlib.redirect_stdout(io.StringIO()):
        runner.run(test, out=lambda _: None)
    different = list(dict.fromkeys(kinds))
    return different[0] if len(different) == 1 else "Any"


def type_of(value: Any) -> str:
    """Return the annotation for one result."""
    if isinstance(value, Tensor):
        return "Tensor"
    if type(value) is list and value and all(isinstance(x, Tensor) for x in value):
        return "list[Tensor]"
    if type(value) is tuple and value and all(isinstance(x, Tensor) for x in value):
        return f"builtins.tuple[{', '.join(['Tensor'] * len(value))}]"
    if value is None:
        return "None"
    if isinstance(value, bool | np.bool_):
        return "builtins.bool"
    return "Any"


def stub_of(module: str, results: dict[int, str]) -> str:
    face = face_of(module)
    lines = [HEADER if module else HEADER.replace("import Tensor", "import Tensor as Tensor")]
    if not module:
        lines += ["from tapegrad.program.function import Function", "__version__: builtins.str"]
    for name in sorted(face.__all__, key=str):
        value = getattr(face, name)
        if not module and name == "function":
            lines.append(FUNCTION)
        elif isinstance(value, types.ModuleType):
            path = value.__name__.rpartition(".")
            shown = name if path[2] == name else f"_{name}"  # as for classes
            lines.append(f"from {path[0]} import {path[2]} as {shown}")
            lines += [] if shown == name else [f"{name} = {shown}"]
        elif isinstance(value, type):
            lines += class_stub(name, value)
        elif is_function(value):
            lines.append(function_stub(name, value, results[id(value)]))
        else:
            lines.append(f"{name}: {constant_type(value)}")
    return "\n".join([*lines, ""])


def class_stub(name: str, value: type) -> list[str]:
    """Return the lines that export a class; only an import under its own name is an export."""
    if value.__name__ == name:
        return [f"from {value.__module__} import {name} as {name}"]
    private = f"_{value.__name__}"
    return [f"from {value.__module__} import {value.__name__} as {private}", f"{name} = {private}"]


def constant_type(value: Any) -> str:
    kind = type(value)
    if value is None:
        return "None"
    if kind in (int, float, str):
        return f"builtins.{kind.__name__}"
    if isinstance(value, tapegrad.DType):
        return "DType"
    return "Any"


def function_stub(name: str, function: Any, result: str) -> str:
    """Return the declaration of a function; editors show the docstring of its source.

    A function that is made from an elementwise primitive has no source, so its docstring is here.
    """
    parameters = []
    signature = inspect.signature(function, follow_wrapped=False)
    for parameter in signature.parameters.values():
        default = parameter.empty if parameter.default is parameter.empty else ...
        parameters.append(
            parameter.replace(annotation=Name(annotation(parameter)), default=default)
        )
    declared = str(function.__annotations__.get("return", "Any"))
    if name in RESULTS:
        result = RESULTS[name]
    elif declared in PLAIN - {"Any"}:
        result = "None" if declared == "None" else f"builtins.{declared}"
    text = str(signature.replace(parameters=parameters, return_annotation=signature.empty))
    text = text.replace("=Ellipsis", "=...").replace(" = Ellipsis", " = ...")
    head = f"def {name}{text} -> {result}:"
    if not is_made(function) or not function.__doc__:
        return f"{head} ..."
    lines = [f"    {line}".rstrip() for line in inspect.getdoc(function).splitlines()]
    return "\n".join([head, '    r"""' + lines[0].strip(), *lines[1:], '    """'])


def is_made(function: Any) -> bool:
    """Return whether a function is made from an elementwise primitive."""
    name: str = function.__globals__["__name__"]
    return name.startswith("tapegrad.core.primitive.")


class Name:
    """An annotation that `inspect` prints as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def annotation(parameter: inspect.Parameter) -> str:
    """Return the annotation of a parameter, or Any for what a stub does not know."""
    text = str(parameter.annotation)
    parts = text.split(" | ")
    if not set(parts) <= PLAIN:
        return "Any"
    return " | ".join(part if part in ("None", "Any") else f"builtins.{part}" for part in parts)


if __name__ == "__main__":
    sys.exit(main())
