"""Record a function and return its program as an ONNX model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.values import nest
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.host import fetch
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, UnimplementedError
from tapegrad.ops.creation import zeros
from tapegrad.program.autograph.recording import must_be_recorded
from tapegrad.program.function import Function
from tapegrad.program.graph.graph import Call, Graph
from tapegrad.program.onnx import index_rules, product_rules, reduction_rules, shape_rules
from tapegrad.program.onnx.building import Builder, checked_onnx
from tapegrad.program.onnx.nodes import Nodes, UnsupportedError
from tapegrad.program.onnx.rules import emit
from tapegrad.program.record.arguments import flatten_call
from tapegrad.program.record.recording_lock import recording_alone
from tapegrad.program.record.signature import TensorSpec
from tapegrad.program.saved.encoding import Encoder
from tapegrad.program.saved.saved_function import for_all_lengths, symbols_of
from tapegrad.program.saved.sizes import NotGeneralError, largest_bound
from tapegrad.program.unfused import pruned

_RULES = (index_rules, product_rules, reduction_rules, shape_rules)
"""The modules that register rules when they are imported."""


def exported_model(
    function: Callable[..., Any],
    args: Sequence[Any],
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
    opset: int,
) -> Any:
    """Return the ONNX model of a function for arguments, of which TensorSpecs may be open."""
    checked_onnx(opset)
    recording = _Recordings(function, args, input_names, output_names)
    tree = recording.general_tree()
    builder = Builder(recording.symbols, recording.arrays, opset)
    return builder.model(tree, recording.whose)


class _Recordings:
    """Recordings of a function for several lengths, each as plain values."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        input_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
    ) -> None:
        self.whose = getattr(function, "__name__", type(function).__name__)
        self._function = function if isinstance(function, Function) else Function(_plain(function))
        self._args = tuple(nest.map_structure(_spec_of, one) for one in args)
        pairs = zip(nest.flatten(self._args), nest.flatten(tuple(args)), strict=True)
        self._examples = [
            None if isinstance(given, TensorSpec) else to_tensor(given)
            for spec, given in pairs
            if isinstance(spec, TensorSpec)
        ]
        self._specs = [one for one in nest.flatten(self._args) if isinstance(one, TensorSpec)]
        self.symbols = symbols_of(self._specs, self.whose)
        self._order = sorted({n for row in self.symbols for n in row if isinstance(n, str)})
        self._inputs = _input_names(function, self._args, self._specs, input_names)
        self._outputs = output_names
        self._encoder = Encoder({}, self.whose)
        self._variables: dict[int, str] = {}
        self.arrays: dict[str, Any] = {}
        """The values of variables and the constants, by name."""

    def general_tree(self) -> Any:
        """Return the nodes, inputs and outputs for all lengths."""
        try:
            tree = for_all_lengths(self._tree, len(self._order), [])
        except NotGeneralError:
            raise ArgumentError(
                f"{self.whose} cannot be exported for all lengths: recordings with other lengths "
                "make other operations or constants. Export it for fixed shapes."
            ) from None
        self.arrays.update(self._encoder.arrays)
        return tree

    def _tree(self, lengths: tuple[int, ...]) -> tuple[Any, int]:
        sizes = dict(zip(self._order, lengths))
        shapes = iter([[sizes.get(n, n) for n in row] for row in self.symbols])
        examples = iter(self._examples)

        def example(one: Any) -> Any:
            """Return the array that was given, or zeros in the place of a spec."""
            if not isinstance(one, TensorSpec):
                return one
            shape, given = next(shapes), next(examples)
            return zeros(shape, one.dtype) if given is None else given

        args = nest.map_structure(example, self._args)
        with recording_alone():
            try:
                with must_be_recorded(f"{self.whose} cannot be exported"):
                    call = self._function._recorded_call(flatten_call(args, {}), args, {})
            except (ArithmeticError, np.linalg.LinAlgError) as error:
                raise ArgumentError(
                    f"{self.whose} cannot be recorded with zeros in the place of a TensorSpec "
                    f"({error}). Pass an array as an example; the model then has its shape."
                ) from error
            try:
                graph = pruned(call.graph)
                self._note_variables(graph, call._recording.variables)
                tree = self._emitted(graph, call._result)
                self._check(graph)
                return tree, largest_bound(call._recording.size_notes.operations)
            finally:
                call.let_go()

    def _check(self, graph: Graph) -> None:
        if graph.obstacle:
            raise UnimplementedError(f"{self.whose} cannot be exported: {graph.obstacle}")
        if graph.written:
            raise UnimplementedError(
                f"{self.whose} assigns to a variable, and ONNX models have no state. Export its "
                "inference: of a model, call it with training=False."
            )

    def _note_variables(self, graph: Graph, variables: Any) -> None:
        for number in graph.variables:
            if number in self._variables:
                continue
            variable = variables[number]
            name = _unused(str(variable.name or "variable").partition(":")[0], self.arrays)
            self._variables[number] = name
            self.arrays[name] = fetch(variable.read_value().array, None, "onnx.export()")

    def _emitted(self, graph: Graph, result: Any) -> Any:
        nodes = Nodes(self._encoder)
        for name, value in zip(self._inputs, graph.inputs, strict=True):
            nodes.names[value.number] = name
        for number, value in graph.variables.items():
            nodes.names[value.number] = {"constant": {"array": self._variables[number]}}
        for number, array in graph.constants.items():
            nodes.names[number] = nodes.constant(array)
        for call in graph.calls:
            self._emit(nodes, call)
        names = _output_names(result, self._outputs)
        outputs = []
        for name, value in zip(names, graph.outputs, strict=True):
            nodes.nodes.append(["Identity", [nodes.names[value.number]], {}, [name]])
            outputs.append([name, list(value.shape), value.dtype.name])
        inputs = [
            [name, list(value.shape), value.dtype.name]
            for name, value in zip(self._inputs, graph.inputs)
        ]
        return {"inputs": inputs, "nodes": nodes.nodes, "outputs": outputs}

    def _emit(self, nodes: Nodes, call: Call) -> None:
        try:
            emit(nodes, call)
        except (KeyError, UnsupportedError) as error:
            why = error.args[0]
            if isinstance(error, KeyError):
                why = "it reads a result that only gradients read, and no rule computes it"
            place = f" at {call.site}" if call.site else ""
            name = call.primitive.name
            named = f"{call.function} ({name})" if call.function not in ("", name) else name
            raise UnimplementedError(
                f"{self.whose} cannot be exported to ONNX, because of {named}{place}: {why}. "
                "Write that part with other operations, or leave it out of the exported function."
            ) from None


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that reads the variables among its results."""

    def call(*args: Any) -> Any:
        found = function(*args)
        return nest.map_structure(
            lambda one: one.read_value() if isinstance(one, Variable) else one, found
        )

    return call


def _spec_of(one: Any) -> Any:
    """Return a spec for an array; its shape is fixed."""
    if isinstance(one, TensorSpec) or not hasattr(one, "shape") or not hasattr(one, "dtype"):
        return one
    return TensorSpec(one.shape, one.dtype)


def _input_names(
    function: Any, args: Any, specs: Sequence[TensorSpec], given: Sequence[str] | None
) -> list[str]:
    """Return the given names, those of the specs, or those of the parameters."""
    if given is not None:
        names = [str(name) for name in given]
        if len(names) != len(specs) or len({*names}) != len(names):
            raise ArgumentError(
                f"input_names must be {len(specs)} different names, one for each tensor. Got "
                f"{names}."
            )
        return names
    own = [spec.name for spec in specs]
    if len(args) == len(specs) and None in own:
        try:
            parameters = [*inspect.signature(function).parameters.values()]
        except (TypeError, ValueError):
            parameters = []
        plain = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
        own = [name or plain[k] if k < len(plain) else name for k, name in enumerate(own)]
    found: list[str] = []
    for position, name in enumerate(own):
        found.append(_unused(name or f"input_{position}", found))
    return found


def _output_names(result: Any, given: Sequence[str] | None) -> list[str]:
    leaves = [one for one in nest.flatten(result) if isinstance(one, Tensor | Variable)]
    if given is not None:
        if len(given) != len(leaves) or len({*given}) != len(leaves):
            raise ArgumentError(
                f"output_names must be {len(leaves)} different names, one for each result. Got "
                f"{list(given)}."
            )
        return [str(name) for name in given]
    if isinstance(result, dict) and len(result) == len(leaves):
        return [str(name) for name in sorted(result)]
    return ["output"] if len(leaves) == 1 else [f"output_{k}" for k in range(len(leaves))]


def _unused(name: str, used: Any) -> str:
    """Return a name that is not among the used ones."""
    found, count = name, 1
    while found in used:
        found, count = f"{name}_{count}", count + 1
    return found
