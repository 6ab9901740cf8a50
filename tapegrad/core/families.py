"""The short declaration forms: unary, binary, elementwise, linear, nondifferentiable.

`unary` and `binary` return plain functions whose common case (tensors, no listeners) is spelled
out, because this is the path that every eager operation takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.core.convert import NUMBERS
from tapegrad.core.primitive import (
    Primitive,
    RuleFunction,
    bind,
    bind_any,
    broadcast_fit,
    execute,
    explain_failure,
    record,
)
from tapegrad.core.recorder import Node, _new, _next_order, active_stack
from tapegrad.core.rule import Rule
from tapegrad.core.tensor import Tensor

_REAL_NUMBERS = frozenset({float, int, bool})
_NO_PARAMS: dict[str, Any] = {}
Function = Callable[..., Any]


def elementwise(
    name: str,
    *rules: RuleFunction,
    forward: Callable[..., Any] | None = None,
    jvps: tuple[RuleFunction, ...] | None = None,
    conjugates: bool = True,
) -> Primitive:
    """Declare an elementwise primitive with one rule per operand (None: not differentiable).

    The rules serve as VJP and JVP; the VJP conjugates around them for complex values. Give
    `jvps` (and `conjugates=False`) for functions of complex values that are not holomorphic.
    """
    primitive = Primitive(name, forward, differentiable=any(rules))
    primitive.broadcasts = True
    primitive.conjugates = conjugates
    primitive.vjps(*rules)
    primitive.jvps(*(rules if jvps is None else jvps))
    primitive.batch_rule = None  # the batching interpreter aligns ranks for all broadcasting ones
    return primitive


def unary(
    name: str,
    rule: RuleFunction,
    *,
    forward: Callable[..., Any] | None = None,
    jvp: RuleFunction = None,
    conjugates: bool = True,
    doc: str | None = None,
) -> Function:
    """Declare an elementwise function of one tensor and return it."""
    jvps = None if jvp is None else (jvp,)
    primitive = elementwise(name, rule, forward=forward, jvps=jvps, conjugates=conjugates)
    kernels = primitive.kernels
    pick = primitive.vjp_rules[0].pick if primitive.vjp_rules and rule else None

    def call(x: Any, name: str | None = None) -> Any:
        if type(x) is not Tensor:
            return bind_any(primitive, (x,), _NO_PARAMS)
        array = x.array
        try:
            result = kernels[type(array)](array)
        except (ValueError, TypeError) as error:
            explain_failure(primitive, (array,), error)
        tensor: Tensor = _new(Tensor)
        tensor.array = result
        source = x.node
        if source is None:
            tensor.node = None
            return tensor
        stack = active_stack()
        tokens = source.tokens
        if tokens is stack.tokens and pick is not None and not stack.listeners:
            node: Node = _new(Node)
            node.order = _next_order()
            node.tokens = tokens
            node.primitive = primitive
            node.params = _NO_PARAMS
            node.inputs = (source,)
            node.saved = (pick((array,), result),)
            node.fit = node.tangents = None
            tensor.node = node
        else:
            tensor.node = record(stack, primitive, _NO_PARAMS, (array,), (source,), result)
        return tensor

    return _finish(call, primitive, doc)


def binary(
    name: str,
    rule1: RuleFunction,
    rule2: RuleFunction,
    *,
    forward: Callable[..., Any] | None = None,
    jvps: tuple[RuleFunction, ...] | None = None,
    conjugates: bool = True,
    doc: str | None = None,
) -> Function:
    """Declare an elementwise function of two operands that broadcast, and return it."""
    primitive = elementwise(
        name, rule1, rule2, forward=forward, jvps=jvps, conjugates=conjugates
    )
    kernels = primitive.kernels
    rules = primitive.vjp_rules or (None, None)
    plain = rules[0] is not None and rules[1] is not None
    pick1 = rules[0].pick if rules[0] else _nothing
    pick2 = rules[1].pick if rules[1] else _nothing

    def call(x: Any, y: Any, name: str | None = None) -> Any:
        if type(x) is not Tensor:
            return bind_any(primitive, (x, y), _NO_PARAMS)
        a = x.array
        node1 = x.node
        if type(y) is Tensor:
            b = y.array
            node2 = y.node
            if type(a) is not type(b):
                return execute(primitive, [a, b], (node1, node2), _NO_PARAMS)
        elif type(y) in _REAL_NUMBERS:
            b = y
            node2 = None
        else:
            return bind_any(primitive, (x, y), _NO_PARAMS)
        try:
            result = kernels[type(a)](a, b)
        except (ValueError, TypeError) as error:
            explain_failure(primitive, (a, b), error)
        tensor: Tensor = _new(Tensor)
        tensor.array = result
        if node1 is None and node2 is None:
            tensor.node = None
            return tensor
        stack = active_stack()
        tokens = stack.tokens
        if (
            plain
            and (node1 is None or node1.tokens is tokens)
            and (node2 is None or node2.tokens is tokens)
            and not stack.listeners
        ):
            node: Node = _new(Node)
            node.order = _next_order()
            node.tokens = tokens
            node.primitive = primitive
            node.params = _NO_PARAMS
            node.inputs = (node1, node2)
            node.saved = (
                pick1((a, b), result) if node1 is not None else None,
                pick2((a, b), result) if node2 is not None else None,
            )
            node.fit = None if type(b) in _REAL_NUMBERS else broadcast_fit((a, b), result)
            node.tangents = None
            tensor.node = node
        else:
            tensor.node = record(stack, primitive, _NO_PARAMS, (a, b), (node1, node2), result)
        return tensor

    return _finish(call, primitive, doc)


def _nothing(operands: Any, result: Any) -> tuple[()]:
    return ()


def linear(
    name: str,
    forward: Callable[..., Any] | None = None,
    *,
    transpose: Callable[..., Any],
    batch: Callable[..., Any] | None = None,
) -> Primitive:
    """Declare a linear function of one tensor; its tangent is itself of the tangent.

    `transpose` is its VJP rule; it reads shapes, never values.
    """
    primitive = Primitive(name, forward)
    primitive.vjps(transpose)

    def apply(t: Any, **params: Any) -> Any:
        return bind(primitive, t, **params)

    primitive.jvp_rules = (_AllParams(apply),)
    primitive.batch_rule = batch
    return primitive


class _AllParams(Rule):
    """The JVP rule of a linear primitive: it wants whatever params there are."""

    def __call__(self, t: Any, saved: tuple[Any, ...], params: dict[str, Any]) -> Any:
        return self.function(t, **params)


def nondifferentiable(
    name: str,
    forward: Callable[..., Any] | None = None,
    *,
    batch: Callable[..., Any] | None = None,
    broadcasts: bool = False,
    many: bool = False,
) -> Primitive:
    """Declare a primitive that has no derivative: what follows from it is not recorded."""
    primitive = Primitive(name, forward, differentiable=False, many=many)
    primitive.batch_rule = batch
    primitive.broadcasts = broadcasts
    return primitive


def _finish(call: Function, primitive: Primitive, doc: str | None) -> Function:
    call.__name__ = call.__qualname__ = primitive.name
    call.__doc__ = doc or f"Compute {primitive.name} of each element."
    call.primitive = primitive  # type: ignore[attr-defined]  # the table of samples finds it here
    return call
