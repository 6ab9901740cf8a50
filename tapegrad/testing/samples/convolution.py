"""Samples of convolution and transposed convolution in one to three dimensions."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tapegrad.ops.convolution import functions as conv
from tapegrad.testing.sample import Maker, Sample, complex_normal, normal


def _correlate(
    x: Any, w: Any, strides: Any, padding: Any, dilation: Any = None, groups: int = 1
) -> Any:
    """Convolution by its definition: one sum per output element."""
    rank = w.ndim - 2
    dilation = dilation or (1,) * rank
    x = np.pad(x, ((0, 0), *padding, (0, 0)))
    window, (fan_in, c_out) = w.shape[:-2], w.shape[-2:]
    counts = [
        (size - (k - 1) * d - 1) // s + 1
        for size, k, d, s in zip(x.shape[1:-1], window, dilation, strides)
    ]
    y: Any = np.zeros((x.shape[0], *counts, c_out), np.result_type(x, w))
    for at, place in product(product(*map(range, counts)), product(*map(range, window))):
        seen = tuple(o * s + p * d for o, s, p, d in zip(at, strides, place, dilation))
        for c in range(c_out):
            first = c // (c_out // groups) * fan_in
            pixel = x[(slice(None), *seen, slice(first, first + fan_in))]
            y[(slice(None), *at, c)] += pixel @ w[(*place, slice(None), c)]
    return y


def _transposed(t: Any, w: Any, shape: Any, strides: Any, padding: Any, groups: int = 1) -> Any:
    """Transposed convolution by applying the convolution's matrix, built column by column."""
    g = np.zeros(shape)
    for at in np.ndindex(*shape):
        probe = np.zeros(shape)
        probe[at] = 1
        g[at] = np.sum(_correlate(probe, w, strides, padding, None, groups) * t)
    return g


def _last(x: Any) -> Any:
    return np.moveaxis(x, 1, -1)


def _first(x: Any) -> Any:
    return np.moveaxis(x, -1, 1)


_NONE = ((0, 0), (0, 0))
_ONE = ((1, 1), (1, 1))


def _sample(name: str, args: list[Maker], given: tuple[Any, ...], expected: Any) -> Sample:
    """Make a sample; `given` follows the arrays, and `expected` holds the reference's arguments."""
    function = getattr(conv, name.partition("-")[0])
    reference = _transposed if "transpose" in name else _correlate
    return Sample(
        name, lambda x, w: function(x, w, *given), args, lambda x, w: reference(x, w, *expected)
    )


SAMPLES = [
    _sample("conv1d", [normal(2, 5, 2), normal(3, 2, 3)], (2, "SAME"), ((2,), ((1, 1),))),
    Sample(
        "conv1d-batches",
        lambda x, w: conv.conv1d(x, w, 1, "VALID"),
        [normal(2, 2, 4, 1), normal(2, 1, 2)],
        lambda x, w: _correlate(x.reshape(4, 4, 1), w, (1,), ((0, 0),)).reshape(2, 2, 3, 2),
    ),
    _sample("conv2d", [normal(2, 4, 3, 2), normal(3, 3, 2, 3)], (1, "SAME"), ((1, 1), _ONE)),
    _sample(
        "conv2d-stride",
        [normal(1, 5, 4, 1), normal(2, 2, 1, 2)],
        ([1, 2, 1, 1], "SAME"),
        ((2, 1), ((0, 1), (0, 1))),
    ),
    Sample(
        "conv2d-valid-dilated",
        lambda x, w: conv.conv2d(x, w, 1, "VALID", dilations=[2, 1]),
        [normal(1, 5, 4, 2), normal(2, 2, 2, 2)],
        lambda x, w: _correlate(x, w, (1, 1), _NONE, (2, 1)),
    ),
    _sample(
        "conv2d-explicit",
        [normal(1, 3, 3, 1), normal(2, 2, 1, 1)],
        (1, [[0, 0], [2, 0], [0, 1], [0, 0]]),
        ((1, 1), ((2, 0), (0, 1))),
    ),
    _sample(
        "conv2d-groups",
        [normal(2, 3, 3, 4), normal(2, 2, 2, 4)],
        (1, "VALID"),
        ((1, 1), _NONE, None, 2),
    ),
    Sample(
        "conv2d-channels-first",
        lambda x, w: conv.conv2d(x, w, 2, "SAME", data_format="NCHW"),
        [normal(2, 2, 4, 3), normal(3, 3, 2, 1)],
        lambda x, w: _first(_correlate(_last(x), w, (2, 2), ((0, 1), (1, 1)))),
    ),
    Sample(
        "conv2d-pointwise",
        lambda x, w: conv.conv2d(x, w, 1, "SAME"),
        [normal(2, 2, 3, 3), normal(1, 1, 3, 2)],
        lambda x, w: x @ w[0, 0],
    ),
    _sample(
        "conv2d-complex",
        [complex_normal(1, 3, 3, 2), complex_normal(2, 2, 2, 2)],
        (1, "VALID"),
        ((1, 1), _NONE),
    ),
    _sample(
        "conv3d",
        [normal(1, 2, 3, 2, 2), normal(2, 2, 1, 2, 2)],
        (1, "SAME"),
        ((1, 1, 1), ((0, 1), (0, 1), (0, 0))),
    ),
    _sample("convolution", [normal(2, 5, 2), normal(2, 2, 2)], ([2], "VALID"), ((2,), ((0, 0),))),
    _sample(
        "conv_transpose",
        [normal(1, 2, 2, 2), normal(2, 2, 1, 2)],
        ((1, 3, 3, 1), 1, "VALID"),
        ((1, 3, 3, 1), (1, 1), _NONE),
    ),
    _sample(
        "conv1d_transpose",
        [normal(2, 2, 3), normal(3, 2, 3)],
        ((2, 4, 2), 2),
        ((2, 4, 2), (2,), ((0, 1),)),
    ),
    _sample(
        "conv2d_transpose",
        [normal(1, 2, 2, 1), normal(3, 3, 2, 1)],
        ((1, 4, 3, 2), [2, 2]),
        ((1, 4, 3, 2), (2, 2), ((0, 1), (1, 1))),
    ),
    Sample(
        "conv2d_transpose-channels-first",
        lambda t, w: conv.conv2d_transpose(t, w, (1, 2, 3, 3), 1, "VALID", "NCHW"),
        [normal(1, 1, 2, 2), normal(2, 2, 2, 1)],
        lambda t, w: _first(_transposed(_last(t), w, (1, 3, 3, 2), (1, 1), _NONE)),
    ),
    _sample(
        "conv3d_transpose",
        [normal(1, 1, 2, 2, 2), normal(2, 1, 2, 1, 2)],
        ((1, 2, 2, 3, 1), 1, "VALID"),
        ((1, 2, 2, 3, 1), (1, 1, 1), ((0, 0),) * 3),
    ),
    Sample(
        "depthwise_conv2d",
        lambda x, w: conv.depthwise_conv2d(x, w, 1, "SAME"),
        [normal(2, 3, 3, 2), normal(3, 3, 2, 2)],
        lambda x, w: _correlate(x, w.reshape(3, 3, 1, 4), (1, 1), _ONE, None, 2),
    ),
    Sample(
        "separable_conv2d",
        lambda x, d, p: conv.separable_conv2d(x, d, p, 1, "VALID"),
        [normal(1, 3, 3, 2), normal(2, 2, 2, 1), normal(1, 1, 2, 3)],
        lambda x, d, p: _correlate(x, d.reshape(2, 2, 1, 2), (1, 1), _NONE, None, 2) @ p[0, 0],
    ),
    _sample(
        "atrous_conv2d",
        [normal(1, 4, 4, 1), normal(2, 2, 1, 1)],
        (2, "VALID"),
        ((1, 1), _NONE, (2, 2)),
    ),
    Sample(
        "atrous_conv2d_transpose",
        lambda t, w: conv.atrous_conv2d_transpose(t, w, (1, 4, 4, 1), 2, "VALID"),
        [normal(1, 2, 2, 1), normal(2, 2, 1, 1)],
        lambda t, w: sum(
            np.pad(t * w[i, j, 0, 0], ((0, 0), (2 * i, 2 - 2 * i), (2 * j, 2 - 2 * j), (0, 0)))
            for i in (0, 1)
            for j in (0, 1)
        ),
    ),
]
