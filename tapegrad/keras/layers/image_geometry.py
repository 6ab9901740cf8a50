"""Random rotation, zoom and translation of images, as a gather from source coordinates."""

from __future__ import annotations

from math import pi, prod
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.keras.layers.image_layers import RandomImageLayer
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import zeros_for
from tapegrad.ops.elementwise.trigonometric import cos, sin
from tapegrad.ops.image.sampling import INTERPOLATIONS, sample
from tapegrad.ops.indexing.gather import offset_index_p
from tapegrad.ops.shape.functions import moveaxis, reshape


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

    def _sources(self, x: Any, down: Any, across: Any) -> Any:
        """Return the source coordinates of the pixels, all relative to the image centre."""
        raise NotImplementedError

    def _changed(self, x: Any) -> Any:
        is_first = self.data_format == "channels_first"
        last = moveaxis(x, -3, -1) if is_first else x
        count, (height, width, channels) = prod(last.shape[:-3]), last.shape[-3:]
        down = _numbers(x, (height, 1, 1)) - (height - 1) / 2
        across = _numbers(x, (width, 1)) - (width - 1) / 2
        row, column = self._sources(last, down, across)
        first = cast(_numbers(x, (count, 1, 1, 1)), "int64") * height
        flat = reshape(last, (count * height * width, channels))
        places = row + (height - 1) / 2, column + (width - 1) / 2
        options = self.interpolation, self.fill_mode, self.fill_value
        y = reshape(sample(flat, first, (height, width), places, *options), last.shape)
        return moveaxis(y, -1, -3) if is_first else y


class RandomRotation(_Geometry):
    """Rotate each image around its centre by a random fraction of a counterclockwise turn.

    >>> import tapegrad
    >>> x = tapegrad.reshape(tapegrad.range(4.0), (2, 2, 1))
    >>> RandomRotation((0.25, 0.25), interpolation="nearest")(x, training=True).numpy()[..., 0]
    array([[1., 3.],
           [0., 2.]], dtype=float32)
    """

    def _sources(self, x: Any, down: Any, across: Any) -> Any:
        angle = self._drawn(x, self.factor)[0] * (2 * pi)
        sine, cosine = sin(angle), cos(angle)
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

    def _sources(self, x: Any, down: Any, across: Any) -> Any:
        zooms = self._drawn(x, *[(1 + low, 1 + high) for low, high in self._factors])
        return zooms[0] * down, zooms[-1] * across


class RandomTranslation(_ByAxis):
    """Move each image down and to the right by random fractions of its height and width.

    >>> import tapegrad
    >>> x = tapegrad.reshape(tapegrad.range(4.0), (1, 4, 1))
    >>> RandomTranslation(0.0, (0.25, 0.25), "wrap")(x, training=True).numpy().ravel().tolist()
    [3.0, 0.0, 1.0, 2.0]
    """

    def _sources(self, x: Any, down: Any, across: Any) -> Any:
        height, width = self._drawn(x, *self._factors)
        return down - height * x.shape[-3], across - width * x.shape[-2]


def _numbers(x: Any, shape: tuple[int, ...]) -> Any:
    """Return 0, 1, 2, ... along the first axis, computed on the device of `x`."""
    return offset_index_p(zeros_for(x, shape, np.dtype("float32")), axis=0, length=1)
