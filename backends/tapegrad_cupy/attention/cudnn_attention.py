"""Attention by cuDNN, where the optional package nvidia-cudnn-frontend is installed.

An execution plan is built once for each combination of shapes and layouts. A call passes addresses,
on the current stream, and can be captured. What cuDNN keeps for its backward pass is also what the
kernels written here keep, so that either can go back where the other went forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import cupy

from tapegrad_cupy.bare.calls import BareCall
from tapegrad_cupy.cudnn_handle import current_handle, find_plans, library, new_graph

Array = Any
Steps = tuple[int, int, int]

_DTYPES = {"float16": "HALF", "bfloat16": "BFLOAT16"}
_MOST_SPACE = 64
"""Bytes of workspace for each number in q."""

_alloc = cupy.cuda.alloc
_current_stream = cupy.cuda.get_current_stream

# In the order of a plan's addresses.
_Q, _K, _V, _Y, _LOG_TOTAL, _T, _FOR_Q, _FOR_K, _FOR_V = range(1, 10)


class Operand(NamedTuple):
    """An array [examples, heads, rows, features] of neighbouring features."""

    shape: tuple[int, int, int, int]
    steps: Steps
    """Elements from one example, head and row to the next."""


class Call(NamedTuple):
    """One way to call attention: its operands in the order q, k, v, y and its parameters."""

    dtype: str
    operands: tuple[Operand, ...]
    scale: float
    causal: bool


def is_offered(call: Call) -> bool:
    """Tell whether cuDNN may be asked: for what it documents, without broadcasting."""
    q, k, v, *_ = call.operands
    n, m, depth, width = q.shape[2], k.shape[2], q.shape[3], v.shape[3]
    blind = call.causal and n > m
    vectors = all(step % 8 == 0 and step > 0 for x in call.operands for step in x.steps)
    fits = depth % 8 == 0 and width % 8 == 0 and max(depth, width) <= 256
    return call.dtype in _DTYPES and not blind and vectors and fits and library()[0] is not None


class Plan:
    """A graph that is ready to run, with its workspace's size."""

    def __init__(self, package: Any, graph: Any) -> None:
        self._package = package
        # The package wraps this into a function that looks at each operand.
        self._execute = getattr(graph, "_execute", graph.execute)
        self._size = graph.get_workspace_size()
        self._call = BareCall(self._by_library)

    def __call__(self, *addresses: int) -> None:
        """Run with the addresses of all operands, in the order of the plan."""
        # Freed when this returns, for work that comes later on the same stream.
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
    return _plan(call, _add_forward)


def backward_plan(call: Call) -> Plan | None:
    """Return a plan for `[q, k, v, y, log_total, t, for_q, for_k, for_v]`, or None.

    The operands of the call are q, k, v, y, t and the three gradients.
    """
    return _plan(call, _add_backward)


def _plan(call: Call, add: Any) -> Plan | None:
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
    # TypeError: a version of the package that lacks one of the options.
    except (package.cudnnGraphNotSupportedError, RuntimeError, ValueError, TypeError):
        return None
    examples, heads, n, depth = call.operands[0].shape
    if graph.get_workspace_size() > _MOST_SPACE * examples * heads * n * depth:
        # Its deterministic backward pass keeps parts of a gradient for each block of keys, so that
        # long sequences would take as much memory as the weights.
        return None
    return Plan(package, graph)


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
    """The log-sum-exp of each query, one after the other."""
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
