"""Attention by cuDNN, if the optional package nvidia-cudnn-frontend is installed.

An execution plan is built once for each combination of shapes and layouts. A call passes addresses
on the current stream and can be captured. cuDNN and the kernels of this package save the same
values for the backward pass, so each can compute the gradient of the other's result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import cupy

from tapegrad.core.warn_once import warn_once
from tapegrad_cupy.library_calls.cudnn_handle import (
    current_handle,
    find_plans,
    lacks_engine,
    library,
    new_graph,
)
from tapegrad_cupy.library_calls.library_replay import ReplayedCall
from tapegrad_cupy.library_calls.replay_check import Output

Array = Any
Steps = tuple[int, int, int]

_DTYPES = {"float16": "HALF", "bfloat16": "BFLOAT16"}
_MOST_SPACE = 64
"""The most bytes of workspace per element of q."""

_alloc = cupy.cuda.alloc
_current_stream = cupy.cuda.get_current_stream

# Numbers of the tensors, in the order of a plan's addresses.
_Q, _K, _V, _Y, _LOG_TOTAL, _T, _FOR_Q, _FOR_K, _FOR_V = range(1, 10)


class Operand(NamedTuple):
    """An array [examples, heads, rows, features] with contiguous features."""

    shape: tuple[int, int, int, int]
    steps: Steps
    """Elements from one example, head and row to the next."""


class Call(NamedTuple):
    """The operands of attention in the order q, k, v, y, and its parameters."""

    dtype: str
    operands: tuple[Operand, ...]
    scale: float
    causal: bool


def is_offered(call: Call) -> bool:
    """Return whether cuDNN documents support for a call, without broadcasting."""
    q, k, v, *_ = call.operands
    n, m, depth, width = q.shape[2], k.shape[2], q.shape[3], v.shape[3]
    blind = call.causal and n > m
    vectors = all(step % 8 == 0 and step > 0 for x in call.operands for step in x.steps)
    fits = depth % 8 == 0 and width % 8 == 0 and max(depth, width) <= 256
    return call.dtype in _DTYPES and not blind and vectors and fits and library()[0] is not None


class Plan:
    """A graph that is ready to run, and the size of its workspace."""

    def __init__(self, package: Any, graph: Any, outputs: Sequence[Output]) -> None:
        self._package = package
        # The public `execute` inspects each operand first.
        self._execute = getattr(graph, "_execute", graph.execute)
        self._size = graph.get_workspace_size()
        self._call = ReplayedCall(self._by_library, outputs)

    def __call__(self, *addresses: int) -> None:
        """Run with the addresses of all operands, in the order of the plan."""
        # Freed when this returns, so only later work on the same stream can reuse it.
        space = _alloc(self._size) if self._size else None
        bits = 0
        for address in addresses:
            bits |= address
        at = 0 if space is None else space.ptr
        self._call((*addresses, at), bits, _current_stream().ptr)

    def _by_library(self, addresses: Sequence[int], _: int) -> None:
        *places, space = addresses
        self._execute(dict(enumerate(places, 1)), space, current_handle(self._package))


def forward_plan(call: Call) -> Plan | None:
    """Return a plan for `[q, k, v, y, log_total]`, or None if cuDNN has none."""
    q, *_, y = call.operands
    return _plan(call, _add_forward, {_Y: _bytes(y), _LOG_TOTAL: _bytes(_rows_of(q), 4)})


def backward_plan(call: Call) -> Plan | None:
    """Return a plan for `[q, k, v, y, log_total, t, for_q, for_k, for_v]`, or None.

    The operands of the call are q, k, v, y, t and the three gradients.
    """
    gradients = call.operands[-3:]
    return _plan(call, _add_backward, dict(zip((_FOR_Q, _FOR_K, _FOR_V), map(_bytes, gradients))))


def _bytes(operand: Operand, item: int = 2) -> int:
    """The bytes from the first to the last number of an operand; it may have gaps."""
    *outer, features = operand.shape
    last = sum((size - 1) * step for size, step in zip(outer, operand.steps, strict=True))
    return item * (last + features)


def _plan(call: Call, add: Any, written: Mapping[int, int]) -> Plan | None:
    """Build a plan that writes this many bytes to each of some operands, by their numbers."""
    package, _ = library()
    if package is None:
        return None
    dtype = getattr(package.data_type, _DTYPES[call.dtype])
    try:
        graph = new_graph(package, dtype)
        add(package, graph, call, dtype)
        find_plans(package, graph)
        graph.check_support()
        graph.build_plans(package.build_plan_policy.HEURISTICS_CHOICE)
    except package.cudnnGraphNotSupportedError:
        return None
    # TypeError: a version of the package that lacks one of the options.
    except (RuntimeError, ValueError, TypeError) as error:
        if lacks_engine(error):
            return None
        warn_once("cuDNN's attention failed, so slower kernels compute it.", error)
        return None
    examples, heads, n, depth = call.operands[0].shape
    if graph.get_workspace_size() > _MOST_SPACE * examples * heads * n * depth:
        # The deterministic backward pass stores partial gradients for each block of keys, which for
        # long sequences takes as much memory as the weights.
        return None
    # The first operand has number 1 and the first address.
    return Plan(package, graph, [Output(uid - 1, size) for uid, size in written.items()])


def _options(package: Any, call: Call) -> dict[str, Any]:
    options: dict[str, Any] = {"attn_scale": call.scale}
    if call.causal:
        square = call.operands[0].shape[2] == call.operands[1].shape[2]
        corner = "TOP_LEFT" if square else "BOTTOM_RIGHT"
        options["diagonal_alignment"] = getattr(package.diagonal_alignment, corner)
        options["diagonal_band_right_bound"] = 0
    return options


def _add_forward(package: Any, graph: Any, call: Call, dtype: Any) -> None:
    q, k, v, y = call.operands
    result, log_total = graph.sdpa(
        q=_tensor(graph, _Q, q, dtype),
        k=_tensor(graph, _K, k, dtype),
        v=_tensor(graph, _V, v, dtype),
        generate_stats=True,
        **_options(package, call),
    )
    _output(result, _Y, y, dtype)
    _output(log_total, _LOG_TOTAL, _rows_of(q), package.data_type.FLOAT)


def _add_backward(package: Any, graph: Any, call: Call, dtype: Any) -> None:
    q, k, v, y, t, *gradients = call.operands
    results = graph.sdpa_backward(
        q=_tensor(graph, _Q, q, dtype),
        k=_tensor(graph, _K, k, dtype),
        v=_tensor(graph, _V, v, dtype),
        o=_tensor(graph, _Y, y, dtype),
        dO=_tensor(graph, _T, t, dtype),
        stats=_tensor(graph, _LOG_TOTAL, _rows_of(q), package.data_type.FLOAT),
        use_deterministic_algorithm=True,
        **_options(package, call),
    )
    for result, number, operand in zip(results, (_FOR_Q, _FOR_K, _FOR_V), gradients, strict=True):
        _output(result, number, operand, dtype)


def _rows_of(q: Operand) -> Operand:
    """Return the layout of the log-sum-exp of each query."""
    examples, heads, n, _ = q.shape
    return Operand((examples, heads, n, 1), (heads * n, n, 1))


def _tensor(graph: Any, number: int, operand: Operand, dtype: Any) -> Any:
    strides = [*operand.steps, 1]
    return graph.tensor(dim=list(operand.shape), stride=strides, data_type=dtype, uid=number)


def _output(result: Any, number: int, operand: Operand, dtype: Any) -> None:
    result.set_uid(number)
    result.set_dim(list(operand.shape))
    result.set_stride([*operand.steps, 1])
    result.set_data_type(dtype)
    result.set_output(True)
