"""Derivative rules: plain functions whose parameter names declare what is saved.

The first parameter, `t`, is the tangent or cotangent (a tuple of them for joint rules). The others
are the values that the rule reads and that a tape saves: `x` or `x1`, `x2`, ... for the inputs,
`y` for the output (`y1`, `y2`, ... of several). The suffix `_shape` means that only the shape is
saved. Keyword-only parameters are the primitive's params. Nothing else is saved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tapegrad.core.recorder import Node, Operation, make_node
from tapegrad.core.values.tensor import Tensor, wrap

_NAME = re.compile(r"(x|y)(\d*)(_shape)?")
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

    __slots__ = ("function", "pick", "reads", "wants")

    def __init__(self, function: Any) -> None:
        code = function.__code__  # inspect.signature would take most of the import time
        positional = code.co_varnames[1 : code.co_argcount]
        self.function = function
        self.reads = tuple(Read(name, function) for name in positional)
        self.wants = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
        self.pick = _picker(self)

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
    plain_rules = add_part = None


PICK = Pick()


def as_tensor_value(value: Any) -> Any:
    """Wrap a raw array; leave tensors, numbers and None as they are."""
    if value is None or isinstance(value, Tensor | float | int | complex):
        return value
    return wrap(value)
