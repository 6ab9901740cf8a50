"""Graphs of traced functions, to run again without Python's control flow or to inspect."""

from __future__ import annotations

from typing import Any

from tapegrad.compat.autograd.tracer import Node, trace
from tapegrad.compat.autograd.util import subvals, toposort
from tapegrad.compat.autograd.wrap_util import Function, wraps
from tapegrad.errors import ArgumentError


class ConstGraphNode(Node):
    """An operation that can run again with other values of its parents."""

    def __init__(
        self,
        value: Any,
        fun: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        parent_argnums: tuple[int, ...],
        parents: tuple[Any, ...],
    ) -> None:
        self.parents = parents
        self._fun, self._kwargs, self._argnums = fun, kwargs, parent_argnums
        self._args = subvals(args, [(argnum, None) for argnum in parent_argnums])

    def initialize_root(self) -> None:
        self.parents = ()

    def partial_fun(self, values: list[Any]) -> Any:
        """Run the operation with new values of its parents."""
        args = subvals(self._args, zip(self._argnums, values, strict=True))
        return self._fun(*args, **self._kwargs)


def const_graph_unary(fun: Function) -> Function:
    """Return `fun` of one argument, traced at the first call and replayed afterwards.

    >>> square = const_graph_unary(lambda x: x * x)
    >>> float(square(2.0)), float(square(3.0))
    (4.0, 9.0)
    """
    graph: list[Any] = []

    def call(x: Any) -> Any:
        if not graph:
            value, end = trace(ConstGraphNode.new_root(), fun, x)
            if end is None:
                raise ArgumentError("const_graph needs a result that depends on the argument.")
            graph.extend(reversed(list(toposort(end))))
            return value
        values = {graph[0]: x}
        for node in graph[1:]:
            values[node] = node.partial_fun([values[parent] for parent in node.parents])
        return values[graph[-1]]

    return call


def const_graph(fun: Function, *args: Any, **kwargs: Any) -> Function:
    """Return `fun` with some arguments fixed, traced at the first call and replayed afterwards.

    >>> line = const_graph(lambda a, x, b: a * x + b, 2.0, b=1.0)
    >>> float(line(3.0)), float(line(4.0))
    (7.0, 9.0)
    """
    unary = const_graph_unary(lambda rest: fun(*args, *rest, **kwargs))

    @wraps(fun)
    def call(*rest: Any) -> Any:
        return unary(rest)

    return call


class FullGraphNode(Node):
    """An operation with its value and its recipe: function, arguments, and parents by position."""

    def __init__(
        self,
        value: Any,
        fun: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        parent_argnums: tuple[int, ...],
        parents: tuple[Any, ...],
    ) -> None:
        self.value = value
        self.recipe = (fun, args, kwargs, list(zip(parent_argnums, parents, strict=True)))

    def initialize_root(self) -> None:
        self.value = None
        self.recipe = (lambda x: x, (), {}, [])


def full_graph(fun: Function, *args: Any, **kwargs: Any) -> Any:
    """Return the last node of the graph of `fun(*args, **kwargs)`.

    >>> full_graph(lambda x: x * x, 3.0).recipe[0].__name__
    'multiply'
    """
    return trace(FullGraphNode.new_root(), lambda args: fun(*args, **kwargs), args)[1]
