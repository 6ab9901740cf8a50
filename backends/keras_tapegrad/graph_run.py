"""Functional models drop each intermediate value after its last use.

Keras keeps all of them until the model has run, because most backends run a model only to compile
it. Here the first step computes while it is recorded, and a large frozen model would need memory
for the results of all its layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras.src import tree


def dropping(function_class: Any) -> Any:
    """Return the class of Keras' graphs, whose runs drop values that nothing needs any more."""
    usual = function_class._run_through_graph

    def run(
        self: Any,
        inputs: Any,
        operation_fn: Callable[[Any], Any] = lambda operation: operation,
        call_fn: Callable[..., Any] | None = None,
    ) -> Any:
        values = {id(place): x for place, x in zip(self.inputs, tree.flatten(inputs))}
        nodes = _nodes_in_order(self)
        for node, unused in zip(nodes, _unused_after(nodes, self.outputs)):
            if all([id(place) in values for place in node.input_tensors]):
                results = _result(self, node, values, operation_fn, call_fn)
                values.update(zip(map(id, node.outputs), tree.flatten(results)))
            for place in unused:
                values.pop(place, None)
        if any([id(place) not in values for place in self.outputs]):
            return usual(self, inputs, operation_fn, call_fn)  # which explains the error
        found = [values[id(place)] for place in self.outputs]
        return tree.pack_sequence_as(self._outputs_struct, found)

    function_class._run_through_graph = run
    return function_class


def _nodes_in_order(graph: Any) -> list[Any]:
    by_depth = graph._nodes_by_depth
    ordered = [node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]]
    return [node for node in ordered if node.operation and not node.is_input]


def _unused_after(nodes: list[Any], outputs: list[Any]) -> list[list[int]]:
    """Return for each node the places whose values no later node and no output needs."""
    last = {}
    for number, node in enumerate(nodes):
        for place in (*node.outputs, *node.input_tensors):
            last[id(place)] = number
    found: list[list[int]] = [[] for _ in nodes]
    needed = {id(place) for place in outputs}
    for name, number in last.items():
        if name not in needed:
            found[number].append(name)
    return found


def _result(graph: Any, node: Any, values: Any, operation_fn: Any, call_fn: Any) -> Any:
    args, kwargs = node.arguments.fill_in(values)
    if call_fn is not None:
        return call_fn(operation_fn(node.operation), *args, **kwargs)
    return operation_fn(graph._get_operation_for_node(node))(*args, **kwargs)
