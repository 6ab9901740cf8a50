"""A recorded graph under TensorFlow's names: operations and tensors that are found by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tapegrad.core.values.dtypes import DType, as_dtype
from tapegrad.core.values.tensor_shape import TensorShape
from tapegrad.errors import ArgumentError, MissingNameError
from tapegrad.program.graph.graph import Graph, Value


@dataclass(eq=False)
class GraphTensor:
    """A result of an operation, without a value."""

    op: GraphOperation
    index: int
    shape: TensorShape
    dtype: DType

    @property
    def name(self) -> str:
        return f"{self.op.name}:{self.index}"

    def __repr__(self) -> str:
        return f"<graph tensor {self.name!r} shape={self.shape} dtype={self.dtype}>"


@dataclass(eq=False)
class GraphOperation:
    """A node of the graph: an argument, a variable, a constant, a call or a result."""

    name: str
    type: str
    inputs: tuple[GraphTensor, ...] = ()
    outputs: list[GraphTensor] = field(default_factory=list)

    @property
    def op(self) -> str:
        """The type, under the name that graph definitions have for it."""
        return self.type

    @property
    def input(self) -> list[str]:
        """The names of the operations whose results this one takes."""
        return [tensor.op.name for tensor in self.inputs]

    def __repr__(self) -> str:
        return f"<graph operation {self.name!r} type={self.type}>"


class GraphDefinition:
    """The nodes of a graph, which print as text."""

    def __init__(self, node: Sequence[GraphOperation]) -> None:
        self.node = list(node)

    def __str__(self) -> str:
        return "\n".join(
            "\n".join(
                [
                    "node {",
                    f'  name: "{node.name}"',
                    f'  op: "{node.type}"',
                    *[f'  input: "{name}"' for name in node.input],
                    "}",
                ]
            )
            for node in self.node
        )

    __repr__ = __str__


class GraphArgument(NamedTuple):
    """An argument or a result of a function: its name, and its dtype or "resource"."""

    name: str
    type: str


class GraphSignature(NamedTuple):
    """The name, arguments and results of a function; the variables that it reads are arguments."""

    name: str
    input_arg: list[GraphArgument]
    output_arg: list[GraphArgument]


class FunctionDefinition:
    """The signature of a function and the nodes of its graph."""

    def __init__(self, graph: FunctionGraph) -> None:
        operations = graph.get_operations()
        given = [GraphArgument(one.op.name, one.dtype.name) for one in graph.inputs]
        read = [
            GraphArgument(one.name, "resource") for one in operations if one.type == "ReadVariable"
        ]
        made = [GraphArgument(one.op.name, one.dtype.name) for one in graph.outputs]
        self.signature = GraphSignature(graph.name, [*given, *read], made)
        self.node_def = operations


class FunctionGraph:
    """The operations of a recorded function, in the order in which they run."""

    def __init__(self, name: str, graph: Graph, arguments: Sequence[str]) -> None:
        self.name = name
        self._operations: list[GraphOperation] = []
        self._names: Counter[str] = Counter()
        tensors: dict[int, GraphTensor] = {}
        for value, argument in zip(graph.inputs, arguments):
            self._add(argument, "Placeholder", (), [value], tensors)
        for value in graph.variables.values():
            self._add("ReadVariable", "ReadVariable", (), [value], tensors)
        for call in graph.calls:
            self._add_constants(call.reads, tensors)
            given = tuple(tensors[value.number] for value in call.reads)
            kind = "".join(part.capitalize() for part in call.primitive.name.split("_"))
            self._add(kind, kind, given, call.results, tensors)
        self._add_constants(graph.outputs, tensors)
        self.inputs = [tensors[value.number] for value in graph.inputs]
        self.outputs = [
            self._add("Identity", "Identity", (tensors[value.number],), [value], {}).outputs[0]
            for value in graph.outputs
        ]

    def _add_constants(self, values: Sequence[Value], tensors: dict[int, GraphTensor]) -> None:
        for value in values:
            if value.number not in tensors:
                self._add("Const", "Const", (), [value], tensors)

    def _add(
        self,
        name: str,
        kind: str,
        inputs: tuple[GraphTensor, ...],
        results: Sequence[Value],
        tensors: dict[int, GraphTensor],
    ) -> GraphOperation:
        self._names[name] += 1
        number = self._names[name] - 1
        made = GraphOperation(f"{name}_{number}" if number else name, kind, inputs)
        for index, value in enumerate(results):
            tensor = GraphTensor(made, index, TensorShape(value.shape), as_dtype(value.dtype))
            made.outputs.append(tensor)
            tensors[value.number] = tensor
        self._operations.append(made)
        return made

    def get_operations(self) -> list[GraphOperation]:
        """Return all operations, arguments first."""
        return list(self._operations)

    def get_operation_by_name(self, name: str) -> GraphOperation:
        """Return the operation of this name."""
        for operation in self._operations:
            if operation.name == name:
                return operation
        known = ", ".join(operation.name for operation in self._operations)
        raise MissingNameError(f"The graph has no operation {name!r}. It has: {known}.")

    def get_tensor_by_name(self, name: str) -> GraphTensor:
        """Return the result of an operation: "Add:0" is the first one of "Add"."""
        operation, _, number = name.partition(":")
        if not number.isdigit():
            raise ArgumentError(f"Tensors have names such as 'Add:0'. Got {name!r}.")
        outputs = self.get_operation_by_name(operation).outputs
        if int(number) >= len(outputs):
            raise MissingNameError(f"{operation!r} has {len(outputs)} results. Got {name!r}.")
        return outputs[int(number)]

    def as_graph_def(
        self, from_version: int | None = None, add_shapes: bool = False
    ) -> GraphDefinition:
        """Return the nodes as a definition, whose `node` is their list."""
        return GraphDefinition(self._operations)

    def __repr__(self) -> str:
        return f"<graph of {self.name!r} with {len(self._operations)} operations>"
