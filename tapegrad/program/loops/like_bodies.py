"""Whether the rounds of two loops make the same calls, as those of loops over longer axes do."""

from __future__ import annotations

from typing import Any

from tapegrad.core.backend.registry import find_backend
from tapegrad.core.exact_key import exact_key
from tapegrad.program.graph.graph import Call, Graph, InnerProgram


def are_like(one: Graph, other: Graph) -> bool:
    """Whether two tidied graphs have equal calls, and equal constants, in the same order."""
    if (one.inputs, one.outputs, [*one.constants]) != (
        other.inputs,
        other.outputs,
        [*other.constants],
    ):
        return False
    if len(one.calls) != len(other.calls) or one.variables or other.variables:
        return False
    constants = zip(one.constants.values(), other.constants.values())
    return all(is_same(a, b) for a, b in constants) and all(
        _are_like_calls(a, b) for a, b in zip(one.calls, other.calls)
    )


def _are_like_calls(one: Call, other: Call) -> bool:
    def rest(call: Call) -> Any:
        names = [*call.params]
        return call.primitive, call.results, call.array_type, call.aliases, call.region, names

    if rest(one) != rest(other) or len(one.operands) != len(other.operands):
        return False
    pairs = [*zip(one.operands, other.operands), *zip(one.params.values(), other.params.values())]
    return all(is_same(a, b) for a, b in pairs)


def is_same(one: Any, other: Any) -> bool:
    """Whether two operands, parameters or constants are the same."""
    if one is other:
        return True
    if isinstance(one, InnerProgram):
        return one.is_like(other)
    if type(one) is not type(other):
        return False
    backend = find_backend(type(one))
    if backend is not None:
        same_kind = (one.shape, one.dtype) == (other.shape, other.dtype)
        is_there = same_kind and backend.device_of(one) == backend.device_of(other)
        return is_there and backend.to_host(one).tobytes() == backend.to_host(other).tobytes()
    try:
        return bool(exact_key(one) == exact_key(other))
    except Exception:  # a comparison of objects of the user
        return False
