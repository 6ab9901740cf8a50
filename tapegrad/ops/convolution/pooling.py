"""Maximum and average pooling over `x[n, *spatial, c]`, with TensorFlow's signatures.

Maximum pooling also returns the position of each maximum. Its derivatives of every order are a
gather and a scatter at these positions, each the transpose of the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.primitive.families import linear
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.core.values.sizes import computed
from tapegrad.errors import ArgumentError, DTypeError, ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.convolution import generic_kernels
from tapegrad.ops.convolution.arguments import (
    Padding,
    Shape,
    channels_to_end,
    channels_to_front,
    check_window_fits,
    fold_batch,
    is_channels_first,
    padding_pairs,
    per_dimension,
    unfold_batch,
)
from tapegrad.ops.kinds import is_integer
from tapegrad.ops.reduction.primitives import max as maximum_of, mean
from tapegrad.ops.shape.primitives import fold_rows, lift_unbatched, reshape_p, unfold_rows

max_pool_p = Primitive("max_pool", generic_kernels.max_pool, many=True)
max_pool_p.takes_none = True
pool_gather_p = Primitive("pool_gather", generic_kernels.pool_gather)
pool_scatter_p = Primitive("pool_scatter", generic_kernels.pool_scatter)


@max_pool_p.vjp
def _max_pool_vjp(
    t: Any, x_shape: Shape, y2: Any, *, window: Shape, strides: Shape, dilation: Shape
) -> tuple[Any]:
    sizes = zip(window, strides, dilation)
    # Windows that do not overlap pick each element once at most.
    unique = all(stride >= (n - 1) * d + 1 for n, stride, d in sizes)
    return (pool_scatter_p(t[0], y2, spatial=tuple(x_shape[1:-1]), unique=unique),)


@max_pool_p.jvp
def _max_pool_jvp(ts: Any, y2: Any) -> tuple[Any, None]:
    return pool_gather_p(ts[0], y2), None


pool_gather_p.vjps(
    lambda t, x1_shape, x2: pool_scatter_p(t, x2, spatial=tuple(x1_shape[1:-1]), unique=False),
    None,
)
pool_gather_p.jvps(lambda t, x2: pool_gather_p(t, x2), None)
pool_scatter_p.vjps(lambda t, x2: pool_gather_p(t, x2), None)
pool_scatter_p.jvps(
    lambda t, x2, *, spatial, unique: pool_scatter_p(t, x2, spatial=spatial, unique=unique), None
)


def _fold(primitive: Primitive) -> Any:
    """Return a batching rule for primitives that treat the rows of the first axis separately."""

    def batch(size: int, batched: Any, *args: Any, **params: Any) -> Any:
        rows = map(fold_rows, lift_unbatched(size, batched, *args))
        result = primitive(*rows, **params)
        if primitive.many:
            return tuple(unfold_rows(part, size) for part in result)
        return unfold_rows(result, size)

    return batch


def _avg_pool_transpose(
    t: Any, x_shape: Shape, *, window: Shape, strides: Shape, padding: Padding, count_padding: bool
) -> Any:
    return avg_pool_gradient_p(
        t,
        spatial=tuple(x_shape[1:-1]),
        window=window,
        strides=strides,
        padding=padding,
        count_padding=count_padding,
    )


def _avg_pool_gradient_transpose(
    t: Any, *, window: Shape, strides: Shape, padding: Padding, count_padding: bool
) -> Any:
    return avg_pool_p(
        t, window=window, strides=strides, padding=padding, count_padding=count_padding
    )


avg_pool_p = linear("avg_pool", generic_kernels.avg_pool, transpose=_avg_pool_transpose)
avg_pool_gradient_p = linear(
    "avg_pool_gradient", generic_kernels.avg_pool_gradient, transpose=_avg_pool_gradient_transpose
)

for _primitive in (max_pool_p, pool_gather_p, pool_scatter_p, avg_pool_p, avg_pool_gradient_p):
    _primitive.batch(_fold(_primitive))


class _Pooling:
    """The arguments of a pooling call in channels-last form, and the conversion of the result."""

    def __init__(
        self,
        x: Any,
        ksize: Any,
        strides: Any,
        padding: Any,
        data_format: str | None,
        dilations: Any,
        rank: int | None,
        name: str,
    ) -> None:
        self.name, x = name, as_operand(x)
        rank = len(x.shape) - 2 if rank is None else rank
        self.first = is_channels_first(data_format, rank, name)
        x = channels_to_end(x) if self.first else x
        self.x, self.batch = fold_batch(x, rank, name)
        spatial = tuple(self.x.shape[1:-1])
        self.window = per_dimension(ksize, rank, "ksize", name, self.first)
        self.strides = per_dimension(strides, rank, "strides", name, self.first)
        self.dilation = per_dimension(dilations, rank, "dilations", name, self.first)
        steps = self.strides, self.dilation
        self.padding = computed(
            padding_pairs, padding, spatial, self.window, *steps, name, self.first
        )
        check_window_fits(spatial, self.window, self.padding, self.dilation, name)

    def finish(self, y: Any) -> Any:
        y = unfold_batch(y, self.batch)
        return channels_to_front(y) if self.first else y

    def maximum(self) -> tuple[Any, Any]:
        self._check_no_empty_window()
        values, indices = max_pool_p(
            self.x,
            window=self.window,
            strides=self.strides,
            padding=self.padding,
            dilation=self.dilation,
        )
        return values, indices

    def average(self) -> Any:
        if is_integer(self.x):
            raise DTypeError(
                f"{self.name} needs a floating-point tensor. Got {self.x.dtype}; cast it first, "
                "for example with tapegrad.cast(x, 'float32')."
            )
        return avg_pool_p(
            self.x,
            window=self.window,
            strides=self.strides,
            padding=self.padding,
            count_padding=False,
        )

    def _check_no_empty_window(self) -> None:
        """Raise, as TensorFlow does, if a window covers padding only."""
        for size, extent, stride, (low, high), step in zip(
            self.x.shape[1:-1], self.window, self.strides, self.padding, self.dilation
        ):
            reach = (extent - 1) * step + 1
            last = (size + low + high - reach) // stride * stride - low
            # A dilated window may skip the data: its first element past the padding is beyond it.
            past = [start % step >= size for start in range(-low, min(0, last + 1), stride)]
            if low >= reach or last >= size or any(past):
                raise ShapeError(
                    f"{self.name} needs a data element in every window. A window of {extent} "
                    f"elements (dilation {step}) covers only the padding ({low}, {high}) of an "
                    f"axis of size {size}. Pad by less than the window."
                )


def max_pool(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    name: str | None = None,
    *,
    rank: int | None = None,
) -> Any:
    """Return the maximum of each window; the first of equal elements gets the gradient.

    >>> import numpy as np
    >>> max_pool(np.arange(16.0).reshape(1, 4, 4, 1), 2, 2, "VALID").numpy()[0, :, :, 0].tolist()
    [[5.0, 7.0], [13.0, 15.0]]
    """
    across = _channel_window(ksize, data_format)
    if across > 1:
        return _max_pool_of_channels(input, ksize, strides, across, data_format)
    pooling = _Pooling(input, ksize, strides, padding, data_format, None, rank, "max_pool")
    return pooling.finish(pooling.maximum()[0])


def _channel_window(ksize: Any, data_format: str | None) -> int:
    """Return how many channels a window covers, if the list has an entry for channels."""
    if not isinstance(ksize, list | tuple) or len(ksize) < 4:
        return 1
    return int(ksize[1] if str(data_format).startswith("NC") else ksize[-1])


def _max_pool_of_channels(
    input: Any, ksize: Any, strides: Any, across: int, data_format: str | None
) -> Any:
    """Return the maximum of each group of channels; windows do not overlap, as in TensorFlow."""
    x = as_operand(input)
    is_first = str(data_format).startswith("NC")
    axis = 1 if is_first else len(x.shape) - 1
    sizes = (list(ksize), list(strides) if isinstance(strides, list | tuple) else [strides])
    is_plain = all(sum(n != 1 for n in one) == 1 and one[axis] == across for one in sizes)
    if not is_plain or len(ksize) != len(x.shape) or x.shape[axis] % across:
        raise ArgumentError(
            "max_pool across channels takes ksize and strides of the same number for channels, by "
            f"which their count is divisible, and of 1 for all other axes. Got ksize={ksize} and "
            f"strides={strides} for shape {tuple(x.shape)}."
        )
    groups = reshape_p(
        x, shape=(*x.shape[:axis], x.shape[axis] // across, across, *x.shape[axis + 1 :])
    )
    return maximum_of(groups, axis=axis + 1, keepdims=False)


def avg_pool(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    name: str | None = None,
    *,
    rank: int | None = None,
) -> Any:
    """Return the mean of each window; padding does not count.

    >>> import numpy as np
    >>> avg_pool(np.arange(16.0).reshape(1, 4, 4, 1), 2, 2, "VALID").numpy()[0, :, :, 0].tolist()
    [[2.5, 4.5], [10.5, 12.5]]
    """
    pooling = _Pooling(input, ksize, strides, padding, data_format, None, rank, "avg_pool")
    return pooling.finish(pooling.average())


def max_pool1d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NWC",
    name: str | None = None,
) -> Any:
    """Return the maximum of each window of sequences `[batch, width, channels]`.

    >>> max_pool1d([[[1.0], [5.0], [3.0]]], 2, 1, "VALID").tolist()
    [[[5.0], [5.0]]]
    """
    return max_pool(input, ksize, strides, padding, data_format, rank=1)


def max_pool2d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    name: str | None = None,
) -> Any:
    """Return the maximum of each window of images `[batch, height, width, channels]`.

    >>> max_pool2d([[[[1.0], [5.0]], [[3.0], [7.0]]]], 2, 2, "VALID").tolist()
    [[[[7.0]]]]
    """
    return max_pool(input, ksize, strides, padding, data_format, rank=2)


def max_pool3d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NDHWC",
    name: str | None = None,
) -> Any:
    """Return the maximum of each window of volumes `[batch, depth, height, width, channels]`.

    >>> max_pool3d([[[[[1.0], [5.0]], [[3.0], [7.0]]]]], [1, 2, 2], 1, "VALID").tolist()
    [[[[[7.0]]]]]
    """
    return max_pool(input, ksize, strides, padding, data_format, rank=3)


def avg_pool1d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NWC",
    name: str | None = None,
) -> Any:
    """Return the mean of each window of sequences `[batch, width, channels]`.

    >>> avg_pool1d([[[1.0], [5.0], [3.0]]], 2, 1, "VALID").tolist()
    [[[3.0], [4.0]]]
    """
    return avg_pool(input, ksize, strides, padding, data_format, rank=1)


def avg_pool2d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    name: str | None = None,
) -> Any:
    """Return the mean of each window of images `[batch, height, width, channels]`.

    >>> avg_pool2d([[[[1.0], [5.0]], [[3.0], [7.0]]]], 2, 2, "VALID").tolist()
    [[[[4.0]]]]
    """
    return avg_pool(input, ksize, strides, padding, data_format, rank=2)


def avg_pool3d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NDHWC",
    name: str | None = None,
) -> Any:
    """Return the mean of each window of volumes `[batch, depth, height, width, channels]`.

    >>> avg_pool3d([[[[[1.0], [5.0]], [[3.0], [7.0]]]]], [1, 2, 2], 1, "VALID").tolist()
    [[[[[4.0]]]]]
    """
    return avg_pool(input, ksize, strides, padding, data_format, rank=3)


def pool(
    input: Any,
    window_shape: Any,
    pooling_type: str,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Pool with `pooling_type` 'MAX' or 'AVG' over windows with any number of axes.

    >>> import numpy as np
    >>> pool(np.arange(4.0).reshape(1, 4, 1), [2], "AVG").numpy().ravel().tolist()
    [0.5, 1.5, 2.5]
    """
    rank = len(window_shape) if isinstance(window_shape, list | tuple) else None
    pooling = _Pooling(input, window_shape, strides, padding, data_format, dilations, rank, "pool")
    mode = str(pooling_type).upper()
    if mode == "MAX":
        return pooling.finish(pooling.maximum()[0])
    if mode != "AVG":
        raise ArgumentError(f"pool takes pooling_type 'MAX' or 'AVG'. Got {pooling_type!r}.")
    if any(step != 1 for step in pooling.dilation):
        raise ArgumentError(
            f"pool with pooling_type 'AVG' takes dilations of 1 only. Got {dilations}."
        )
    return pooling.finish(pooling.average())


def max_pool_with_argmax(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    output_dtype: Any = "int64",
    include_batch_in_index: bool = False,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Return the maxima of images and their positions, `(row * width + column) * channels + c`.

    >>> import numpy as np
    >>> max_pool_with_argmax(np.arange(4.0).reshape(1, 2, 2, 1), 2, 2, "VALID")[1].numpy().ravel()
    array([3])
    """
    pooling = _Pooling(input, ksize, strides, padding, data_format, None, 2, "max_pool_with_argmax")
    values, pixels = pooling.maximum()
    n, height, width, channels = pooling.x.shape
    positions = pixels * channels + np.arange(channels)
    if include_batch_in_index:
        image = np.arange(n).reshape(n, 1, 1, 1)
        positions = positions + image * (height * width * channels)
    return pooling.finish(values), pooling.finish(cast(positions, output_dtype))


def global_avg_pool(input: Any, keepdims: bool = False, name: str | None = None) -> Any:
    """Return the mean over all spatial axes of `[batch, *spatial, channels]`.

    >>> import numpy as np
    >>> global_avg_pool(np.arange(4.0).reshape(1, 2, 2, 1)).tolist()
    [[1.5]]
    """
    x = as_operand(input)
    return mean(x, axis=tuple(range(1, len(x.shape) - 1)), keepdims=keepdims)


def global_max_pool(input: Any, keepdims: bool = False, name: str | None = None) -> Any:
    """Return the maximum over all spatial axes of `[batch, *spatial, channels]`.

    >>> import numpy as np
    >>> global_max_pool(np.arange(4.0).reshape(1, 2, 2, 1)).tolist()
    [[3.0]]
    """
    x = as_operand(input)
    return maximum_of(x, axis=tuple(range(1, len(x.shape) - 1)), keepdims=keepdims)
