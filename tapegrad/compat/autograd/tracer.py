"""Tracing interface: query traced values, and build graphs of user-defined nodes.

A traced value is a tensor; `isinstance(x, Box)` checks for one. `trace` runs a function and makes
one node of the given class per operation on traced values.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, ClassVar

from tapegrad.autodiff.watch import follow
from tapegrad.compat.autograd.primitives import (
    UserCall,
    UserPrimitive,
    notrace_primitive,
    primitive,
)
from tapegrad.compat.autograd.tracing import Argument
from tapegrad.compat.autograd.util import subval, subvals, toposort
from tapegrad.compat.autograd.values import (
    Function,
    as_tensor,
    is_tensor,
    is_traced,
    own_structure,
    plain,
    raw,
)
from tapegrad.core.recorder import (
    EMPTY,
    Node as TapeNode,
    Operation,
    Token,
    enter_recorder,
    leave_recorder,
    using_stack,
)
from tapegrad.core.values import nest
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.errors import ArgumentTypeError

__all__ = [
    "Box",
    "Node",
    "UserPrimitive",
    "getval",
    "isbox",
    "new_box",
    "notrace_primitive",
    "notrace_primitives",
    "primitive",
    "register_notrace",
    "subval",
    "subvals",
    "toposort",
    "trace",
]


def isbox(x: Any) -> bool:
    """Return whether `x` is currently traced.

    >>> isbox(1.0)
    False
    """
    return is_traced(x)


def getval(x: Any) -> Any:
    """Return the value of a traced value as a constant; other values unchanged.

    >>> getval(1.0)
    1.0
    """
    return raw(x)


class _BoxKind(type):
    """Makes `isinstance(x, Box)` check if `x` is traced; `type(x) == Box` holds for tensors."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return is_traced(instance)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is Tensor

    __hash__ = type.__hash__


class Box(metaclass=_BoxKind):
    """The class of traced values, for `isinstance`. They are tensors: it has no instances.

    >>> isinstance(2.0, Box)
    False
    """

    types: ClassVar[set[type]] = {Tensor}
    type_mappings: ClassVar[dict[type, type]] = {}

    @classmethod
    def register(cls, value_type: type) -> None:
        """Raise: traced values are numbers, arrays and containers, not user types."""
        raise ArgumentTypeError(
            f"Values of type {value_type.__name__} cannot be traced: traced values are tensors. "
            "Differentiate with respect to its arrays, in a list, tuple or dict."
        )


# Scripts read `x._value` to look at a traced value, e.g. to print it.
Tensor._value = property(lambda x: raw(x))  # type: ignore[attr-defined]  # for this package alone


def new_box(value: Any, trace: Any, node: Any) -> Any:
    """Return a value in place of a new box: the value itself, as a tensor."""
    if not is_tensor(value):
        raise ArgumentTypeError(
            f"A {type(value).__name__} does not become traced by itself: tracing starts with "
            "trace(...)."
        )
    return value


notrace_primitives: dict[Any, set[Any]] = defaultdict(set)


def register_notrace(trace_type: Any, primitive_fun: Any) -> None:
    """Declare that nodes of a class ignore a function.

    >>> register_notrace(Node, len)
    >>> len in notrace_primitives.pop(Node)
    True
    """
    notrace_primitives[trace_type].add(primitive_fun)


class Node:
    """An operation of a trace. `trace` makes one instance of a subclass per operation.

    `args` are raw values; `parents` are the nodes of the arguments at `parent_argnums`.
    """

    def __init__(
        self,
        value: Any,
        fun: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        parent_argnums: tuple[int, ...],
        parents: tuple[Any, ...],
    ) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define how a node is made.")

    def initialize_root(self, *args: Any, **kwargs: Any) -> None:
        """Initialize the node of the argument."""

    @classmethod
    def new_root(cls, *args: Any, **kwargs: Any) -> Any:
        """Return the node that represents the function's argument."""
        root = cls.__new__(cls)
        root.initialize_root(*args, **kwargs)
        return root

    def follow(self, fun: Function, x: Any) -> tuple[Any, Any]:
        """Run `fun(x)` with this node for `x`; return its value and its node."""
        return GraphRecorder(type(self)).run(self, fun, x)


def trace(start_node: Any, fun: Function, x: Any) -> tuple[Any, Any]:
    """Run `fun(x)` and return its value and its last node, None if the value is constant.

    >>> class Named(Node):
    ...     def __init__(self, value, fun, args, kwargs, parent_argnums, parents):
    ...         self.name = fun.__name__
    >>> value, node = trace(Named.new_root(), lambda x: x * 2.0 + 1.0, 3.0)
    >>> float(value), node.name
    (7.0, 'add')
    """
    return start_node.follow(fun, x)  # type: ignore[no-any-return]


def container_take(container: Any, index: Any) -> Any:
    """Return a leaf of a container by its index among all leaves.

    >>> container_take((1.0, [2.0, 3.0]), 2)
    3.0
    """
    return nest.flatten(container)[index]


class GraphRecorder:
    """A recorder that makes a node of a user's class for every operation."""

    listens = True
    watches_variables = False
    tracks_exits = allows_exits = False
    frame = None

    def __init__(self, kind: Any) -> None:
        self.token = Token(keeps_history=False)
        self._kind = kind
        self._made: dict[TapeNode, Any] = {}

    def follows_variable(self, variable: Any, node: Any) -> bool:
        """Ignore variables: they are not arguments."""
        return False

    def run(self, root: Any, fun: Function, x: Any) -> tuple[Any, Any]:
        """Run `fun(x)`; the root represents `x`, or is the parent of the entries of a container."""
        argument = Argument(x)
        for index, tensor in enumerate(argument.sources):
            node = follow(tensor, self.token)
            if nest.is_nested(x):
                entry = (raw(tensor), container_take, (own_structure(x), index))
                self._made[node] = self._kind(*entry, {}, (0,), (root,))
            else:
                self._made[node] = root
        enter_recorder(self)
        try:
            output = fun(argument.value())
        finally:
            leave_recorder(self)
            self.token.open = False
        end = output.node if isinstance(output, Tensor) else None
        found = None if end is None else self._made.get(end)
        return own_structure(output), found

    def on_operation(self, operation: Operation) -> None:
        """Make the nodes of an operation's results."""
        with using_stack(EMPTY):
            for index, node in enumerate(operation.outputs):
                if node is not None:
                    self._made[node] = self._node(operation, index)

    def _node(self, operation: Operation, index: int) -> Any:
        primitive = operation.primitive
        tensors = [_wrapped(value) for value in operation.operands]
        if isinstance(primitive, UserCall):
            called = primitive.called
            args = called.args([plain(tensor) for tensor in tensors])
            places, kwargs = called.argnums, called.kwargs
        else:
            args, places = tuple(plain(t) for t in tensors), list(range(len(tensors)))
            kwargs = dict(operation.params)
        known = [
            (place, self._made[node])
            for place, node in zip(places, operation.nodes, strict=True)
            if node in self._made
        ]
        argnums, parents = tuple(n for n, _ in known), tuple(parent for _, parent in known)
        result = operation.result[index] if primitive.many else operation.result
        fun = named(primitive, index)
        return self._kind(plain(_wrapped(result)), fun, args, kwargs, argnums, parents)


def _wrapped(value: Any) -> Any:
    return wrap(value) if hasattr(value, "shape") else value


def named(primitive: Any, index: int = 0) -> Any:
    """Return an operation as a named function of values and keyword parameters."""
    if isinstance(primitive, UserCall):
        return primitive.called.key

    def call(*args: Any, **kwargs: Any) -> Any:
        if not any([hasattr(arg, "dtype") for arg in args]):
            args = tuple(as_tensor(arg) for arg in args)  # Python floats alone become float64
        result = primitive(*args, **kwargs)
        return plain(result[index] if primitive.many else result)

    call.__name__ = primitive.name
    return call
