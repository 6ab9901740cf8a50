"""The short declaration forms: unary, binary, elementwise, linear, nondifferentiable.

`unary` and `binary` return plain functions whose common case (tensors, no listeners) is spelled
out, because this is the path that every eager operation takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
from tapegrad.core.variable import Variable

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
    primitive.vjps(*rules)
    # A rule that reads nothing has a real factor, which conjugation does not change.
    reads = any(rule is not None and rule.reads for rule in primitive.vjp_rules or ())
    primitive.conjugates = conjugates and reads
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
    save = _saver(primitive, (True,))

    def call(x: Any, name: str | None = None) -> Any:
        if type(x) is not Tensor:
            x = x.value() if type(x) is Variable else x
            if type(x) is not Tensor:
                return bind_any(primitive, (x,), _NO_PARAMS)
        array = x.array
        try:
            result = kernels[type(array)](array)
        except (ValueError, TypeError) as error:
            explain_failure(primitive, (array,), error)
        except KeyError:
            return execute(primitive, [array], (x.node,), _NO_PARAMS)
        tensor: Tensor = _new(Tensor)
        tensor.array = result
        source = x.node
        if source is None:
            tensor.node = None
            return tensor
        stack = active_stack()
        tokens = source.tokens
        if tokens is stack.tokens and save is not None and not stack.listeners:
            node: Node = _new(Node)
            node.order = _next_order()
            node.tokens = tokens
            node.primitive = primitive
            node.params = _NO_PARAMS
            node.inputs = (source,)
            node.saved = save((array,), result) if type(save) is not tuple else save
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
    primitive = elementwise(name, rule1, rule2, forward=forward, jvps=jvps, conjugates=conjugates)
    kernels = primitive.kernels
    save1 = _saver(primitive, (True, False))
    save2 = _saver(primitive, (False, True))
    save12 = _saver(primitive, (True, True))

    def call(x: Any, y: Any, name: str | None = None) -> Any:
        if type(x) is not Tensor:
            x = x.value() if type(x) is Variable else x
            if type(x) is not Tensor:
                return bind_any(primitive, (x, y), _NO_PARAMS)
        a = x.array
        node1 = x.node
        if type(y) is Variable:
            y = y.value()
        if type(y) is Tensor:
            b = y.array
            node2 = y.node
            if type(a) is not type(b):
                return execute(primitive, [a, b], (node1, node2), _NO_PARAMS)
        elif type(y) is float or type(y) in _REAL_NUMBERS:
            b = y
            node2 = None
        else:
            return bind_any(primitive, (x, y), _NO_PARAMS)
        try:
            result = kernels[type(a)](a, b)
        except (ValueError, TypeError) as error:
            explain_failure(primitive, (a, b), error)
        except KeyError:
            return execute(primitive, [a, b], (node1, node2), _NO_PARAMS)
        tensor: Tensor = _new(Tensor)
        tensor.array = result
        if node1 is None and node2 is None:
            tensor.node = None
            return tensor
        stack = active_stack()
        tokens = stack.tokens
        save = save1 if node2 is None else save2 if node1 is None else save12
        if (
            save is not None
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
            node.saved = save if type(save) is tuple else save((a, b), result)
            node.fit = None if b is y else broadcast_fit((a, b), result)
            node.tangents = None
            tensor.node = node
        else:
            tensor.node = record(stack, primitive, _NO_PARAMS, (a, b), (node1, node2), result)
        return tensor

    return _finish(call, primitive, doc)


def _saver(primitive: Primitive, followed: tuple[bool, ...]) -> Any:
    """What a node of this primitive saves when these inputs are followed.

    A tuple if it is the same each time, a function of (operands, result) if rules read
    something, None if an input that is followed has no rule.
    """
    rules = primitive.vjp_rules or (None,)
    wanted = [rule if flag else None for rule, flag in zip(rules, followed, strict=True)]
    if any(flag and rule is None for rule, flag in zip(rules, followed, strict=True)):
        return None
    if not any(rule is not None and rule.reads for rule in wanted):
        return tuple(None if rule is None else () for rule in wanted)
    if len(wanted) == 1 and wanted[0] is not None:
        pick = wanted[0].pick
        return lambda operands, result: (pick(operands, result),)
    first, second = (None if rule is None else rule.pick for rule in wanted)
    if second is None and first is not None:
        return lambda operands, result: (first(operands, result), None)
    if first is None and second is not None:
        return lambda operands, result: (None, second(operands, result))
    assert first is not None
    assert second is not None
    return lambda operands, result: (first(operands, result), second(operands, result))


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
