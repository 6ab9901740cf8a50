"""Forward mode: TensorFlow's ForwardAccumulator."""

from __future__ import annotations

from typing import Any

from tapegrad.autodiff import batching
from tapegrad.autodiff.arguments import UnconnectedGradients, as_unconnected, check_tensors
from tapegrad.autodiff.explain import report_zero_tangent
from tapegrad.autodiff.transpose import transposed_jvp
from tapegrad.autodiff.watch import follow
from tapegrad.core import exits
from tapegrad.core.call_site import warn_outside
from tapegrad.core.exits import CutLog
from tapegrad.core.recorder import (
    Node,
    Operation,
    Token,
    active_stack,
    enter_recorder,
    leave_recorder,
    using_stack,
)
from tapegrad.core.uninterrupted import starts_uninterrupted
from tapegrad.core.values import nest
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, MissingRuleError, ShapeError
from tapegrad.ops import creation
from tapegrad.ops.casting import cast
from tapegrad.ops.elementwise import arithmetic
from tapegrad.ops.shape import functions as shapes
from tapegrad.ops.shape.diagonal import diagonal
from tapegrad.ops.shape.primitives import broadcast_p


class ForwardAccumulator(CutLog):
    """Compute Jacobian-vector products while the computation runs.

    >>> import tapegrad
    >>> x = tapegrad.constant(3.0)
    >>> with ForwardAccumulator(x, tapegrad.constant(1.0)) as acc:
    ...     y = x * x
    >>> float(acc.jvp(y))
    6.0
    """

    listens = True
    watches_variables = False
    frame = None

    def __init__(self, primals: Any, tangents: Any) -> None:
        nest.assert_same_structure(primals, tangents)
        self.token = Token(keeps_history=False)
        self._recording = False
        self._variables: dict[int, Any] = {}
        self._primals: list[tuple[Any, Any]] = []
        flat = check_tensors(nest.flatten(primals), "primals")
        if len({id(primal) for primal in flat}) != len(flat):
            raise ArgumentError("A primal was given multiple times. Add its tangents instead.")
        for position, (primal, tangent) in enumerate(
            zip(flat, nest.flatten(tangents), strict=True)
        ):
            self._watch(primal, tangent, position)

    def _watch(self, primal: Any, tangent: Any, position: int) -> None:
        if not primal.dtype.is_differentiable:
            warn_outside(
                f"Primal {position} has dtype {primal.dtype}: it has no tangent.",
            )
            return
        tangent = _fit_tangent(primal, tangent, position)
        if isinstance(primal, Variable):
            self._variables[primal.number] = tangent
            primal.forget_leaf()
        else:
            node = follow(batching.unwrap(primal)[0], self.token)
            self._set(node, batching.align(tangent, primal))

    def _set(self, node: Node, tangent: Any) -> None:
        if node.tangents is None:
            node.tangents = {}
        node.tangents[self.token] = tangent

    def _of(self, node: Node | None) -> Any:
        return None if node is None or node.tangents is None else node.tangents.get(self.token)

    def __enter__(self) -> ForwardAccumulator:
        if self._recording:
            raise ArgumentError("Accumulator is already recording: it cannot be entered twice.")
        try:
            enter_recorder(self)
            self._recording = True
            return self
        except BaseException:  # an interrupt, after which `__exit__` is not called
            leave_recorder(self)
            self._recording = False
            raise

    @starts_uninterrupted
    def __exit__(self, kind: Any = None, error: Any = None, traceback: Any = None) -> None:
        try:
            leave_recorder(self)
        finally:
            self._recording = False

    def __del__(self) -> None:
        token = getattr(self, "token", None)  # absent when __init__ raised
        if token is not None:
            token.open = False

    def jvp(self, primals: Any, unconnected_gradients: Any = UnconnectedGradients.NONE) -> Any:
        """Return the tangents of values computed inside the block, None for values without one."""
        mode = as_unconnected(unconnected_gradients)
        flat = check_tensors(nest.flatten(primals), "primals", log=self)
        return nest.pack_sequence_as(primals, [self._lookup(value, mode) for value in flat])

    def _lookup(self, value: Any, mode: UnconnectedGradients) -> Any:
        levels: tuple[int, ...] = ()
        if isinstance(value, Variable):
            tangent = self._variables.get(value.number)
        else:
            inside, levels = batching.unwrap(value)
            tangent = self._of(inside.node)
        if tangent is None and mode is UnconnectedGradients.ZERO:
            return creation.zeros_like(value)
        if tangent is None or not levels:
            return tangent
        return batching.wrap_levels(_of_own_examples(tangent, levels), levels)

    def tangent_of(self, node: Node | None) -> Any:
        """Return the tangent of a value by its node, None if it has none."""
        return self._of(node)

    # The interface to the recorder stack

    def follows_variable(self, variable: Variable, node: Node) -> bool:
        tangent = self._variables.get(variable.number)
        if tangent is None:
            return False
        self._set(node, tangent)
        return True

    def on_operation(self, operation: Operation) -> None:
        """Compute the tangents of results; recorders entered earlier record the arithmetic."""
        tangents = tuple(self._of(node) for node in operation.nodes)
        if all(tangent is None for tangent in tangents):
            return
        with using_stack(active_stack().below(self)):
            results = push(operation, tangents)
        for node, tangent in zip(operation.outputs, results, strict=True):
            if node is not None and tangent is not None:
                self._set(node, tangent)


class TransformAccumulator(ForwardAccumulator):
    """The accumulator of a transform such as `jvp`: it warns of every value that leaves it."""

    warns_of_numbers = True

    @starts_uninterrupted
    def __exit__(self, kind: Any = None, error: Any = None, traceback: Any = None) -> None:
        ForwardAccumulator.__exit__(self)
        exits.raise_cause(error)

    def _lookup(self, value: Any, mode: UnconnectedGradients) -> Any:
        tangent = super()._lookup(value, UnconnectedGradients.NONE)
        if tangent is None and value.dtype.is_differentiable:
            report_zero_tangent(self)
        return creation.zeros_like(value) if tangent is None else tangent


def push(operation: Operation, tangents: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the tangents of an operation's results."""
    primitive = operation.primitive
    if primitive.joint_jvp is not None:
        rule = primitive.joint_jvp
        result = rule(tangents, rule.read_again(operation), operation.params)
        return tuple(result) if primitive.many else (_fitted(result, operation.result),)
    if primitive.jvp_rules is not None:
        return (_fitted(_sum_of_tangents(operation, tangents), operation.result),)
    if primitive.vjp_rules is None and primitive.joint_vjp is None:
        raise MissingRuleError(f"{primitive.name} has no rule for forward mode.")
    return transposed_jvp(operation, tangents)


def _sum_of_tangents(operation: Operation, tangents: tuple[Any, ...]) -> Any:
    total = None
    for rule, tangent in zip(operation.primitive.jvp_rules, tangents, strict=True):
        if tangent is None or rule is None:
            continue
        apply = rule.guarded if operation.primitive.poles else rule
        part = apply(tangent, rule.read_again(operation), operation.params)
        total = part if total is None else arithmetic.add(total, part)
    return total


def _fitted(tangent: Any, result: Any) -> Any:
    """Broadcast and cast a tangent to the shape and dtype of its result."""
    if tangent is None:
        return None
    if tuple(tangent.shape) != tuple(result.shape):
        tangent = broadcast_p(tangent, shape=tuple(result.shape))
    if tangent.dtype != Tensor(result).dtype:
        tangent = cast.cast_like(tangent, result.dtype)
    return tangent


def _fit_tangent(primal: Any, tangent: Any, position: int) -> Any:
    if not batching.is_batched(tangent):
        like = None if batching.is_batched(primal) else to_tensor(primal)
        tangent = to_tensor(tangent, like=like)
    if tangent.dtype != primal.dtype:
        tangent = cast.cast(tangent, primal.dtype)
    if tuple(tangent.shape) != tuple(primal.shape):
        raise ShapeError(
            f"Tangent {position} must have its primal's shape {primal.shape}. Got {tangent.shape}."
        )
    return tangent


def _of_own_examples(tangent: Any, levels: tuple[int, ...]) -> Any:
    """Select for each example the tangent along its own direction.

    If examples share a primal but each has its own tangent, the tangent of a result has all
    directions for all examples. The diagonal is what remains.
    """
    inside, directions = batching.unwrap(tangent)
    others = list(directions)
    for level in directions:
        if level in levels:
            first, second = others.index(level), len(others) + levels.index(level)
            own = diagonal(inside, axis1=first, axis2=second)
            inside = shapes.moveaxis(own, -1, second - 1)
            others.remove(level)
    return batching.wrap_levels(inside, others)
