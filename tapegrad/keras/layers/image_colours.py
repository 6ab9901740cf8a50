"""Image layers that change colours: hue, saturation, grey, inversion, levels and histograms."""

from __future__ import annotations

from typing import Any

from tapegrad.core.argument_checks import check_count
from tapegrad.errors import ArgumentError
from tapegrad.keras.layers.image_layers import ColourLayer, RandomBrightness, RandomContrast
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import ones_like
from tapegrad.ops.elementwise.rounding import floor, round as rounded
from tapegrad.ops.elementwise.selection import clip, where
from tapegrad.ops.image.colours import hsv_to_rgb, rgb_to_grayscale, rgb_to_hsv
from tapegrad.ops.image.pixels import channels
from tapegrad.ops.indexing.gather import gather
from tapegrad.ops.indexing.segment_functions import unsorted_segment_sum
from tapegrad.ops.reduction.cumulative import cumsum
from tapegrad.ops.reduction.functions import reduce_max, reduce_min
from tapegrad.ops.shape.functions import reshape
from tapegrad.ops.shape.joining import stack


class ShareLayer(ColourLayer):
    """Base class of layers with a factor from 0 to 1; one factor f means the range (0, f)."""

    least_factor = 0
    is_strict = True
    is_symmetric = False

    def __init__(
        self,
        factor: Any,
        value_range: Any = (0, 255),
        data_format: str | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(factor, value_range, seed, data_format=data_format, **kwargs)

    def _draw(self, x: Any) -> Any:
        return self._drawn(x, self.factor)[0]

    def _scaled(self, x: Any) -> Any:
        """Scale the value range to [0, 1]."""
        low, high = self.value_range
        return (x - low) / (high - low)

    def _unscaled(self, x: Any) -> Any:
        low, high = self.value_range
        return x * (high - low) + low


class RandomHue(ShareLayer):
    """Turn the hue of each image by a random part of half the colour circle, in both directions.

    >>> import tapegrad
    >>> red = tapegrad.constant([[[255.0, 0.0, 0.0]]])
    >>> sorted(RandomHue((1.0, 1.0))(red, training=True).numpy().ravel().tolist())
    [0.0, 255.0, 255.0]
    """

    def _draw(self, x: Any) -> Any:
        sign, factor = self._drawn(x, (-1.0, 1.0), self.factor)
        return where(sign < 0, -factor, factor) / 2

    def _changed(self, x: Any, drawn: Any) -> Any:
        hue, saturation, value = channels(rgb_to_hsv(self._scaled(self._last(x))))
        hue = hue + drawn[..., 0]
        y = hsv_to_rgb(stack([hue - floor(hue), saturation, value], -1))
        return self._restored(self._unscaled(clip(y, 0.0, 1.0)))


class RandomSaturation(ShareLayer):
    """Multiply the saturation of each image by f / (1 - f), with a random factor f.

    The factor 0 gives grey images, 0.5 keeps the images, and 1 saturates all colours.

    >>> import tapegrad
    >>> pink = tapegrad.constant([[[250.0, 200.0, 200.0]]])
    >>> RandomSaturation((0.0, 0.0))(pink, training=True).numpy().ravel().tolist()
    [250.0, 250.0, 250.0]
    """

    def _changed(self, x: Any, drawn: Any) -> Any:
        hue, saturation, value = channels(rgb_to_hsv(self._scaled(self._last(x))))
        saturation = saturation * (drawn / (1.0 - drawn + 1e-7))[..., 0]
        y = hsv_to_rgb(stack([hue, clip(saturation, 0.0, 1.0), value], -1))
        return self._restored(self._unscaled(y))


class RandomColorDegeneration(ShareLayer):
    """Mix each image with its grey version; the factor is the share of the grey version.

    >>> import tapegrad
    >>> red = tapegrad.constant([[[100.0, 0.0, 0.0]]])
    >>> layer = RandomColorDegeneration((1.0, 1.0))
    >>> layer(red, training=True).numpy().round(2).ravel().tolist()
    [29.889999389648438, 29.889999389648438, 29.889999389648438]
    """

    def _changed(self, x: Any, drawn: Any) -> Any:
        y = self._last(x)
        y = y + drawn * (rgb_to_grayscale(y) - y)
        return self._restored(clip(y, *self.value_range))


class RandomGrayscale(ShareLayer):
    """Make each image grey with the probability `factor`; it keeps three channels.

    >>> import tapegrad
    >>> RandomGrayscale(0.0)(tapegrad.constant([[[9.0, 0.0, 0.0]]]), training=True).tolist()
    [[[9.0, 0.0, 0.0]]]
    """

    def __init__(
        self,
        factor: float = 0.5,
        data_format: str | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__((factor, factor), data_format=data_format, seed=seed, **kwargs)

    def _draw(self, x: Any) -> Any:
        return self._chosen(x, self.factor)

    def _changed(self, x: Any, drawn: Any) -> Any:
        y = self._last(x)
        return self._restored(where(drawn, rgb_to_grayscale(y), y))


class RandomInvert(ShareLayer):
    """Invert the values of some images. `factor` is the probability, or a range to draw it from.

    >>> import tapegrad
    >>> RandomInvert((1.0, 1.0))(tapegrad.constant([[[5.0]]]), training=True).tolist()
    [[[250.0]]]
    """

    def __init__(
        self,
        factor: Any = 1.0,
        value_range: Any = (0, 255),
        seed: int | None = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(factor, value_range, data_format, seed, **kwargs)

    def _draw(self, x: Any) -> Any:
        return self._chosen(x, self.factor)

    def _changed(self, x: Any, drawn: Any) -> Any:
        low, high = self.value_range
        return where(drawn, low + high - x, x)


class RandomPosterization(ShareLayer):
    """Keep only the highest bits of the 8 bits of each value.

    `factor` is a number of bits, or a range (lower, upper) to draw it from, without the upper one;
    one number n above 1 means the range (1, n).

    >>> import tapegrad
    >>> x = tapegrad.constant([[[0.0], [127.0], [129.0], [255.0]]])
    >>> RandomPosterization((1, 1))(x, training=True).numpy().ravel().tolist()
    [0.0, 0.0, 128.0, 128.0]
    """

    def _bounds(self, factor: Any) -> tuple[float, float]:
        low, high = sorted(factor) if isinstance(factor, list | tuple) else (1, factor)
        if not 1 <= low <= high <= 8:
            raise ArgumentError(f"RandomPosterization takes 1 to 8 bits. Got {factor!r}.")
        return low, high

    def _draw(self, x: Any) -> Any:
        low, high = self.factor
        bits = clip(floor(self._drawn(x, self.factor)[0]), low, max(low, high - 1))
        return rounded(2.0 ** (8.0 - bits))

    def _changed(self, x: Any, drawn: Any) -> Any:
        levels = floor(self._scaled(x) * 255.0 + 1e-4)
        return self._unscaled(floor(levels / drawn) * drawn / 255.0)


class Solarization(ShareLayer):
    """Add a random part of the value range, then invert the values from a random threshold on.

    >>> import tapegrad
    >>> x = tapegrad.constant([[[10.0], [200.0]]])
    >>> layer = Solarization(0.0, (0.5, 0.5))
    >>> layer(x, training=True).numpy().ravel().tolist()
    [10.0, 55.0]
    """

    def __init__(
        self,
        addition_factor: Any = 0.0,
        threshold_factor: Any = 0.0,
        value_range: Any = (0, 255),
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(addition_factor, value_range, seed=seed, **kwargs)
        self.addition_factor = self.factor
        self.threshold_factor = self._bounds(threshold_factor)

    def _draw(self, x: Any) -> Any:
        return self._drawn(x, self.addition_factor, self.threshold_factor)

    def _changed(self, x: Any, drawn: Any) -> Any:
        addition, threshold = drawn
        low, high = self.value_range
        y = clip(x + addition * (high - low), low, high)
        return where(y < self._unscaled(threshold), y, low + high - y)


class AutoContrast(ShareLayer):
    """Stretch the values of each channel of an image to the whole value range, in every call.

    >>> import tapegrad
    >>> x = tapegrad.constant([[[10.0], [20.0], [30.0]]])
    >>> AutoContrast()(x).numpy().ravel().tolist()
    [0.0, 127.5, 255.0]
    """

    def __init__(self, value_range: Any = (0, 255), **kwargs: Any) -> None:
        super().__init__(0.0, value_range, **kwargs)

    def call(self, inputs: Any, training: Any = True) -> Any:
        return super().call(inputs, True)

    def _draw(self, x: Any) -> Any:
        return None

    def _changed(self, x: Any, drawn: Any) -> Any:
        axes = self._axes(x.shape)
        low, high = reduce_min(x, axes, keepdims=True), reduce_max(x, axes, keepdims=True)
        has_width = high > low
        width = where(has_width, high - low, 1.0)
        return where(has_width, self._unscaled(clip((x - low) / width, 0.0, 1.0)), x)


class Equalization(ShareLayer):
    """Spread the values of each channel of a batch so that all levels are about equally frequent.

    >>> import tapegrad
    >>> x = tapegrad.constant([[[10.0], [11.0], [12.0]]])
    >>> Equalization()(x, training=True).numpy().ravel().tolist()
    [0.0, 128.0, 255.0]
    """

    def __init__(
        self,
        value_range: Any = (0, 255),
        bins: int = 256,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(0.0, value_range, data_format, **kwargs)
        self.bins = check_count("bins", bins, "Equalization", 2)

    def _draw(self, x: Any) -> Any:
        return None

    def _changed(self, x: Any, drawn: Any) -> Any:
        y = self._last(x)
        depth, bins = y.shape[-1], self.bins
        level = cast(clip(self._scaled(y) * (bins - 1) + 1e-4, 0.0, bins - 1.0), "int64")
        level = reshape(level, (-1, depth))
        parts = [level[:, k] + k * bins for k in range(depth)]
        flat = stack(parts, -1)
        ones = ones_like(cast(flat, "float32"))
        counts = unsorted_segment_sum(reshape(ones, (-1,)), reshape(flat, (-1,)), depth * bins)
        counts = reshape(counts, (depth, bins))
        below = cumsum(counts, -1)
        first = reduce_min(where(below > 0, below, float("inf")), -1, keepdims=True)
        rest = below[:, -1:] - first
        is_flat = rest <= 0
        table = rounded(clip((below - first) / where(is_flat, 1.0, rest), 0.0, 1.0) * 255.0) / 255.0
        found = gather(reshape(table, (-1,)), flat)
        kept = where(reshape(is_flat, (depth,)), self._scaled(reshape(y, (-1, depth))), found)
        return self._restored(self._unscaled(reshape(kept, y.shape)))


class RandomColorJitter(ColourLayer):
    """Change brightness, contrast, saturation and hue in this order, each by a random factor.

    >>> import tapegrad
    >>> layer = RandomColorJitter(brightness_factor=(0.2, 0.2))
    >>> layer(tapegrad.constant([[[100.0, 0.0, 0.0]]]), training=True).tolist()
    [[[151.0, 51.0, 51.0]]]
    """

    def __init__(
        self,
        value_range: Any = (0, 255),
        brightness_factor: Any = None,
        contrast_factor: Any = None,
        saturation_factor: Any = None,
        hue_factor: Any = None,
        seed: int | None = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(0.0, value_range, seed, data_format=data_format, **kwargs)
        self.brightness_factor, self.contrast_factor = brightness_factor, contrast_factor
        self.saturation_factor, self.hue_factor = saturation_factor, hue_factor
        kinds = (
            (RandomBrightness, brightness_factor),
            (RandomContrast, contrast_factor),
            (RandomSaturation, saturation_factor),
            (RandomHue, hue_factor),
        )
        options = {"value_range": value_range, "seed": seed, "dtype": self.dtype_policy}
        self._steps: list[Any] = [
            kind(factor, data_format=self.data_format, **options)
            for kind, factor in kinds
            if factor is not None
        ]

    def _draw(self, x: Any) -> Any:
        return [step._draw(x) for step in self._steps]

    def _changed(self, x: Any, drawn: Any) -> Any:
        for step, numbers in zip(self._steps, drawn, strict=True):
            x = step._changed(x, numbers)
        return x
