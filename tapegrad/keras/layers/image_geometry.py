"""Random rotation, zoom, translation, shear and perspective of images, as gathers of pixels."""

from __future__ import annotations

from math import pi, prod
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.values.device import device
from tapegrad.errors import ArgumentError
from tapegrad.keras.layers.image_layers import RandomImageLayer
from tapegrad.keras.ops.image_functions import perspective_transform
from tapegrad.ops.casting.cast import cast, in_dtype
from tapegrad.ops.creation import zeros_for
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.elementwise.trigonometric import cos, sin
from tapegrad.ops.image.sampling import INTERPOLATIONS, sample
from tapegrad.ops.indexing.gather import offset_index_p, place_next_to
from tapegrad.ops.shape.functions import reshape


class _Geometry(RandomImageLayer):
    """Base class of layers that read each pixel from other coordinates of the image.

    Beyond the edges of a row a b c d, `fill_mode` gives, on the left | on the right: "reflect":
    d c b a | d c b a, "wrap": a b c d | a b c d, "nearest": a a a a | d d d d, and "constant":
    `fill_value`.
    """

    def __init__(
        self,
        factor: Any,
        fill_mode: str = "reflect",
        interpolation: str = "bilinear",
        seed: int | None = None,
        fill_value: float = 0.0,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data_format, seed, **kwargs)
        self.factor = self._bounds(factor)
        check_choice("fill_mode", fill_mode, ("reflect", "wrap", "constant", "nearest"))
        check_choice("interpolation", interpolation, INTERPOLATIONS)
        self.fill_mode, self.interpolation, self.fill_value = fill_mode, interpolation, fill_value

    def _sources(self, x: Any, drawn: Any, down: Any, across: Any) -> Any:
        """Return the source coordinates of the pixels, all relative to the image centre."""
        raise NotImplementedError

    def _changed(self, x: Any, drawn: Any) -> Any:
        return self._moved(x, drawn, self.interpolation)

    def _changed_masks(self, masks: Any, drawn: Any) -> Any:
        return cast(self._moved(in_dtype(masks, "float32"), drawn, "nearest"), masks.dtype)

    def _moved(self, x: Any, drawn: Any, interpolation: str) -> Any:
        last = self._last(x)
        count, (height, width, channels) = prod(last.shape[:-3]), last.shape[-3:]
        down = _numbers(x, (height, 1, 1)) - (height - 1) / 2
        across = _numbers(x, (width, 1)) - (width - 1) / 2
        row, column = self._sources(last, drawn, down, across)
        first = cast(_numbers(x, (count, 1, 1, 1)), "int64") * height
        flat = reshape(last, (count * height * width, channels))
        places = row + (height - 1) / 2, column + (width - 1) / 2
        options = interpolation, self.fill_mode, self.fill_value
        y = reshape(sample(flat, first, (height, width), places, *options), last.shape)
        return self._restored(y)


class RandomRotation(_Geometry):
    """Rotate each image around its centre by a random fraction of a counterclockwise turn.

    >>> import tapegrad
    >>> x = tapegrad.reshape(tapegrad.range(4.0), (2, 2, 1))
    >>> RandomRotation((0.25, 0.25), interpolation="nearest")(x, training=True).numpy()[..., 0]
    array([[1., 3.],
           [0., 2.]], dtype=float32)
    """

    def _draw(self, x: Any) -> Any:
        return self._drawn(x, self.factor)[0] * (2 * pi)

    def _sources(self, x: Any, drawn: Any, down: Any, across: Any) -> Any:
        sine, cosine = sin(drawn), cos(drawn)
        return sine * across + cosine * down, cosine * across - sine * down


class _ByAxis(_Geometry):
    """Base class of layers with one factor for the height and one for the width."""

    is_strict = is_width_needed = True

    def __init__(
        self,
        height_factor: Any,
        width_factor: Any = None,
        fill_mode: str = "reflect",
        interpolation: str = "bilinear",
        seed: int | None = None,
        fill_value: float = 0.0,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            height_factor, fill_mode, interpolation, seed, fill_value, data_format, **kwargs
        )
        self.height_factor, self.width_factor = height_factor, width_factor
        self._factors = [self.factor]
        if self.is_width_needed or width_factor is not None:
            self._factors.append(self._bounds(width_factor))


class RandomZoom(_ByAxis):
    """Zoom out of each image (factors above 0) or into it (factors below 0).

    Without `width_factor`, height and width are zoomed alike.

    >>> import tapegrad
    >>> x = tapegrad.reshape(tapegrad.range(4.0), (1, 4, 1))
    >>> RandomZoom(0.0, (1.0, 1.0), "constant")(x, training=True).numpy().ravel().tolist()
    [0.0, 0.5, 2.5, 0.0]
    """

    is_width_needed = False

    def _draw(self, x: Any) -> Any:
        return self._drawn(x, *[(1 + low, 1 + high) for low, high in self._factors])

    def _sources(self, x: Any, drawn: Any, down: Any, across: Any) -> Any:
        return drawn[0] * down, drawn[-1] * across


class RandomTranslation(_ByAxis):
    """Move each image down and to the right by random fractions of its height and width.

    >>> import tapegrad
    >>> x = tapegrad.reshape(tapegrad.range(4.0), (1, 4, 1))
    >>> RandomTranslation(0.0, (0.25, 0.25), "wrap")(x, training=True).numpy().ravel().tolist()
    [3.0, 0.0, 1.0, 2.0]
    """

    def _draw(self, x: Any) -> Any:
        return self._drawn(x, *self._factors)

    def _sources(self, x: Any, drawn: Any, down: Any, across: Any) -> Any:
        height, width = drawn
        return down - height * x.shape[-3], across - width * x.shape[-2]


class RandomShear(_Geometry):
    """Shear each image horizontally and vertically by random factors, with a random common sign.

    The pixel (x, y) of the result is read at (x + x_factor y, y + y_factor x).

    >>> import tapegrad
    >>> x = tapegrad.reshape(tapegrad.range(4.0), (1, 4, 1))
    >>> RandomShear((0.5, 0.5))(x, training=True).numpy().ravel().tolist()  # one row
    [0.0, 1.0, 2.0, 3.0]
    """

    least_factor = 0
    is_strict = True

    def __init__(
        self,
        x_factor: Any = 0.0,
        y_factor: Any = 0.0,
        interpolation: str = "bilinear",
        fill_mode: str = "reflect",
        fill_value: float = 0.0,
        data_format: str | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        options = fill_mode, interpolation, seed, fill_value, data_format
        super().__init__(x_factor, *options, **kwargs)
        self.x_factor, self.y_factor = x_factor, y_factor
        self._other_factor = self._bounds(y_factor)

    def _draw(self, x: Any) -> Any:
        sign, *factors = self._drawn(x, (-1.0, 1.0), self.factor, self._other_factor)
        return [where(sign < 0, -factor, factor) for factor in factors]

    def _sources(self, x: Any, drawn: Any, down: Any, across: Any) -> Any:
        row, column = down + (x.shape[-3] - 1) / 2, across + (x.shape[-2] - 1) / 2
        return down + drawn[1] * column, across + drawn[0] * row


class RandomPerspective(RandomImageLayer):
    """Move the corners of some images randomly, by up to `scale / 2` of their coordinates.

    `factor` is the probability to change an image, or a range to draw it from.

    >>> import tapegrad
    >>> RandomPerspective(scale=0.5)(tapegrad.ones([2, 4, 4, 1]), training=True).shape
    (2, 4, 4, 1)
    """

    least_factor = 0
    is_strict = True
    is_symmetric = False

    def __init__(
        self,
        factor: Any = 1.0,
        scale: float = 1.0,
        interpolation: str = "bilinear",
        fill_value: float = 0.0,
        seed: int | None = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data_format, seed, **kwargs)
        self.factor = self._bounds(factor)
        if not 0 <= scale <= 1:
            raise ArgumentError(f"RandomPerspective takes a scale from 0 to 1. Got {scale!r}.")
        check_choice("interpolation", interpolation, INTERPOLATIONS)
        self.scale, self.interpolation, self.fill_value = scale, interpolation, fill_value

    def _draw(self, x: Any) -> Any:
        height, width = [x.shape[axis] for axis in self._axes(x.shape)]
        right, bottom = width - 1.0, height - 1.0
        corners = np.array([[0, 0], [right, 0], [0, bottom], [right, bottom]], np.float32)
        with device(x.device):
            moves = self.seed_generator.uniform((*x.shape[:-3], 4, 2), dtype="float32")
        start = place_next_to(x, corners) + moves * 0
        return self._chosen(x, self.factor), start, start * (1 + (moves - 0.5) * self.scale)

    def _changed(self, x: Any, drawn: Any) -> Any:
        return self._moved(x, drawn, self.interpolation)

    def _changed_masks(self, masks: Any, drawn: Any) -> Any:
        return cast(self._moved(in_dtype(masks, "float32"), drawn, "nearest"), masks.dtype)

    def _moved(self, x: Any, drawn: Any, interpolation: str) -> Any:
        is_chosen, start, end = drawn
        options = interpolation, self.fill_value, self.data_format
        return where(
            is_chosen, in_dtype(perspective_transform(x, start, end, *options), x.dtype), x
        )


def _numbers(x: Any, shape: tuple[int, ...]) -> Any:
    """Return 0, 1, 2, ... along the first axis, computed on the device of `x`."""
    return offset_index_p(zeros_for(x, shape, np.dtype("float32")), axis=0, length=1)
