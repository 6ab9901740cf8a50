"""Declare primitives by family: unary, binary, elementwise, linear, nondifferentiable.

`unary` and `binary` return plain functions: the fast path of their primitives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, Unpack

from tapegrad.core.primitive.fastpath import one_operand, two_operands
from tapegrad.core.primitive.primitive import Primitive, RuleFunction
from tapegrad.core.primitive.rule import Rule

Function = Callable[..., Any]
"""A public function of tensors."""


def elementwise(
    name: str,
    *rules: RuleFunction,
    forward: Callable[..., Any] | None = None,
    jvps: tuple[RuleFunction, ...] | None = None,
    conjugates: bool = True,
    real_only: bool = False,
    selects: bool = False,
    poles: bool = False,
) -> Primitive:
    """Declare an elementwise primitive with one rule per operand (None: not differentiable).

    Each rule is the VJP and the JVP. For complex values, the VJP conjugates the cotangent before
    and after the rule. Pass `jvps` and `conjugates=False` for complex functions that are not
    holomorphic, and `real_only` for functions that must refuse complex operands.

    A function that `selects` can be finite although an operand is infinite or NaN. One with
    `poles` has an infinite slope at some finite points.
    """
    primitive = Primitive(name, forward, differentiable=any(rules))
    primitive.real_only = real_only
    primitive.selects, primitive.poles = selects, poles
    primitive.broadcasts = primitive.by_element = True
    primitive.vjps(*rules)
    if poles and primitive.vjp_rules:
        primitive.plain_rules = tuple(
            rule and rule.guarded_function() for rule in primitive.vjp_rules
        )
    # A rule that reads nothing multiplies by a real factor, which conjugation does not change.
    reads = any(rule is not None and rule.reads for rule in primitive.vjp_rules or ())
    primitive.conjugates = conjugates and reads
    primitive.jvps(*(rules if jvps is None else jvps))
    primitive.batch_rule = None  # the batching interpreter aligns ranks of broadcasting primitives
    return primitive


class Options(TypedDict, total=False):
    """What `unary` and `binary` hand on to `elementwise`."""

    forward: Callable[..., Any] | None
    conjugates: bool
    real_only: bool
    selects: bool
    poles: bool


def unary(
    name: str,
    rule: RuleFunction,
    *,
    jvp: RuleFunction = None,
    doc: str | None = None,
    names: tuple[str, ...] = ("x",),
    **options: Unpack[Options],
) -> Function:
    """Declare an elementwise function of one tensor and return it.

    `names` are its parameter names, where TensorFlow does not use `x`.
    """
    jvps = None if jvp is None else (jvp,)
    primitive = elementwise(name, rule, jvps=jvps, **options)
    return _finish(one_operand(primitive), primitive, doc, names)


def binary(
    name: str,
    rule1: RuleFunction,
    rule2: RuleFunction,
    *,
    jvps: tuple[RuleFunction, ...] | None = None,
    doc: str | None = None,
    names: tuple[str, ...] = ("x", "y"),
    **options: Unpack[Options],
) -> Function:
    """Declare an elementwise function of two operands that broadcast, and return it."""
    primitive = elementwise(name, rule1, rule2, jvps=jvps, **options)
    return _finish(two_operands(primitive), primitive, doc, names)


def linear(
    name: str,
    forward: Callable[..., Any] | None = None,
    *,
    transpose: Callable[..., Any],
    batch: Callable[..., Any] | None = None,
    selects: bool = False,
    kind: type[Primitive] = Primitive,
) -> Primitive:
    """Declare a linear function of one tensor; its JVP is the function itself.

    `transpose` is its VJP rule. It reads shapes, never values. A function that `selects` leaves out
    elements of its operand.
    """
    primitive = kind(name, forward, selects=selects)
    primitive.vjps(transpose)

    def apply(t: Any, **params: Any) -> Any:
        return primitive(t, **params)

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
    shapes_vary: bool = False,
) -> Primitive:
    """Declare a primitive without a derivative. Tapes do not record it.

    `by_element` states that it is elementwise: each element of the results depends only on the
    elements at the same position and on operands of one element. `shapes_vary` states that the
    shapes of its results depend on values, so that no program can contain it.
    """
    primitive = Primitive(name, forward, differentiable=False, many=many)
    primitive.batch_rule = batch
    primitive.broadcasts = broadcasts
    primitive.by_element = broadcasts or by_element
    primitive.shapes_vary = shapes_vary
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
