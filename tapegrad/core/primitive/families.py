"""Declare primitives by family: unary, binary, elementwise, linear, nondifferentiable.

`unary` and `binary` return plain functions: the fast path of their primitives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.core.primitive.fastpath import one_operand, two_operands
from tapegrad.core.primitive.primitive import Primitive, RuleFunction, bind
from tapegrad.core.primitive.rule import Rule

Function = Callable[..., Any]
"""A public function of tensors."""


def elementwise(
    name: str,
    *rules: RuleFunction,
    forward: Callable[..., Any] | None = None,
    jvps: tuple[RuleFunction, ...] | None = None,
    conjugates: bool = True,
) -> Primitive:
    """Declare an elementwise primitive with one rule per operand (None: not differentiable).

    Each rule is the VJP and the JVP. For complex values, the VJP conjugates the cotangent before
    and after the rule. Pass `jvps` and `conjugates=False` for complex functions that are not
    holomorphic.
    """
    primitive = Primitive(name, forward, differentiable=any(rules))
    primitive.broadcasts = primitive.by_element = True
    primitive.vjps(*rules)
    # A rule that reads nothing multiplies by a real factor, which conjugation does not change.
    reads = any(rule is not None and rule.reads for rule in primitive.vjp_rules or ())
    primitive.conjugates = conjugates and reads
    primitive.jvps(*(rules if jvps is None else jvps))
    primitive.batch_rule = None  # the batching interpreter aligns ranks of broadcasting primitives
    return primitive


def unary(
    name: str,
    rule: RuleFunction,
    *,
    forward: Callable[..., Any] | None = None,
    jvp: RuleFunction = None,
    conjugates: bool = True,
    doc: str | None = None,
    names: tuple[str, ...] = ("x",),
) -> Function:
    """Declare an elementwise function of one tensor and return it.

    `names` are its parameter names, where TensorFlow does not use `x`.
    """
    jvps = None if jvp is None else (jvp,)
    primitive = elementwise(name, rule, forward=forward, jvps=jvps, conjugates=conjugates)
    return _finish(one_operand(primitive), primitive, doc, names)


def binary(
    name: str,
    rule1: RuleFunction,
    rule2: RuleFunction,
    *,
    forward: Callable[..., Any] | None = None,
    jvps: tuple[RuleFunction, ...] | None = None,
    conjugates: bool = True,
    doc: str | None = None,
    names: tuple[str, ...] = ("x", "y"),
) -> Function:
    """Declare an elementwise function of two operands that broadcast, and return it."""
    primitive = elementwise(name, rule1, rule2, forward=forward, jvps=jvps, conjugates=conjugates)
    return _finish(two_operands(primitive), primitive, doc, names)


def linear(
    name: str,
    forward: Callable[..., Any] | None = None,
    *,
    transpose: Callable[..., Any],
    batch: Callable[..., Any] | None = None,
) -> Primitive:
    """Declare a linear function of one tensor; its JVP is the function itself.

    `transpose` is its VJP rule. It reads shapes, never values.
    """
    primitive = Primitive(name, forward)
    primitive.vjps(transpose)

    def apply(t: Any, **params: Any) -> Any:
        return bind(primitive, t, **params)

    primitive.jvp_rules = (_AllParams(apply),)
    primitive.batch_rule = batch
    return primitive


class _AllParams(Rule):
    """The JVP rule of a linear primitive, which takes all params."""

    def __call__(self, t: Any, saved: tuple[Any, ...], params: dict[str, Any]) -> Any:
        return self.function(t, **params)


def nondifferentiable(
    name: str,
    forward: Callable[..., Any] | None = None,
    *,
    batch: Callable[..., Any] | None = None,
    broadcasts: bool = False,
    by_element: bool = False,
    many: bool = False,
) -> Primitive:
    """Declare a primitive without a derivative. Tapes do not record it.

    `by_element` states that it is elementwise: each element of the results depends only on the
    elements at the same position and on operands of one element.
    """
    primitive = Primitive(name, forward, differentiable=False, many=many)
    primitive.batch_rule = batch
    primitive.broadcasts = broadcasts
    primitive.by_element = broadcasts or by_element
    return primitive


def _finish(
    call: Function, primitive: Primitive, doc: str | None, names: tuple[str, ...]
) -> Function:
    # Rename the parameters in the code object: a wrapper would cost one more call.
    code: Any = call.__code__
    call.__code__ = code.replace(co_varnames=(*names, *code.co_varnames[len(names) :]))
    call.__name__ = call.__qualname__ = primitive.name
    call.__doc__ = doc or f"Compute {primitive.name} of each element."
    primitive.fast = call
    call.primitive = primitive  # type: ignore[attr-defined]  # the table of samples finds it here
    return call
