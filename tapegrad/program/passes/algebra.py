"""Algebraic simplification: remove calls that change nothing or that the next call can absorb.

Only rewrites that give the same bits are done. Adding 0 is not removed, because -0.0 + 0 is 0.0.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.program.graph.graph import Call, Graph, Value, without_dead_calls

_CASTS = ("cast", "cast_to_integer")
_PRODUCTS = ("matmul", "matmul_stack")
_REDUCTIONS = ("sum", "mean", "max", "min", "prod")

# Significant bits and largest exponent of floating point dtypes.
_FLOATS = {"float16": (11, 16), "bfloat16": (8, 128), "float32": (24, 128), "float64": (53, 1024)}


def simplified(graph: Graph) -> Graph:
    """Remove redundant casts, reshapes, transposes and arithmetic."""
    results = {value.number for value in graph.results}
    same: dict[int, Value] = {}
    makers: dict[int, Call] = {}
    kept: list[Call] = []
    for call in graph.calls:
        operands = tuple([_now(operand, same) for operand in call.operands])
        call = _shortened(call.with_values(operands), makers)
        value = _unchanged(call)
        # A result must be a new array, not an input.
        if value is not None and (value.number in makers or call.results[0].number not in results):
            same[call.results[0].number] = value
            continue
        makers.update((result.number, call) for result in call.results)
        kept.append(call)
    return without_dead_calls(
        replace(
            graph,
            calls=tuple(kept),
            outputs=tuple(_now(value, same) for value in graph.outputs),
            written={number: _now(value, same) for number, value in graph.written.items()},
        )
    )


def _now(operand: Any, same: dict[int, Value]) -> Any:
    return same.get(operand.number, operand) if isinstance(operand, Value) else operand


def _shortened(call: Call, makers: dict[int, Call]) -> Call:
    """Return the call with the calls that made its operands absorbed, where possible."""
    name = call.primitive.name
    if name in _PRODUCTS:
        return _with_transposes(call, makers)
    if name == "permute_dims":
        call = _with_one_permutation(call, makers)
    if name == "take_last" and call.reads[1].size == 1:  # there is no other index
        call = replace(call, primitive=PRIMITIVES["take"])
    if (name in _REDUCTIONS and _combines_nothing(call)) or _keeps_all(call) or _keeps_order(call):
        shape = call.results[0].shape
        call = replace(call, primitive=PRIMITIVES["reshape"], params={"shape": shape}, aliases=True)
        name = "reshape"
    before = (
        makers.get(call.reads[0].number) if len(call.operands) == len(call.reads) == 1 else None
    )
    if before is None or len(before.reads) != 1:
        return call
    if name == "reshape" and before.primitive.name == "reshape":
        return replace(call, operands=before.operands, aliases=call.aliases or before.aliases)
    if name in _CASTS and before.primitive.name in _CASTS:
        source, between = before.reads[0].dtype, before.results[0].dtype
        if loses_nothing(source, between):
            return replace(call, operands=before.operands)
    return call


def _combines_nothing(call: Call) -> bool:
    """Whether a reduction is along axes of length 1 only."""
    (operand,), (result,) = call.reads, call.results
    lengths = [operand.shape[axis] for axis in call.params["axis"]]
    return operand.dtype == result.dtype and all(length == 1 for length in lengths)


def _keeps_all(call: Call) -> bool:
    """Whether an index such as `[:, None]`, or its gradient, keeps all elements in their order."""
    if call.primitive.name not in ("slice", "unslice") or not call.results[0].size:
        return False
    steps = [part.step for part in call.params["index"] if isinstance(part, slice)]
    is_forward = all(step is None or step > 0 for step in steps)
    return is_forward and call.results[0].size == call.reads[0].size


def _with_one_permutation(call: Call, makers: dict[int, Call]) -> Call:
    """Absorb a permutation of axes into the next one."""
    before = makers.get(call.reads[0].number)
    if before is None or before.primitive.name != "permute_dims":
        return call
    axes = tuple([before.params["axes"][axis] for axis in call.params["axes"]])
    aliases = call.aliases or before.aliases
    return replace(call, operands=before.operands, params={"axes": axes}, aliases=aliases)


def _keeps_order(call: Call) -> bool:
    """Whether a permutation of axes moves only axes of length 1."""
    if call.primitive.name != "permute_dims":
        return False
    shape = call.reads[0].shape
    moved = [axis for axis in call.params["axes"] if shape[axis] != 1]
    return moved == sorted(moved)


def _with_transposes(call: Call, makers: dict[int, Call]) -> Call:
    """Absorb transposes of the operands into a matrix product."""
    operands, params = list(call.operands), dict(call.params)
    for position, flag in enumerate(("transpose_a", "transpose_b")):
        operand = operands[position]
        before = makers.get(operand.number) if isinstance(operand, Value) else None
        if before is not None and _is_transpose(before):
            operands[position] = before.operands[0]
            params[flag] = not params[flag]
    if params == call.params:
        return call
    return replace(call, operands=tuple(operands), params=params)


def _is_transpose(call: Call) -> bool:
    """Whether a call swaps the last two axes and no others."""
    if call.primitive.name != "permute_dims" or len(call.params["axes"]) < 2:
        return False
    rank = len(call.params["axes"])
    return tuple(call.params["axes"]) == (*range(rank - 2), rank - 1, rank - 2)


def _unchanged(call: Call) -> Value | None:
    """The operand that a call returns unchanged, or None."""
    if len(call.reads) != 1 or len(call.results) != 1:
        return None
    (operand,), (result,) = call.reads, call.results
    if operand.shape != result.shape or operand.dtype != result.dtype:
        return None
    name = call.primitive.name
    if name in ("reshape", "broadcast_to", *_CASTS) or _is_neutral(call):
        return operand
    return None


def _is_neutral(call: Call) -> bool:
    """Whether a call multiplies or divides by 1, or subtracts 0."""
    if len(call.operands) != 2 or call.results[0].dtype.kind == "c":
        return False
    name, (first, second) = call.primitive.name, call.operands
    if name == "multiply" and not isinstance(first, Value):
        return _is_number(first, 1)
    if name in ("multiply", "divide") and not isinstance(second, Value):
        return _is_number(second, 1)
    # x - (-0.0) is x + 0.0.
    if name == "subtract" and not isinstance(second, Value):
        return _is_number(second, 0) and math.copysign(1, second) > 0
    return False


def _is_number(value: Any, wanted: int) -> bool:
    return type(value) in (int, float) and value == wanted


def loses_nothing(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Whether a cast between the dtypes is exact."""
    if source == target:
        return True
    kind, to = as_dtype(source).kind, as_dtype(target).kind
    if kind == "b":
        return to in "iuf"
    if kind in "iu" and to in "iu":
        return np.can_cast(source, target, "safe")
    wide = _FLOATS.get(target.name)
    if wide is None:
        return False
    if kind in "iu":
        bits = 8 * source.itemsize - (kind == "i")
        return bits <= wide[0] and bits <= wide[1]
    narrow = _FLOATS.get(source.name)
    return narrow is not None and narrow[0] <= wide[0] and narrow[1] <= wide[1]
