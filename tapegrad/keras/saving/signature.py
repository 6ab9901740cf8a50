"""Functions for serving in a saved model: tensors by name in, a dict of tensors out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tapegrad.core.values import nest
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.dtypes import DType
from tapegrad.core.values.tensor_shape import TensorShape
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError
from tapegrad.program.record.signature import TensorSpec
from tapegrad.program.saved.saved_function import SavedFunction


class Signature:
    """A function for serving; it has one program for each rank that its arguments may have."""

    def __init__(
        self, name: str, trees: Sequence[Any], arrays: Any, variables: Mapping[str, Variable]
    ) -> None:
        self.name = name
        self._functions = [SavedFunction(name, tree, arrays, variables) for tree in trees]
        first = self._functions[0]
        count = len(first.input_signature)
        names = argument_names(trees[0])
        self._names = names if len(names) == count else [f"inputs_{n}" for n in range(count)]
        if count == 1 and len(names) != 1:
            self._names = ["inputs"]

    @property
    def structured_input_signature(self) -> tuple[tuple[()], dict[str, Any]]:
        """The names, shapes and dtypes of the arguments."""
        return (), dict(zip(self._names, self.inputs))

    @property
    def structured_outputs(self) -> dict[str, TensorSpec]:
        """The names, shapes and dtypes of the results."""
        each = [_by_name(function.structured_outputs) for function in self._functions]
        specs = _common([list(one.values()) for one in each])
        return {name: TensorSpec(s.shape, s.dtype, name) for name, s in zip(each[0], specs)}

    @property
    def inputs(self) -> list[TensorSpec]:
        """The shapes and dtypes of the arguments."""
        return _common([function.input_signature for function in self._functions])

    @property
    def outputs(self) -> list[TensorSpec]:
        """The shapes and dtypes of the results."""
        return list(self.structured_outputs.values())

    @property
    def output_dtypes(self) -> dict[str, DType]:
        """The dtypes of the results by name."""
        return {name: spec.dtype for name, spec in self.structured_outputs.items()}

    @property
    def output_shapes(self) -> dict[str, TensorShape]:
        """The shapes of the results by name."""
        return {name: TensorShape(spec.shape) for name, spec in self.structured_outputs.items()}

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        if args and len(args) == 1 and isinstance(args[0], Mapping):
            kwargs, args = {**args[0], **kwargs}, ()
        given = {**dict(zip(self._names, args)), **kwargs}
        if {*given} != {*self._names} and len(given) == len(self._names) == 1:
            given = dict(zip(self._names, given.values()))
        if {*given} != {*self._names}:
            raise ArgumentError(
                f"This signature takes {', '.join(self._names)}. Got {', '.join(given) or 'none'}."
            )
        specs = self._functions[0].input_signature  # the dtypes of all ranks are equal
        tensors = [to_tensor(given[name], spec.dtype) for name, spec in zip(self._names, specs)]
        fitting = [function for function in self._functions if function.fits(tensors)]
        return _by_name((fitting or self._functions)[0](*tensors))

    def __repr__(self) -> str:
        takes = ", ".join(f"{name}: {spec}" for name, spec in zip(self._names, self.inputs))
        return f"<signature {self.name!r}({takes})>"


def argument_names(tree: Mapping[str, Any]) -> list[str]:
    """Return a name for each tensor of a signature: of its parameter, or of its key in a dict."""
    positional, by_name = tree["arguments"]["tuple"]
    found: dict[int, str] = {}

    def visit(name: str, one: Any) -> None:
        if isinstance(one, str) and one.startswith("tensor "):
            found[int(one.removeprefix("tensor "))] = name
        elif isinstance(one, dict) and "dict" in one:
            for key, inner in one["dict"].items():
                visit(key, inner)
        elif isinstance(one, dict):
            ((kind, content),) = one.items()
            for number, inner in enumerate(content[3] if kind == "extension" else content):
                visit(f"{name}_{number}", inner)

    names = tree["names"]
    for position, one in enumerate(positional["tuple"]):
        visit(str(names[position]) if position < len(names) else f"inputs_{position}", one)
    for key, one in by_name["dict"].items():
        visit(key, one)
    return [found[number] for number in sorted(found)]


def _by_name(result: Any) -> dict[str, Any]:
    if isinstance(result, Mapping):
        return dict(result)
    return {f"output_{n}": one for n, one in enumerate(nest.flatten(result))}


def _common(rows: Sequence[Sequence[Any]]) -> list[TensorSpec]:
    """Return for each place the spec that all rows fit; shapes of several ranks are unknown."""
    return [
        each[0] if len(each) == 1 else TensorSpec(None, each[0].dtype, each[0].name)
        for each in zip(*rows)
    ]
