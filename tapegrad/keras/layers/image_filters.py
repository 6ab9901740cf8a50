"""Image layers that change pixels by their neighbours or by boxes: blur, sharpness, erasing."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from tapegrad.core.values.device import device
from tapegrad.errors import ArgumentError
from tapegrad.keras.layers.image_colours import ShareLayer
from tapegrad.ops.casting.cast import in_dtype
from tapegrad.ops.convolution.functions import depthwise_conv2d
from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.elementwise.comparison import logical_and
from tapegrad.ops.elementwise.exponential import exp
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.elementwise.selection import clip, where
from tapegrad.ops.indexing.gather import place_next_to
from tapegrad.ops.reduction.functions import reduce_sum
from tapegrad.ops.shape.functions import reshape
from tapegrad.ops.shape.rearranging import tile

_NEIGHBOURS = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]]) / 13


def _filtered(y: Any, window: Any) -> Any:
    """Convolve each channel of images, which have their channels last, with a window."""
    batch = y if len(y.shape) == 4 else y[None]
    window = tile(window[:, :, None, None], [1, 1, y.shape[-1], 1])
    found = depthwise_conv2d(batch, in_dtype(window, y.dtype), 1, "SAME")
    return reshape(found, y.shape)


class RandomSharpness(ShareLayer):
    """Mix each image with a smoothed version: blur it (factors below 0.5) or sharpen it.

    >>> import tapegrad
    >>> x = tapegrad.reshape(tapegrad.range(9.0), (3, 3, 1))
    >>> RandomSharpness((0.0, 0.0))(x, training=True).numpy()[1, 1].round(4).tolist()
    [4.0]
    """

    def _changed(self, x: Any, drawn: Any) -> Any:
        y = self._last(x)
        smooth = _filtered(y, place_next_to(y, _NEIGHBOURS.astype(numpy_dtype_of(y))))
        y = y + (1.0 - 2.0 * drawn) * (smooth - y)
        return self._restored(clip(y, *self.value_range))


class RandomGaussianBlur(ShareLayer):
    """Blur some images by a Gaussian window with a random standard deviation.

    `factor` is the probability, or a range to draw it from. One `sigma` means the range (0, sigma).

    >>> import tapegrad
    >>> RandomGaussianBlur(sigma=0.5)(tapegrad.ones([2, 4, 4, 3]), training=True).shape
    (2, 4, 4, 3)
    """

    def __init__(
        self,
        factor: Any = 1.0,
        kernel_size: Any = 3,
        sigma: Any = 1.0,
        value_range: Any = (0, 255),
        data_format: str | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(factor, value_range, data_format, seed, **kwargs)
        sizes = (kernel_size, kernel_size) if isinstance(kernel_size, Real) else tuple(kernel_size)
        if len(sizes) != 2 or any(type(size) is not int or size % 2 != 1 for size in sizes):
            raise ArgumentError(
                f"RandomGaussianBlur takes a kernel_size of odd numbers. Got {kernel_size!r}."
            )
        self.kernel_size, self.sigma = sizes, self._bounds(sigma)

    def _draw(self, x: Any) -> Any:
        low, high = self.sigma
        with device(x.device):
            sigma = self.seed_generator.uniform((2,), dtype="float32") * (high - low) + low
        return self._chosen(x, self.factor), sigma + 1e-6

    def _changed(self, x: Any, drawn: Any) -> Any:
        is_chosen, sigma = drawn
        y = self._last(x)
        across, down = [_gaussian(sigma[k], size) for k, size in enumerate(self.kernel_size)]
        blurred = _filtered(y, down[:, None] * across)
        return self._restored(clip(where(is_chosen, blurred, y), *self.value_range))


def _gaussian(sigma: Any, size: int) -> Any:
    places = place_next_to(sigma, np.arange(size, dtype=np.float32) - (size - 1) / 2)
    line = exp(-0.5 * (places / sigma) ** 2)
    return line / reduce_sum(line)


class BoxLayer(ShareLayer):
    """Base class of layers that change a random box of each image."""

    def _box(self, x: Any, width_share: Any, height_share: Any) -> Any:
        """Return a mask of boxes with these shares of width and height at random places."""
        down, across = self._axes(x.shape)
        mask = None
        starts = self._drawn(x, (0.0, 1.0), (0.0, 1.0))
        shares = height_share, width_share
        for axis, share, start in zip((down, across), shares, starts, strict=True):
            size = x.shape[axis]
            shape = [1] * len(x.shape)
            shape[axis] = size
            places = place_next_to(x, np.arange(size, dtype=np.float32).reshape(shape))
            length = share * size
            first = start * (size - length)
            inside = logical_and(places >= first, places < first + length)
            mask = inside if mask is None else logical_and(mask, inside)
        return mask


class RandomErasing(BoxLayer):
    """Fill a random box of some images with `fill_value`, or with noise if it is None.

    `factor` is the probability, or a range to draw it from. `scale` is the range of the area.

    >>> import tapegrad
    >>> layer = RandomErasing((1.0, 1.0), scale=(1.0, 1.0), fill_value=7.0)
    >>> layer(tapegrad.zeros([1, 2, 1]), training=True).tolist()
    [[[7.0], [7.0]]]
    """

    moves_pixels = True

    def __init__(
        self,
        factor: Any = 1.0,
        scale: Any = (0.02, 0.33),
        fill_value: Any = None,
        value_range: Any = (0, 255),
        seed: int | None = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(factor, value_range, data_format, seed, **kwargs)
        self.scale, self.fill_value = self._bounds(scale), fill_value

    def _draw(self, x: Any) -> Any:
        shares = [sqrt(share) for share in self._drawn(x, self.scale, self.scale)]
        mask = self._box(x, *shares)
        is_erased = logical_and(mask, self._chosen(x, self.factor))
        if self.fill_value is not None:
            return is_erased, None
        with device(x.device):
            noise = self.seed_generator.normal(tuple(x.shape), dtype="float32")
        return is_erased, clip(noise * self.value_range[1], *self.value_range)

    def _changed(self, x: Any, drawn: Any) -> Any:
        is_erased, fill = drawn
        if fill is None:
            values = np.asarray(self.fill_value, numpy_dtype_of(x))
            values = values if values.ndim == 0 else values.reshape(1, 1, -1)
            if values.ndim and self.data_format == "channels_first":
                values = values.reshape(-1, 1, 1)
            fill = clip(place_next_to(x, values), *self.value_range)
        return where(is_erased, in_dtype(fill, x.dtype), x)

    def _changed_masks(self, masks: Any, drawn: Any) -> Any:
        return masks
