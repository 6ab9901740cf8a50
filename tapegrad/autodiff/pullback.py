"""The VJP of one recorded operation: from the cotangent of its result to those of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set as AbstractSet
from typing import Any

from tapegrad.core.primitive.rule import PICK, as_tensor_value
from tapegrad.core.recorder import EMPTY, Node, Operation, using_stack
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError, MissingRuleError
from tapegrad.ops import creation
from tapegrad.ops.casting import cast
from tapegrad.ops.elementwise import arithmetic
from tapegrad.ops.indexing import gather
from tapegrad.ops.shape.primitives import sum_to_shape

Needed = AbstractSet[Node | None] | None
"""The nodes that lead to a source; None if all nodes of the plan do."""


def input_cotangents(
    node: Node, t: Any, needed: Needed, on_tensors: bool, guards_before: float
) -> Sequence[Any]:
    """Return the cotangent of each input of a node, None for inputs that need none.

    `t` is the cotangent of the result. If an operation has several results, each result has a
    node with one entry of the map from result indices to cotangents that the operation's own node
    receives.
    """
    primitive = node.primitive
    if primitive is PICK:
        return ({node.params["index"]: t},)
    if primitive.sparse_vjp is not None:
        return (_row_cotangent(node, t, needed, on_tensors),)
    if primitive.vjp_rules is None:
        return _joint_cotangents(node, t, needed, on_tensors)
    saved, specs, params = node.saved, node.specs, node.params
    conjugate = primitive.conjugates and is_complex(t)
    guards = primitive.broadcasts and (node.order < guards_before or primitive.poles)
    found: list[Any] = []
    for i, source in enumerate(node.inputs):
        rule = primitive.vjp_rules[i]
        if rule is None or source is None or (needed is not None and source not in needed):
            found.append(None)
            continue
        read = rule.rewrap(saved[i], node) if on_tensors else saved[i]
        apply = rule.guarded if guards else rule
        cotangent = _conjugated(apply, t, read, params) if conjugate else apply(t, read, params)
        if specs is not None and specs[i] is not None:
            cotangent = fitted(cotangent, specs[i])
        found.append(cotangent)
    return found


def is_needed(source: Node | None, needed: Needed) -> bool:
    """Whether the cotangent of an input leads to a source."""
    return source is not None and (needed is None or source in needed)


def fitted(cotangent: Any, spec: tuple[Any, Any]) -> Any:
    """Bring a cotangent to the shape and dtype of its input; None stands for the right one."""
    shape, dtype = spec
    if shape is not None and cotangent.shape != shape:
        cotangent = sum_to_shape(cotangent, shape)
    if dtype is not None:
        cotangent = cast.cast_like(cotangent, dtype)
    return cotangent


def add_cotangents(first: Any, second: Any) -> Any:
    """Return the sum of two cotangents, each dense, sparse or a map of those of several results."""
    if type(first) is dict:
        both = {k: add_cotangents(first[k], t) for k, t in second.items() if k in first}
        return {**first, **second, **both}
    if isinstance(first, gather.RowGradient) or isinstance(second, gather.RowGradient):
        return gather.add_row_gradients(first, second)
    return arithmetic.add(first, second)


def _conjugated(
    rule: Callable[..., Any], t: Any, saved: tuple[Any, ...], params: dict[str, Any]
) -> Any:
    """Apply a rule with TensorFlow's convention: conjugate the factor, not the cotangent."""
    return arithmetic.conj(rule(arithmetic.conj(t), saved, params))


def is_complex(value: Any) -> bool:
    """Tell whether an array of any backend has complex elements."""
    dtype = value.dtype
    try:
        return bool(dtype.kind == "c")
    except AttributeError:
        return "complex" in str(dtype)


def _row_cotangent(node: Node, t: Any, needed: Needed, on_tensors: bool) -> Any:
    """Pull back through a gather: the cotangent stays sparse if the input is a variable."""
    source = node.inputs[0]
    if source is None or not is_needed(source, needed):
        return None
    sparse = source.primitive is None and source.params.get("variable")
    rule = node.primitive.sparse_vjp if sparse else node.primitive.vjp_rules[0]
    saved = rule.rewrap(node.saved[0], node) if on_tensors else node.saved[0]
    return rule(t, saved, node.params)


def _joint_cotangents(node: Node, t: Any, needed: Needed, on_tensors: bool) -> Sequence[Any]:
    """Apply the rule that returns the cotangents of all inputs."""
    primitive = node.primitive
    if primitive.joint_vjp is None:
        raise MissingRuleError(
            f"{primitive.name} has no gradient rule, and the target depends on a source "
            "through it. Declare one, or use custom_gradient around the call."
        )
    found = list(_apply_joint_rule(node, t, needed, on_tensors))
    if len(found) != len(node.inputs):
        raise ArgumentError(
            f"The gradient rule of {primitive.name} must return {len(node.inputs)} values, "
            f"one per input. It returned {len(found)}."
        )
    specs = None if primitive.many else node.specs
    for i, source in enumerate(node.inputs):
        if not is_needed(source, needed):
            found[i] = None
        elif found[i] is not None and specs is not None and specs[i] is not None:
            found[i] = fitted(found[i], specs[i])
    return found


def _apply_joint_rule(node: Node, t: Any, needed: Needed, on_tensors: bool) -> Sequence[Any]:
    primitive, saved, params = node.primitive, node.saved, node.params
    rule = primitive.joint_vjp
    if primitive.takes_none:
        t = tuple([t.get(k) for k in node.specs])
    elif primitive.many:
        t = _with_zeros(t, node.specs)
    if "needs" in rule.wants:
        params = {**params, "needs": tuple([is_needed(source, needed) for source in node.inputs])}
    if on_tensors:
        return rule(t, rule.rewrap(saved, node), params)  # type: ignore[no-any-return]
    if not primitive.needs_tensors:
        return rule(t, saved, params)  # type: ignore[no-any-return]
    with using_stack(EMPTY):
        found = rule(_as_tensors(t), tuple(map(_as_tensors, saved)), params)
    return [one.array if isinstance(one, Tensor) else one for one in found]


def _with_zeros(t: dict[int, Any], specs: Any) -> tuple[Any, ...]:
    """Return the cotangents of all results of an operation, zeros for results without one."""
    example = next(iter(t.values()))
    return tuple([
        t[k] if k in t else creation.zeros_for(example, shape, dtype)
        for k, (shape, dtype) in enumerate(specs)
    ])  # fmt: skip


def _as_tensors(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(as_tensor_value(v) for v in value)
    return as_tensor_value(value)


def operation_cotangents(operation: Operation, t: Any) -> list[Any]:
    """Apply the VJP rules of an operation that has just run, on tensors."""
    primitive, params = operation.primitive, operation.params
    if primitive.joint_vjp is not None:
        rule = primitive.joint_vjp
        if "needs" in rule.wants:
            params = {**params, "needs": tuple(node is not None for node in operation.nodes)}
        return list(rule(t, rule.read_again(operation), params))
    return [
        None if rule is None or node is None else rule(t, rule.read_again(operation), params)
        for rule, node in zip(primitive.vjp_rules, operation.nodes, strict=True)
    ]
