"""The table of rules: how the calls of primitives become ONNX nodes.

A rule takes the nodes, the call and the inputs for its operands. It returns the input that stands
for the result, or one for each result; None stands for a result that only gradients read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.program.graph.graph import Call
from tapegrad.program.onnx.elementwise import emit_elementwise
from tapegrad.program.onnx.nodes import Input, Nodes, UnsupportedError

Result = Input | Sequence[Input | None]
Rule = Callable[..., Result]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the rule of primitives."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def emit(nodes: Nodes, call: Call) -> None:
    """Add the nodes of a call, and note which inputs stand for its results."""
    if any(value.dtype.kind == "c" for value in (*call.reads, *call.results)):
        raise UnsupportedError("runtimes for ONNX have no complex numbers")
    found: Result
    if call.primitive.name in RULES:
        operands = [nodes.input_of(one, _dtype_beside(call, one)) for one in call.operands]
        found = RULES[call.primitive.name](nodes, call, *operands)
    elif call.primitive.by_element:
        found = emit_elementwise(nodes, call)
    else:
        raise UnsupportedError("ONNX export has no rule for it")
    results = [found] if isinstance(found, str | dict) else found
    for value, name in zip(call.results, results, strict=True):
        if name is not None:
            nodes.names[value.number] = name


def _dtype_beside(call: Call, operand: Any) -> Any:
    """Return the dtype that a Python number has as an operand of a call."""
    return getattr(operand, "dtype", call.results[0].dtype)
