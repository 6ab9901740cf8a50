"""Constant folding: replace arrays of one known number by filled arrays.

A recorded backward pass begins with ones that are divided by the batch size and broadcast. All of
that becomes one filled array.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tapegrad.core.trace.expression import Expression, UntraceableError, constant
from tapegrad.program.graph.formulas import formulas_of, is_combining, number_of
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.graph.iteration_spaces import VIEWS


def with_known_constants(graph: Graph) -> Graph:
    """Replace calls whose operands are all filled arrays by filled arrays."""
    known: dict[int, Call] = {}
    calls = []
    for call in graph.calls:
        if call.primitive.name == "full_like":
            known[call.results[0].number] = call
        elif call.reads and all(value.number in known for value in call.reads):
            filled = _filled(call, known)
            if filled is not None:
                call = known[call.results[0].number] = filled
        calls.append(call)
    return replace(graph, calls=tuple(calls))


MOST_COMPARED = 1 << 14
"""The largest constant, in bytes, that is compared with others."""


def with_shared_constants(graph: Graph) -> Graph:
    """Let equal constants be one value; a loop in Python makes its index arrays in each round."""
    known: dict[Any, int] = {}
    same: dict[int, int] = {}
    constants = dict(graph.constants)
    for number, array in graph.constants.items():
        # Arrays on other devices are not read: programs are built in the background.
        if not isinstance(array, np.ndarray | np.generic) or array.nbytes > MOST_COMPARED:
            continue
        if array.dtype.kind not in "biufc":
            continue
        key = (array.shape, array.dtype.str, array.tobytes())
        first = known.setdefault(key, number)
        if first != number:
            same[number] = first
        elif not array.flags.c_contiguous:  # loops would copy it at each call
            constants[number] = np.ascontiguousarray(array)
    graph = replace(graph, constants=constants)
    if not same:
        return graph
    calls = []
    for call in graph.calls:
        if any([value.number in same for value in call.reads]):
            call = call.with_values(tuple([
                replace(x, number=same.get(x.number, x.number)) if isinstance(x, Value) else x
                for x in call.operands
            ]))  # fmt: skip
        calls.append(call)
    return replace(graph, calls=tuple(calls))


def _filled(call: Call, known: dict[int, Call]) -> Call | None:
    """Return a call of constants as one that fills an array, or None if it cannot be folded."""
    if len(call.results) != 1:
        return None
    source = known[call.reads[0].number]
    number = source.params["value"]
    if is_combining(call):
        if call.primitive.name == "sum":
            number *= call.reads[0].size // call.results[0].size
    elif call.primitive.name not in VIEWS:
        try:
            (formula,) = formulas_of(call, [_operand(operand, known) for operand in call.operands])
            number = number_of(formula)
        except (UntraceableError, KeyError):
            return None
    (result,) = call.results
    params = {"shape": result.shape, "value": number, "dtype": result.dtype}
    return replace(source, params=params, results=(result,))


def _operand(operand: Any, known: dict[int, Call]) -> Any:
    if not isinstance(operand, Value):
        return operand
    value: Expression = constant(known[operand.number].params["value"], operand.dtype)
    return value
