"""Convolution by cuDNN, if the optional package nvidia-cudnn-frontend is installed.

An execution plan is built once for each convolution. A call passes addresses on the current stream
and can be captured. Filters in row-major order are transposed to cuDNN's order first, and their
gradients are returned in cuDNN's order: see filter_layout.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import cupy

from tapegrad.core.warn_once import warn_once
from tapegrad_cupy.kernels.convolution import filter_layout
from tapegrad_cupy.kernels.convolution.patches import Convolution, Plan, padder, transposer
from tapegrad_cupy.library_calls.cudnn_handle import (
    current_handle,
    find_plans,
    lacks_engine,
    library,
    new_graph,
)
from tapegrad_cupy.library_calls.library_replay import ReplayedCall
from tapegrad_cupy.library_calls.replay_check import Output

_alloc = cupy.cuda.alloc
_current_stream = cupy.cuda.get_current_stream

Array = Any
Shape = tuple[int, ...]

MOST_WORKSPACE = 512 * 2**20
"""The most bytes of scratch memory of a plan."""

_DTYPES = {"float16": "HALF", "bfloat16": "BFLOAT16", "float32": "FLOAT"}
_X, _W, _Y = 1, 2, 3

# RuntimeErrors of the package that mean the same as its cudnnGraphNotSupportedError.
# Notes of engines that are not deterministic, or that round more than accumulation in float32.
_REFUSED = (
    "NONDETERMINISTIC", "REDUCED_PRECISION_REDUCTION", "FFT", "WINOGRAD", "WINOGRAD_TILE_4x4",
    "WINOGRAD_TILE_6x6", "WINOGRAD_TILE_13x13",
)  # fmt: skip
# Tensor cores round float32 to 10 bits.
_REFUSED_IN_FLOAT32 = ("DOWN_CONVERT_INPUTS", "TENSOR_CORE")


def status() -> str:
    """Return a sentence that says whether cuDNN runs convolutions, and if not, why."""
    package, reason = library()
    if package is None:
        return f"convolutions run on matrix products; cuDNN is not used because {reason}"
    return (
        f"convolutions run on cuDNN {package.backend_version_string()} "
        f"(nvidia-cudnn-frontend {package.__version__})"
    )


# Plans


def plan(name: str, conv: Convolution, tf32: bool) -> Plan | None:
    """Return a function that runs a convolution primitive, or None if cuDNN has no engine."""
    package, _ = library()
    if package is None or conv.dtype.name not in _DTYPES or len(conv.windows.spatial) > 3:
        return None
    if all(low == high for low, high in conv.windows.padding):
        return _plan(package, name, conv, tf32)
    # Few engines take padding that differs between the sides, as 'SAME' often does. Some that
    # accept it return wrong gradients of filters (seen in float32 with cuDNN 9 on an H200).
    found = None if name == "conv_filter_gradient" else _plan(package, name, conv, tf32)
    return found or _plan_padded(package, name, conv, tf32)


def _plan(package: Any, name: str, conv: Convolution, tf32: bool) -> Plan | None:
    try:
        graph = _build(package, name, conv, tf32)
    except package.cudnnGraphNotSupportedError:
        return None
    except (RuntimeError, ValueError) as error:
        if lacks_engine(error):
            return None
        warn_once(
            f"cuDNN failed to plan {name} in {conv.dtype.name}, so it runs on matrix products, "
            "which gives the same results more slowly.",
            error,
        )
        return None
    return _RUNNERS[name](package, graph, conv)


def _plan_padded(package: Any, name: str, conv: Convolution, tf32: bool) -> Plan | None:
    """Return a plan that pads the data explicitly, or crops its gradient."""
    padding, spatial = conv.windows.padding, conv.windows.spatial
    sizes = tuple(low + size + high for size, (low, high) in zip(spatial, padding))
    windows = replace(conv.windows, spatial=sizes, padding=((0, 0),) * len(sizes))
    plan = _plan(package, name, replace(conv, windows=windows), tf32)
    if plan is None:
        return None
    if name == "conv_input_gradient":
        inner = tuple(slice(low, low + size) for size, (low, _) in zip(spatial, padding))
        return lambda t, w: cupy.ascontiguousarray(plan(t, w)[(slice(None), *inner)])
    pad = padder(conv)
    return lambda x, other: plan(pad(x), other)


def _build(package: Any, name: str, conv: Convolution, tf32: bool) -> Any:
    """Describe the convolution to cuDNN and let it choose an engine."""
    dtype = getattr(package.data_type, _DTYPES[conv.dtype.name])
    graph = new_graph(package, dtype)
    _add_operation(graph, name, conv, dtype)
    find_plans(package, graph)
    refused: tuple[str, ...] = _REFUSED
    if conv.dtype.name == "float32" and not tf32:
        refused += _REFUSED_IN_FLOAT32
    notes = package.numerical_note.__members__
    graph.deselect_numeric_notes([notes[note] for note in refused if note in notes])
    graph.deselect_workspace_greater_than(MOST_WORKSPACE)
    graph.check_support()
    graph.build_plans(package.build_plan_policy.HEURISTICS_CHOICE)
    return graph


def _add_operation(graph: Any, name: str, conv: Convolution, dtype: Any) -> None:
    windows = conv.windows
    # cuDNN supports two or three spatial dimensions.
    lead = (1,) * (2 - len(windows.spatial))
    geometry = {
        "pre_padding": [0 for _ in lead] + [low for low, _ in windows.padding],
        "post_padding": [0 for _ in lead] + [high for _, high in windows.padding],
        "stride": [*lead, *windows.strides],
        "dilation": [*lead, *windows.dilation],
    }
    described = {
        _X: _channels_last((conv.batch, conv.c_in, *lead, *windows.spatial)),
        _W: _channels_last((conv.c_out, conv.fan_in, *lead, *windows.window)),
        _Y: _channels_last((conv.batch, conv.c_out, *lead, *windows.counts)),
    }

    def tensor(uid: int) -> Any:
        shape, strides = described[uid]
        return graph.tensor(dim=shape, stride=strides, data_type=dtype, uid=uid)

    if name == "conv":
        result, uid = graph.conv_fprop(image=tensor(_X), weight=tensor(_W), **geometry), _Y
    elif name == "conv_input_gradient":
        result, uid = graph.conv_dgrad(loss=tensor(_Y), filter=tensor(_W), **geometry), _X
    else:
        result, uid = graph.conv_wgrad(image=tensor(_X), loss=tensor(_Y), **geometry), _W
    result.set_uid(uid)
    result.set_dim(described[uid][0])
    result.set_stride(described[uid][1])
    result.set_data_type(dtype)
    result.set_output(True)


def _channels_last(shape: Shape) -> tuple[list[int], list[int]]:
    """Return a shape [n, c, *spatial] and its strides with the channels last in memory."""
    strides = [0, 1, *(0 for _ in shape[2:])]
    step = shape[1]
    for axis in (*range(len(shape) - 1, 1, -1), 0):
        strides[axis] = step
        step *= shape[axis]
    return list(shape), strides


# Calls


def _conv_runner(package: Any, graph: Any, conv: Convolution) -> Plan:
    execute, shape = _executor(package, graph, _written(conv, _Y)), conv.output_shape
    to_cudnn_order = _filter_transposer(conv)

    def run(x: Array, w: Array) -> Array:
        x, y = _aligned(x), cupy.ndarray(shape, x.dtype)
        execute(x, to_cudnn_order(w) if w._c_contiguous else w, y)
        return y

    return run


def _input_gradient_runner(package: Any, graph: Any, conv: Convolution) -> Plan:
    execute, shape = _executor(package, graph, _written(conv, _X)), conv.input_shape
    to_cudnn_order = _filter_transposer(conv)

    def run(t: Array, w: Array) -> Array:
        t, g = _aligned(t), cupy.ndarray(shape, t.dtype)
        execute(g, to_cudnn_order(w) if w._c_contiguous else w, t)
        return g

    return run


def _filter_gradient_runner(package: Any, graph: Any, conv: Convolution) -> Plan:
    execute = _executor(package, graph, _written(conv, _W))
    shape = (conv.c_out, conv.places * conv.fan_in)

    def run(x: Array, t: Array) -> Array:
        g = cupy.ndarray(shape, x.dtype)
        execute(_aligned(x), g, _aligned(t))
        return filter_layout.as_filters(g, conv.filter_shape)

    return run


def _filter_transposer(conv: Convolution) -> Any:
    """Return a function that transposes filters to cuDNN's order."""
    depth, c_out = conv.places * conv.fan_in, conv.c_out
    return transposer(conv.dtype.itemsize, depth, c_out, (c_out, depth))


_RUNNERS = {
    "conv": _conv_runner,
    "conv_input_gradient": _input_gradient_runner,
    "conv_filter_gradient": _filter_gradient_runner,
}


def _written(conv: Convolution, uid: int) -> Output:
    """What a graph writes: one of data, filters and outputs, by its position among addresses."""
    shape = {_X: conv.input_shape, _W: conv.filter_shape, _Y: conv.output_shape}[uid]
    return Output(uid - 1, math.prod(shape) * conv.dtype.itemsize)


def _executor(package: Any, graph: Any, written: Output) -> Any:
    """Return a function that runs a graph on data, filters and outputs."""
    size = graph.get_workspace_size()
    # What `execute` calls once it has found out that it was given addresses.
    execute = getattr(graph, "_execute", graph.execute)

    def by_library(addresses: Sequence[int], _: int) -> None:
        x, w, y, space = addresses
        execute({_X: x, _W: w, _Y: y}, space, current_handle(package))

    call = ReplayedCall(by_library, [written])

    def run(x: Array, w: Array, y: Array) -> None:
        space = _alloc(size) if size else None
        at_x, at_w, at_y = x.data.ptr, w.data.ptr, y.data.ptr
        addresses = (at_x, at_w, at_y, 0 if space is None else space.ptr)
        call(addresses, at_x | at_w | at_y, _current_stream().ptr)

    return run


def _aligned(x: Array) -> Array:
    """Return `x` if it is aligned to 16 bytes, otherwise a copy."""
    return x.copy() if x.data.ptr & 15 else x
