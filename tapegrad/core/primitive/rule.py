"""Derivative rules: plain functions whose parameter names declare what is saved.

The first parameter, `t`, is the tangent or cotangent (a tuple of them for joint rules). The others
are the values that the rule reads and that a tape saves: `x` or `x1`, `x2`, ... for the inputs,
`y` for the output (`y1`, `y2`, ... of several). The suffix `_shape` means that only the shape is
saved. Keyword-only parameters are the primitive's params. Nothing else is saved.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from tapegrad.core.recorder import Node, Operation, active_stack, make_node
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.errors import ArgumentTypeError

_NAME = re.compile(r"(x|y)(\d*)(_shape)?")
_NUMBERS = (float, int)
_OPERANDS = [f"operands[{k}]" for k in range(32)]


class Read:
    """One value that a rule reads: which operand or result, and whether only its shape."""

    __slots__ = ("index", "of_output", "only_shape")

    def __init__(self, name: str, rule: Callable[..., Any]) -> None:
        match = _NAME.fullmatch(name)
        if match is None:
            raise TypeError(
                f"Rule {rule.__qualname__} reads {name!r}. "
                "A rule reads x, x1, x2, ..., y, y1, ..., or their _shape."
            )
        self.of_output = match[1] == "y"
        self.index = int(match[2]) - 1 if match[2] else (None if self.of_output else 0)
        self.only_shape = match[3] is not None


def source_of(reads: Sequence[Read], operands: Sequence[str], result: str) -> str:
    """Return the source of a tuple of the read values, given those of operands and result."""
    parts = ""
    for read in reads:
        name = result if read.of_output else operands[read.index or 0]
        if read.of_output and read.index is not None:
            name += f"[{read.index}]"
        parts += f"getattr({name}, 'shape', ()), " if read.only_shape else f"{name}, "
    return f"({parts})"


def shape_of(value: Any) -> tuple[int, ...]:
    """Shape of an array or of a Python number."""
    return tuple(getattr(value, "shape", ()))


class Rule:
    """A rule with the values that it reads and the names of the params that it takes."""

    __slots__ = ("_keeps_zero", "function", "pick", "reads", "wants")

    def __init__(self, function: Any) -> None:
        if not hasattr(function, "__code__"):
            raise ArgumentTypeError(
                "A rule is a Python function whose parameter names say what it reads, such as "
                f"lambda t, y: t * y. Got {type(function).__name__}: {function!r:.80}."
            )
        code = function.__code__  # inspect.signature would take most of the import time
        positional = code.co_varnames[1 : code.co_argcount]
        self.function = function
        self.reads = tuple(Read(name, function) for name in positional)
        self.wants = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
        self.pick = _picker(self)
        self._keeps_zero: bool | None = None if self.reads else True

    @property
    def keeps_zero(self) -> bool:
        """Whether a zero cotangent stays zero, whatever the values are that the rule reads."""
        if self._keeps_zero is None:
            # Imported here because `import tapegrad` is cheap without tracing.
            from tapegrad.core.trace.zero_in_rules import keeps_zero

            self._keeps_zero = keeps_zero(self.function, len(self.reads), self.wants)
        return self._keeps_zero

    def guarded(self, t: Any, saved: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Apply the rule of an elementwise primitive; a zero cotangent stays zero.

        Zero times an infinite or undefined slope would be NaN.
        """
        if self.keeps_zero or has_finite_slope(saved):
            return self(t, saved, params)
        guard = _guards[0]
        found = self(t, saved, params)
        if not active_stack().tokens:
            return guard.result(found, t)
        tracked = [getattr(value, "node", None) is not None for value in saved]
        if any(tracked):
            # Inside the rule there are NaN where its result is NaN. Derivatives must not meet them.
            lost = guard.lost(found, t)
            if lost is not None:
                saved = tuple([
                    guard.read(value, lost) if flag else value
                    for value, flag in zip(saved, tracked, strict=True)
                ])  # fmt: skip
                found = self(t, saved, params)
        return guard.result(found, t)

    def guarded_function(self) -> Callable[..., Any]:
        """Return a function that is called like the rule's and guards zero cotangents."""
        function = self.function

        def guarded(t: Any, *saved: Any, **params: Any) -> Any:
            found = function(t, *saved, **params)
            return found if has_finite_slope(saved) else _guards[0].result(found, t)

        def with_one_read(t: Any, x: Any) -> Any:
            found = function(t, x)
            is_array = type(x) not in _NUMBERS  # spelled out, because it is called most
            return _guards[0].result(found, t) if is_array or not has_finite_slope((x,)) else found

        return with_one_read if len(self.reads) == 1 and not self.wants else guarded

    def __call__(self, t: Any, saved: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if not self.wants:
            return self.function(t, *saved)
        if len(self.wants) != len(params):
            params = {name: params[name] for name in self.wants}
        return self.function(t, *saved, **params)

    def rewrap(self, saved: tuple[Any, ...], node: Node) -> tuple[Any, ...]:
        """Wrap saved arrays in tensors with their nodes."""
        return tuple([_rewrap(read, v, node) for read, v in zip(self.reads, saved)])

    def read_again(self, operation: Operation) -> tuple[Any, ...]:
        """Return what the rule reads of an operation that has just run (for forward mode)."""
        values = self.pick(operation.operands, operation.result)
        return tuple(map(partial(_read_again, operation), self.reads, values))


class Guard(NamedTuple):
    """Functions that keep a rule from turning a zero cotangent into NaN."""

    result: Callable[[Any, Any], Any]
    """Takes the result of a rule and the cotangent t; returns the result, and 0 where t is 0."""
    lost: Callable[[Any, Any], Any]
    """Takes the same; returns where t is 0 and the result NaN, or None if it is so nowhere."""
    read: Callable[[Any, Any], Any]
    """Takes a value that a rule reads and a mask; returns the value, without gradient there."""


_guards: list[Guard] = []


def set_guard(guard: Guard) -> None:
    """Set the functions by which elementwise rules are guarded."""
    _guards[:] = [guard]


def has_finite_slope(saved: tuple[Any, ...]) -> bool:
    """Whether a rule reads one finite number: x * 2 and x / 2 have a finite slope."""
    if len(saved) != 1 or type(saved[0]) not in _NUMBERS:
        return False
    return bool(0 < abs(saved[0]) < math.inf)


def _read_again(operation: Operation, read: Read, value: Any) -> Any:
    if read.only_shape:
        return value
    if not read.of_output:
        return wrap(value, operation.nodes[read.index or 0]) if hasattr(value, "shape") else value
    if read.index is not None or not operation.primitive.many:
        return wrap(value, operation.outputs[read.index or 0])
    return tuple(map(wrap, value, operation.outputs))


def _picker(rule: Rule) -> Callable[[Sequence[Any], Any], tuple[Any, ...]]:
    """Return the function that collects what a rule reads; it is compiled on the first call."""

    def pick(operands: Sequence[Any], result: Any) -> tuple[Any, ...]:
        rule.pick = eval(f"lambda operands, result: {source_of(rule.reads, _OPERANDS, 'result')}")
        return rule.pick(operands, result)

    return pick


def _rewrap(read: Read, value: Any, node: Node) -> Any:
    if read.only_shape or not hasattr(value, "shape"):
        if isinstance(value, tuple) and not read.only_shape:
            return tuple(wrap(v, _output_node(node, k)) for k, v in enumerate(value))
        return value
    if not read.of_output:
        return wrap(value, node.inputs[read.index] if read.index is not None else None)
    return wrap(value, node if read.index is None else _output_node(node, read.index))


def _output_node(node: Node, index: int) -> Node:
    """The node of one of several outputs, as `record_many` makes it."""
    output = make_node(node.tokens, PICK, {"index": index}, (node,), None, None)
    if node.tangents is not None:
        output.tangents = node.tangents.get(index)
    return output


def share_tangents(whole: Node, index: int, output: Node) -> None:
    """Share an output's tangents with the primitive's node, for rules that read that output."""
    if whole.tangents is None:
        whole.tangents = {}
    output.tangents = whole.tangents[index] = {}


class Pick:
    """Marks the node of one output of a primitive with several."""

    name = "pick"
    differentiable = True
    selects = poles = False
    plain_rules = add_part = None


PICK = Pick()


def as_tensor_value(value: Any) -> Any:
    """Wrap a raw array; leave tensors, numbers and None as they are."""
    if value is None or isinstance(value, Tensor | float | int | complex):
        return value
    return wrap(value)
