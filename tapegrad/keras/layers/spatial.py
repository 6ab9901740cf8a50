"""Zero padding, cropping and upsampling layers."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.configured import with_defaults
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.spatial_arguments import (
    Shape,
    channels_format,
    check_rank,
    is_whole,
    per_dimension,
    positive,
    spatial_axes,
)
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.image.interpolation import interpolated, kernel_names
from tapegrad.ops.shape.functions import broadcast_to, reshape
from tapegrad.ops.shape.padding import pad

Pairs = tuple[tuple[int, int], ...]


def _pairs(layer: Layer, value: Any, what: str, rank: int) -> Pairs:
    """Return one pair (before, after) per dimension.

    The value is one integer for all dimensions, one integer for each, or one pair for each. With
    one dimension, the value may also be the pair itself.
    """
    entries = (value,) * rank if is_whole(value) or rank == 1 else value
    if isinstance(entries, list | tuple) and len(entries) == rank:
        pairs = [(entry, entry) if is_whole(entry) else entry for entry in entries]
        if all(_is_pair(pair) for pair in pairs):
            return tuple((before, after) for before, after in pairs)
    several = "a pair" if rank == 1 else f"{rank} of them, or {rank} pairs"
    raise ArgumentError(
        f"{type(layer).__name__} takes {what} as an integer of 0 or more, or {several} "
        f"(before, after). Got {value!r}."
    )


def _is_pair(value: Any) -> bool:
    is_two = isinstance(value, list | tuple) and len(value) == 2
    return is_two and all(is_whole(n) and n >= 0 for n in value)


class _Resizing(Layer):
    """Base class of layers that change the sizes of the spatial dimensions."""

    rank: int
    _changes: tuple[Any, ...]

    def __init__(self, data_format: str | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.data_format = channels_format(self, data_format)

    def _by_axis(self) -> dict[int, Any]:
        return dict(zip(spatial_axes(self.data_format, self.rank), self._changes))

    def compute_output_shape(self, input_shape: Any) -> Shape:
        check_rank(self, input_shape, self.rank, self.data_format)
        sizes = list(input_shape)
        for axis, change in self._by_axis().items():
            sizes[axis] = None if sizes[axis] is None else self._resized(sizes[axis], change)
        return tuple(sizes)

    def _resized(self, size: int, change: Any) -> int:
        raise NotImplementedError


class _ZeroPadding(_Resizing):
    padding: Any

    def __init__(self, padding: Any = 1, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(data_format, **kwargs)
        self.padding = self._changes = _pairs(self, padding, "padding", self.rank)

    def call(self, inputs: Any) -> Any:
        check_rank(self, inputs.shape, self.rank, self.data_format)
        pairs = self._by_axis()
        return pad(inputs, [pairs.get(axis, (0, 0)) for axis in range(self.rank + 2)])

    def _resized(self, size: int, change: Any) -> int:
        return size + int(sum(change))


class ZeroPadding1D(_ZeroPadding):
    """Add zeros before and after the steps of sequences `[batch, steps, channels]`.

    >>> import tapegrad
    >>> ZeroPadding1D((1, 2))(tapegrad.ones([1, 2, 1])).numpy().ravel().tolist()
    [0.0, 1.0, 1.0, 0.0, 0.0]
    """

    rank = 1

    def __init__(self, padding: Any = 1, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(padding, data_format, **kwargs)
        (self.padding,) = self._changes


@with_defaults(padding=(1, 1))
class ZeroPadding2D(_ZeroPadding):
    """Add a margin of zeros to images `[batch, height, width, channels]`.

    >>> import tapegrad
    >>> ZeroPadding2D(((1, 0), (2, 2)))(tapegrad.ones([1, 2, 3, 4])).shape
    (1, 3, 7, 4)
    """

    rank = 2


@with_defaults(padding=((1, 1), (1, 1), (1, 1)))
class ZeroPadding3D(_ZeroPadding):
    """Add a margin of zeros to volumes `[batch, depth, height, width, channels]`.

    >>> import tapegrad
    >>> ZeroPadding3D(2)(tapegrad.ones([1, 2, 3, 4, 5])).shape
    (1, 6, 7, 8, 5)
    """

    rank = 3


class _Cropping(_Resizing):
    cropping: Any

    def __init__(self, cropping: Any = 1, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(data_format, **kwargs)
        self.cropping = self._changes = _pairs(self, cropping, "cropping", self.rank)

    def call(self, inputs: Any) -> Any:
        sizes = self.compute_output_shape(inputs.shape)
        index = [slice(None)] * (self.rank + 2)
        for axis, (before, _) in self._by_axis().items():
            index[axis] = slice(before, before + (sizes[axis] or 0))
        return inputs[tuple(index)]

    def _resized(self, size: int, change: Any) -> int:
        return size - int(sum(change))

    def compute_output_shape(self, input_shape: Any) -> Shape:
        sizes = super().compute_output_shape(input_shape)
        for axis, pair in self._by_axis().items():
            size = sizes[axis]
            if size is not None and size <= 0:
                raise ShapeError(
                    f"{self._title} crops {pair} along axis {axis}, which leaves no element of an "
                    f"input of shape {tuple(input_shape)}. Crop less."
                )
        return sizes


class Cropping1D(_Cropping):
    """Crop steps at the beginning and the end of sequences `[batch, steps, channels]`.

    >>> import tapegrad
    >>> Cropping1D((1, 2))(tapegrad.ones([1, 8, 4])).shape
    (1, 5, 4)
    """

    rank = 1

    def __init__(self, cropping: Any = (1, 1), **kwargs: Any) -> None:
        super().__init__(cropping, None, **kwargs)
        (self.cropping,) = self._changes


@with_defaults(cropping=((0, 0), (0, 0)))
class Cropping2D(_Cropping):
    """Crop the margins of images `[batch, height, width, channels]`.

    >>> import tapegrad
    >>> Cropping2D(((1, 0), (2, 2)))(tapegrad.ones([1, 8, 8, 4])).shape
    (1, 7, 4, 4)
    """

    rank = 2


@with_defaults(cropping=((1, 1), (1, 1), (1, 1)))
class Cropping3D(_Cropping):
    """Crop the margins of volumes `[batch, depth, height, width, channels]`.

    >>> import tapegrad
    >>> Cropping3D(1)(tapegrad.ones([1, 4, 5, 6, 2])).shape
    (1, 2, 3, 4, 2)
    """

    rank = 3


class _UpSampling(_Resizing):
    size: Any

    def __init__(self, size: Any = 2, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(data_format, **kwargs)
        self.size = self._changes = per_dimension(self, size, self.rank, "size")

    def call(self, inputs: Any) -> Any:
        # One broadcast repeats along all dimensions at once; its gradient is a sum.
        sizes, factors = self.compute_output_shape(inputs.shape), self._by_axis()
        apart: list[int] = []
        spread: list[int] = []
        for axis, n in enumerate(inputs.shape):
            apart += [n, 1] if axis in factors else [n]
            spread += [n, factors[axis]] if axis in factors else [n]
        return reshape(broadcast_to(reshape(inputs, apart), spread), sizes)

    def _resized(self, size: int, change: Any) -> int:
        return size * int(change)


class UpSampling1D(_UpSampling):
    """Repeat each step of sequences `[batch, steps, channels]`.

    >>> import tapegrad
    >>> UpSampling1D(2)(tapegrad.constant([[[1.0], [2.0]]])).numpy().ravel().tolist()
    [1.0, 1.0, 2.0, 2.0]
    """

    rank = 1

    def __init__(self, size: int = 2, **kwargs: Any) -> None:
        super().__init__(size, None, **kwargs)
        self.size = positive(self, size, "size")


class UpSampling2D(_UpSampling):
    """Enlarge images by repeating or interpolating their elements.

    >>> import tapegrad
    >>> x = tapegrad.constant([[[[0.0], [4.0]]]])
    >>> UpSampling2D((1, 2))(x).numpy().ravel().tolist()
    [0.0, 0.0, 4.0, 4.0]
    >>> UpSampling2D((1, 2), interpolation="bilinear")(x).numpy().ravel().tolist()
    [0.0, 1.0, 3.0, 4.0]
    """

    rank = 2

    def __init__(
        self,
        size: Any = (2, 2),
        data_format: str | None = None,
        interpolation: str = "nearest",
        **kwargs: Any,
    ) -> None:
        super().__init__(size, data_format, **kwargs)
        self.interpolation = str(interpolation).lower()
        known = ("nearest", *kernel_names())
        if self.interpolation not in known:
            raise ArgumentError(
                f"UpSampling2D takes an interpolation among {', '.join(known)}. "
                f"Got {interpolation!r}."
            )

    def call(self, inputs: Any) -> Any:
        if self.interpolation == "nearest":
            return super().call(inputs)
        check_rank(self, inputs.shape, 2, self.data_format)
        x = cast(inputs, self.compute_dtype)
        for axis, factor in self._by_axis().items():
            x = interpolated(x, axis, factor, self.interpolation)
        return x


@with_defaults(size=(2, 2, 2))
class UpSampling3D(_UpSampling):
    """Repeat the elements of volumes `[batch, depth, height, width, channels]`.

    >>> import tapegrad
    >>> UpSampling3D((1, 2, 3))(tapegrad.ones([1, 2, 2, 2, 4])).shape
    (1, 2, 4, 6, 4)
    """

    rank = 3
