"""Depthwise convolutions and their transposes in C: one input channel per output channel.

There is no matrix product in them. NumPy's einsum takes 17 nanoseconds per multiplication if there
are two channels (one core of a Neoverse-N1). Here channels are processed in tiles of 64 bytes,
whose sums stay in registers; the last tile may be smaller. With few channels, as in images and
stencils, several neighbouring positions are processed together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tapegrad_numpy.kernels.convolution import output_shape
from tapegrad_numpy.loops.binding import caller
from tapegrad_numpy.loops.compiled_parts import attach_parts
from tapegrad_numpy.loops.element_types import storage
from tapegrad_numpy.loops.layout import TASK_ELEMENTS, Cut
from tapegrad_numpy.loops.pool import team
from tapegrad_numpy.loops.source import CUT, Kernel, bounds
from tapegrad_numpy.loops.vector_products import Described

NAMES = frozenset({"conv", "conv_input_gradient", "conv_filter_gradient"})

_DTYPES = ("float32", "float64")
_DIMENSIONS = 3
"""The most spatial dimensions; fewer are completed by dimensions of one element."""
_FEWEST = 512
"""The smallest number of results for which a call gets a separate kernel."""
_LARGEST_WINDOW = 256
"""The most elements of a window; partial sums of its gradient are on the stack."""
_MOST_CHANNELS = 64
"""The most channels of a filter gradient; NumPy's einsum is faster for more of them.

Measured on one core of a Neoverse-N1, in milliseconds, C against NumPy: 8 images of 56 x 56 with 64
channels and windows of 3 x 3: forward 2.5 against 22, gradients of the data 6.4 against 30 and of
the filters 5.3 against 6.7; 14 x 14 with 256 channels: 0.55 against 1.6, 0.86 against 2.8 and 3.3
against 1.3; 2 images of 65 x 66 with 2 channels: 0.06 against 2.7, 0.08 against 0.69, 0.06 against
0.8.
"""
_TILE_BYTES = 64
_ELEMENTS = 64
"""The most elements, of all channels, that are processed together if there are few channels."""
_MOST_TOGETHER = 64
"""The most elements of a window whose weights are repeated on the stack for that."""
_FIRST = len(Cut._fields)


class Geometry(NamedTuple):
    """The sizes of a depthwise convolution with multiplier 1, in three spatial dimensions."""

    batch: int
    channels: int
    spatial: tuple[int, ...]
    windows: tuple[int, ...]
    """The number of windows along each dimension."""
    window: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]
    """The zeros before the first element."""
    dilation: tuple[int, ...]


def geometry_of(
    name: str, operands: Sequence[Described], params: Mapping[str, Any]
) -> Geometry | None:
    """Return the sizes of a call; None if it is no depthwise convolution with multiplier 1."""
    (first, _), (second, _) = operands
    channels, groups = first[-1], params["groups"]
    if name == "conv_filter_gradient":
        image, window = first, params["window"]
    else:
        image = params["input_shape"] if name == "conv_input_gradient" else first
        window = second[:-2]
    if not 1 < groups == channels == second[-1] == image[-1] or len(window) > _DIMENSIONS:
        return None
    strides, padding, dilation = params["strides"], params["padding"], params["dilation"]
    spatial = tuple(image[1:-1])
    count = output_shape(spatial, window, strides, padding, dilation)
    ones = (1,) * (_DIMENSIONS - len(window))
    zeros = (0,) * len(ones)
    return Geometry(
        image[0], channels, (*ones, *spatial), (*ones, *count), (*ones, *window),
        (*ones, *strides), (*zeros, *(pair[0] for pair in padding)), (*ones, *dilation),
    )  # fmt: skip


def write_depthwise(
    name: str, operands: Sequence[Described], params: Mapping[str, Any]
) -> Kernel | None:
    """Return the kernel of a call; None to use NumPy."""
    dtype = operands[0][1]
    if dtype.name not in _DTYPES or operands[1][1] != dtype:
        return None
    sizes = geometry_of(name, operands, params)
    if sizes is None:
        return None
    results = sizes.batch * prod(sizes.windows) * sizes.channels
    window = prod(sizes.window)
    if results < _FEWEST or window > _LARGEST_WINDOW or not prod(sizes.spatial):
        return None
    kind, tile = storage(dtype), _TILE_BYTES // dtype.itemsize
    is_together = sizes.channels < tile and sizes.strides[2] == 1 and window <= _MOST_TOGETHER
    if name == "conv_filter_gradient":
        if sizes.channels > _MOST_CHANNELS:
            return None
        rows, at_once, tasks = 1, 1, -(-sizes.channels // tile)
        lines = _filter_gradient_of_few(kind) if is_together else _filter_gradient_text(kind, tile)
    else:
        # A task computes some rows of the result: of outputs, or of the data's gradient.
        image = sizes.windows if name == "conv" else sizes.spatial
        rows = sizes.batch * image[0] * image[1]
        at_once = max(1, TASK_ELEMENTS // (image[2] * sizes.channels * window))
        together = _together(kind, name == "conv") if is_together else _Together([], [])
        tasks, lines = -(-rows // at_once), _rows_text(kind, tile, name == "conv", together)
    numbers = Cut(
        sizes.channels, tile, 1, rows, at_once,
        deep=1, slices=1, share=1, tasks=tasks, results=results,
        elements=results * window,
    )  # fmt: skip
    extra = (
        sizes.batch, *sizes.spatial, *sizes.windows, *sizes.window, *sizes.strides, *sizes.low,
        *sizes.dilation,
    )  # fmt: skip
    return Kernel("\n".join(lines), frozenset(), (*numbers, *extra), 0)


# C source

_NAMES = [f"{name}{axis}" for name in ("n", "o", "k", "s", "p", "d") for axis in "012"]
"""Per axis: elements, windows, window, strides, padding before the first element, dilation."""
_VECTORS = 4
"""The number of vectors of 16 bytes in a tile."""
_TAIL = "#pragma GCC pop_options"


def _head(kind: str, result: str) -> list[str]:
    return [
        "#pragma GCC push_options",
        '#pragma GCC optimize("O2", "tree-vectorize", "fp-contract=fast")',
        f"typedef {kind} V_KEY __attribute__((vector_size(16), aligned(sizeof({kind}))));",
        "static void work_KEY(char **data, const int64_t *z, int64_t task, Slot *slots) {",
        "#pragma clang fp contract(fast)",
        *[f"const {kind} *{name} = (const {kind} *)data[{k}];" for k, name in enumerate("ab")],
        f"{result} *y = ({result} *)data[2];",
        f"const int64_t channels = {CUT['inner']}, batch = z[{_FIRST}];",
        *[f"const int64_t {name} = z[{_FIRST + 1 + k}];" for k, name in enumerate(_NAMES)],
    ]


class _Together(NamedTuple):
    """What precedes the rows, and what is done at each position of a row before anything else."""

    before: list[str]
    at_position: list[str]


def _together(kind: str, is_forward: bool) -> _Together:
    """Process the positions of a row where the window is not cut, some elements at a time.

    The weights are repeated for as many positions as fit into so many elements. From one position
    to the next the other factor moves by one, so that its elements are adjacent in memory.
    """
    weights = [
        f"const int64_t some = {_ELEMENTS} / channels * channels;",
        f"{kind} repeated[{_MOST_TOGETHER * _ELEMENTS}];",
        "for (int64_t j = 0; j < k0 * k1 * k2; ++j) for (int64_t e = 0; e < some; ++e)",
        f"repeated[j * {_ELEMENTS} + e] = b[j * channels + e % channels];",
    ]
    if is_forward:
        first, end = "p2", "n2 - (k2 - 1) * d2 + p2"
    else:
        first, end = "(k2 - 1) * d2 - p2", "o2 - p2"
    size = "o2" if is_forward else "n2"
    weights += [
        f"const int64_t whole = {first} > 0 ? {first} : 0;",
        f"const int64_t cut = {end} < {size} ? {end} : {size};",
    ]
    *loops, x, _ = _window(kind, is_forward)
    return _Together(
        weights,
        [
            "if (q2 == whole && whole < cut) {",
            *_range("2", is_forward),
            f"{kind} *out = y + (row * {size} + whole) * channels;",
            "const int64_t length = (cut - whole) * channels;",
            "for (int64_t at = 0; at < length; at += some) {",
            "const int64_t m = length - at < some ? length - at : some;",
            f"{kind} sum[{_ELEMENTS}] = {{0}};",
            *loops,
            x,
            f"const {kind} *w = repeated + ((j0 * k1 + j1) * k2 + j2) * {_ELEMENTS};",
            f"if (m == {_ELEMENTS}) for (int64_t e = 0; e < {_ELEMENTS}; ++e)",
            "sum[e] += x[at + e] * w[e];",
            "else for (int64_t e = 0; e < m; ++e) sum[e] += x[at + e] * w[e];",
            "}}}",
            "for (int64_t e = 0; e < m; ++e) out[at + e] = sum[e];",
            "}",
            "q2 = cut - 1;",
            "continue;",
            "}",
        ],
    )


def _rows_text(kind: str, tile: int, is_forward: bool, together: _Together) -> list[str]:
    """Sums over the window at each position q of a row of the result.

    Forward, the term of window element j is a[q * s + j * d - p] * b[j]. The gradient of the data
    has a[(q + p - j * d) / s] * b[j] where the division has no remainder: at every `step` elements
    of the window, for which the index of a falls by `back`.
    """
    image = "o" if is_forward else "n"
    at_once = CUT["rows_at_once"]
    vectors = range(_VECTORS)
    lanes = tile // _VECTORS
    window = _window(kind, is_forward)
    return [
        *_head(kind, kind),
        *([] if is_forward else _steps()),
        *bounds("row", "end", f"task * {at_once}", at_once, CUT["rows"]),
        *together.before,
        "for (; row < end; ++row) {",
        f"const int64_t q1 = row % {image}1, q0 = row / {image}1 % {image}0;",
        f"const int64_t n = row / ({image}0 * {image}1);",
        *_range("0", is_forward),
        *_range("1", is_forward),
        f"for (int64_t q2 = 0; q2 < {image}2; ++q2) {{",
        *together.at_position,
        *_range("2", is_forward),
        f"{kind} *out = y + (row * {image}2 + q2) * channels;",
        "int64_t c = 0;",
        f"for (; c + {tile} <= channels; c += {tile}) {{",
        f"V_KEY {', '.join(f's{v}_ = {{0}}' for v in vectors)};",
        *window,
        "const V_KEY *u = (const V_KEY *)(x + c), *v = (const V_KEY *)(w + c);",
        *[f"s{v}_ += u[{v}] * v[{v}];" for v in vectors],
        "}}}",
        *[f"*(V_KEY *)(out + c + {v * lanes}) = s{v}_;" for v in vectors],
        "}",
        "if (c < channels) {",
        "for (int64_t k = c; k < channels; ++k) out[k] = 0;",
        *window,
        "for (int64_t k = c; k < channels; ++k) out[k] += x[k] * w[k];",
        "}}}\n}}}}",
        _TAIL,
    ]


def _steps() -> list[str]:
    lines = []
    for axis in "012":
        lines += [
            f"int64_t step{axis} = 1; while (step{axis} * d{axis} % s{axis}) ++step{axis};",
            f"const int64_t back{axis} = step{axis} * d{axis} / s{axis};",
        ]
    return lines


def _range(axis: str, is_forward: bool) -> list[str]:
    """The elements of the window along an axis whose partner is no padding: from l to h.

    In gradients, l is the first element that has a partner, whose index is i{axis}_.
    """
    if is_forward:
        lines = [
            f"const int64_t f{axis} = q{axis} * s{axis} - p{axis}, g{axis} = n{axis} - 1 - f{axis};"
        ]
        low = f"f{axis} < 0 ? (d{axis} - 1 - f{axis}) / d{axis} : 0"
        high = f"g{axis} < 0 ? 0 : g{axis} / d{axis} + 1"
    else:
        lines = [
            f"const int64_t f{axis} = q{axis} + p{axis};",
            f"const int64_t g{axis} = f{axis} - (o{axis} - 1) * s{axis};",
        ]
        low = f"g{axis} > 0 ? (g{axis} + d{axis} - 1) / d{axis} : 0"
        high = f"f{axis} < 0 ? 0 : f{axis} / d{axis} + 1"
    lines += [
        f"int64_t l{axis} = {low}; const int64_t h{axis}_ = {high};",
        f"const int64_t h{axis} = h{axis}_ < k{axis} ? h{axis}_ : k{axis};",
    ]
    if is_forward:
        return lines
    partner = f"(f{axis} - l{axis} * d{axis})"
    return [
        *lines,
        f"while (l{axis} < h{axis} && {partner} % s{axis}) ++l{axis};",
        f"const int64_t i{axis}_ = {partner} / s{axis};",
    ]


def _window(kind: str, is_forward: bool) -> list[str]:
    """Three loops over the elements of the window, and the addresses of both factors."""
    lines = []
    for axis in "012":
        if is_forward:
            lines += [
                f"for (int64_t j{axis} = l{axis}; j{axis} < h{axis}; ++j{axis}) {{",
                f"const int64_t i{axis} = f{axis} + j{axis} * d{axis};",
            ]
        else:
            lines.append(
                f"for (int64_t j{axis} = l{axis}, i{axis} = i{axis}_; j{axis} < h{axis}; "
                f"j{axis} += step{axis}, i{axis} -= back{axis}) {{"
            )
    size = "n" if is_forward else "o"
    place = f"((n * {size}0 + i0) * {size}1 + i1) * {size}2 + i2"
    return [
        *lines,
        f"const {kind} *x = a + ({place}) * channels;",
        f"const {kind} *w = b + ((j0 * k1 + j1) * k2 + j2) * channels;",
    ]


def _filter_gradient_text(kind: str, tile: int) -> list[str]:
    """y[j] = sum over q of a[q * s + j * d - p] * b[q]; rows are added in double precision."""
    each = "for (int64_t j = 0; j < window; ++j) for (int64_t k = 0; k < m; ++k)"
    return [
        *_head(kind, "double"),
        f"const int64_t c = task * {tile}, window = k0 * k1 * k2;",
        f"const int64_t m = channels - c < {tile} ? channels - c : {tile};",
        f"{kind} part[window * {tile}];",
        f"{each} y[j * channels + c + k] = 0;",
        "for (int64_t n = 0; n < batch; ++n) for (int64_t q0 = 0; q0 < o0; ++q0) {",
        *_range("0", True),
        "for (int64_t q1 = 0; q1 < o1; ++q1) {",
        *_range("1", True),
        f"for (int64_t k = 0; k < window * {tile}; ++k) part[k] = 0;",
        "for (int64_t q2 = 0; q2 < o2; ++q2) {",
        *_range("2", True),
        f"const {kind} *t = b + (((n * o0 + q0) * o1 + q1) * o2 + q2) * channels + c;",
        *_window(kind, True)[:-1],
        f"{kind} *sum = part + ((j0 * k1 + j1) * k2 + j2) * {tile};",
        f"if (m == {tile}) {{",
        "V_KEY *s = (V_KEY *)sum; const V_KEY *u = (const V_KEY *)(x + c), *v = (const V_KEY *)t;",
        *[f"s[{v}] += u[{v}] * v[{v}];" for v in range(_VECTORS)],
        "} else for (int64_t k = 0; k < m; ++k) sum[k] += x[c + k] * t[k];",
        "}}}\n}",
        f"{each} y[j * channels + c + k] += part[j * {tile} + k];",
        "}}\n}",
        _TAIL,
    ]


_ROWS = 16
"""The number of rows that are added in single precision."""


def _filter_gradient_of_few(kind: str) -> list[str]:
    """The same for few channels: the products of some neighbouring positions are added apart."""
    added = [
        "for (int64_t j = 0; j < window; ++j) for (int64_t e = 0; e < some; ++e) {",
        f"y[j * channels + e % channels] += part[j * {_ELEMENTS} + e];",
        f"part[j * {_ELEMENTS} + e] = 0;",
        "}",
    ]
    return [
        *_head(kind, "double"),
        f"const int64_t some = {_ELEMENTS} / channels * channels, window = k0 * k1 * k2;",
        f"{kind} part[{_MOST_TOGETHER * _ELEMENTS}] = {{0}};",
        "for (int64_t k = 0; k < window * channels; ++k) y[k] = 0;",
        "int64_t rows = 0;",
        "for (int64_t n = 0; n < batch; ++n) for (int64_t q0 = 0; q0 < o0; ++q0) {",
        *_range("0", True),
        "for (int64_t q1 = 0; q1 < o1; ++q1) {",
        *_range("1", True),
        "for (int64_t j0 = l0; j0 < h0; ++j0) for (int64_t j1 = l1; j1 < h1; ++j1)",
        "for (int64_t j2 = 0; j2 < k2; ++j2) {",
        # The positions at which this element of the window is not in the padding.
        "const int64_t back = p2 - j2 * d2, low = back > 0 ? back : 0;",
        "const int64_t high = n2 + back < o2 ? n2 + back : o2;",
        "if (high <= low) continue;",
        "const int64_t i0 = f0 + j0 * d0, i1 = f1 + j1 * d1, length = (high - low) * channels;",
        f"const {kind} *x = a + (((n * n0 + i0) * n1 + i1) * n2 + low - back) * channels;",
        f"const {kind} *t = b + (((n * o0 + q0) * o1 + q1) * o2 + low) * channels;",
        f"{kind} *sum = part + ((j0 * k1 + j1) * k2 + j2) * {_ELEMENTS};",
        "for (int64_t at = 0; at < length; at += some) {",
        "const int64_t m = length - at < some ? length - at : some;",
        f"if (m == {_ELEMENTS}) for (int64_t e = 0; e < {_ELEMENTS}; ++e)",
        "sum[e] += x[at + e] * t[at + e];",
        "else for (int64_t e = 0; e < m; ++e) sum[e] += x[at + e] * t[at + e];",
        "}}",
        f"if (++rows % {_ROWS} == 0) {{",
        *added,
        "}}}",
        *added,
        "}",
        _TAIL,
    ]


def bind_depthwise(
    name: str,
    operands: Sequence[Described],
    params: Mapping[str, Any],
    kernel: Kernel,
    address: Any,
    plain: Callable[..., Any],
) -> Callable[..., Any]:
    """Return the function of arrays, which allocates the result."""
    sizes = geometry_of(name, operands, params)
    assert sizes is not None
    dtype = operands[0][1]
    wide = np.dtype(np.float64) if name == "conv_filter_gradient" else dtype
    shape = _result_shape(name, operands, params)
    arrays = [(own, described) for described, own in operands]
    function = caller([*arrays, (wide, shape)], 2, kernel, address)
    empty, in_order = np.empty, np.ascontiguousarray

    def run(a: Any, b: Any, **params: Any) -> Any:
        y = empty(shape, wide)
        # A copy of an array that is not contiguous costs less than the general kernel.
        if function(a, b, y) and function(in_order(a), in_order(b), y):
            return plain(a, b, **params)
        return y if wide is dtype else y.astype(dtype, copy=False)

    if wide is dtype:
        attach_parts(run, kernel, address, 3, team())
    return run


def _result_shape(
    name: str, operands: Sequence[Described], params: Mapping[str, Any]
) -> tuple[int, ...]:
    (first, _), (second, _) = operands
    if name == "conv_input_gradient":
        return tuple(params["input_shape"])
    if name == "conv_filter_gradient":
        return (*params["window"], 1, second[-1])
    options = [params[key] for key in ("strides", "padding", "dilation")]
    return (first[0], *output_shape(first[1:-1], second[:-2], *options), second[-1])
