"""The convolution primitives: `conv` and its two transposes, closed under differentiation.

Data is `x[n, *spatial, c_in]`, filters are `w[*window, c_in // groups, c_out]`.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.convolution.arguments import Padding, Shape
from tapegrad.ops.convolution.generic_kernels import conv, conv_filter_gradient, conv_input_gradient
from tapegrad.ops.shape.primitives import fold_rows, permute_p, reshape_p, unfold_rows

conv_p = Primitive("conv", conv, selects=False)
conv_input_gradient_p = Primitive("conv_input_gradient", conv_input_gradient)
conv_filter_gradient_p = Primitive("conv_filter_gradient", conv_filter_gradient)

# All three are bilinear, so the sweep can conjugate around their rules for complex values.
for _primitive in (conv_p, conv_input_gradient_p, conv_filter_gradient_p):
    _primitive.conjugates = True


def _geometry(strides: Shape, padding: Padding, dilation: Shape, groups: int) -> dict[str, Any]:
    return {"strides": strides, "padding": padding, "dilation": dilation, "groups": groups}


def _conv_vjp_x(
    t: Any, x1_shape: Shape, x2: Any, *, strides: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    geometry = _geometry(strides, padding, dilation, groups)
    return conv_input_gradient_p(t, x2, input_shape=tuple(x1_shape), **geometry)


def _conv_vjp_w(
    t: Any, x1: Any, x2_shape: Shape, *, strides: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    geometry = _geometry(strides, padding, dilation, groups)
    return conv_filter_gradient_p(x1, t, window=tuple(x2_shape[:-2]), **geometry)


conv_p.vjps(_conv_vjp_x, _conv_vjp_w)
conv_p.jvps(
    lambda t, x2, *, strides, padding, dilation, groups: conv_p(
        t, x2, **_geometry(strides, padding, dilation, groups)
    ),
    lambda t, x1, *, strides, padding, dilation, groups: conv_p(
        x1, t, **_geometry(strides, padding, dilation, groups)
    ),
)


def _input_gradient_vjp_t(
    t: Any, x2: Any, *, strides: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    return conv_p(t, x2, **_geometry(strides, padding, dilation, groups))


def _input_gradient_vjp_w(
    t: Any, x1: Any, x2_shape: Shape, *, strides: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    geometry = _geometry(strides, padding, dilation, groups)
    return conv_filter_gradient_p(t, x1, window=tuple(x2_shape[:-2]), **geometry)


conv_input_gradient_p.vjps(_input_gradient_vjp_t, _input_gradient_vjp_w)
conv_input_gradient_p.jvps(
    lambda t, x2, *, input_shape, strides, padding, dilation, groups: conv_input_gradient_p(
        t, x2, input_shape=input_shape, **_geometry(strides, padding, dilation, groups)
    ),
    lambda t, x1, *, input_shape, strides, padding, dilation, groups: conv_input_gradient_p(
        x1, t, input_shape=input_shape, **_geometry(strides, padding, dilation, groups)
    ),
)


def _filter_gradient_vjp_x(
    t: Any, x1_shape: Shape, x2: Any, *, strides: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    geometry = _geometry(strides, padding, dilation, groups)
    return conv_input_gradient_p(x2, t, input_shape=tuple(x1_shape), **geometry)


def _filter_gradient_vjp_t(
    t: Any, x1: Any, *, strides: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    return conv_p(x1, t, **_geometry(strides, padding, dilation, groups))


conv_filter_gradient_p.vjps(_filter_gradient_vjp_x, _filter_gradient_vjp_t)
conv_filter_gradient_p.jvps(
    lambda t, x2, *, window, strides, padding, dilation, groups: conv_filter_gradient_p(
        t, x2, window=window, **_geometry(strides, padding, dilation, groups)
    ),
    lambda t, x1, *, window, strides, padding, dilation, groups: conv_filter_gradient_p(
        x1, t, window=window, **_geometry(strides, padding, dilation, groups)
    ),
)

# Batching. If only the data is batched, the batch is folded into the rows. If the filters are
# batched, the batch becomes more channels: within each group if the data is shared, as additional
# groups if the data is batched too.


def _into_axis(a: Any, groups: int, axis: int = -1) -> Any:
    """Move the batch into an axis of channels, inside each group: (B, g * c) to (g * B * c)."""
    size, *lead = a.shape
    rank = len(lead)
    at = rank + axis
    c = lead[at] // groups
    split = reshape_p(a, shape=(size, *lead[:at], groups, c, *lead[at + 1 :]))
    order = (*range(1, at + 2), 0, *range(at + 2, rank + 2))
    merged = permute_p(split, axes=order)
    return reshape_p(merged, shape=(*lead[:at], groups * size * c, *lead[at + 1 :]))


def _from_axis(a: Any, size: int, groups: int, axis: int = -1) -> Any:
    """Undo `_into_axis`."""
    shape = tuple(a.shape)
    rank = len(shape)
    at = rank + axis
    c = shape[at] // (groups * size)
    split = reshape_p(a, shape=(*shape[:at], groups, size, c, *shape[at + 1 :]))
    moved = permute_p(split, axes=(at + 1, *range(at + 1), *range(at + 2, rank + 2)))
    return reshape_p(moved, shape=(size, *shape[:at], groups * c, *shape[at + 1 :]))


@conv_p.batch
def _conv_batch(size: int, batched: Any, x: Any, w: Any, *, groups: int, **geometry: Any) -> Any:
    if not batched[1]:
        return unfold_rows(conv_p(fold_rows(x), w, groups=groups, **geometry), size)
    if not batched[0]:
        y = conv_p(x, _into_axis(w, groups), groups=groups, **geometry)
        return _from_axis(y, size, groups)
    y = conv_p(_into_axis(x, 1), _into_axis(w, 1), groups=size * groups, **geometry)
    return _from_axis(y, size, 1)


@conv_input_gradient_p.batch
def _input_batch(
    size: int, batched: Any, t: Any, w: Any, *, input_shape: Shape, groups: int, **geometry: Any
) -> Any:
    n, *spatial, c_in = input_shape
    if not batched[1]:
        rows = (size * n, *spatial, c_in)
        g = conv_input_gradient_p(fold_rows(t), w, input_shape=rows, groups=groups, **geometry)
        return unfold_rows(g, size)
    wide = (n, *spatial, size * c_in)
    if not batched[0]:
        filters = _into_axis(w, 1, axis=-2)
        g = conv_input_gradient_p(t, filters, input_shape=wide, groups=groups, **geometry)
        return _from_axis(g, size, groups)
    g = conv_input_gradient_p(
        _into_axis(t, 1), _into_axis(w, 1), input_shape=wide, groups=size * groups, **geometry
    )
    return _from_axis(g, size, 1)


@conv_filter_gradient_p.batch
def _filter_batch(size: int, batched: Any, x: Any, t: Any, *, groups: int, **geometry: Any) -> Any:
    if not batched[1]:
        g = conv_filter_gradient_p(_into_axis(x, groups), t, groups=groups, **geometry)
        return _from_axis(g, size, 1, axis=-2)
    if not batched[0]:
        g = conv_filter_gradient_p(x, _into_axis(t, groups), groups=groups, **geometry)
        return _from_axis(g, size, groups)
    g = conv_filter_gradient_p(_into_axis(x, 1), _into_axis(t, 1), groups=size * groups, **geometry)
    return _from_axis(g, size, 1)
