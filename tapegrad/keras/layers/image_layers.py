"""Image layers: random flip, contrast, brightness and crop; resizing; their base classes."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from numbers import Real
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.values.device import device
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.layers.regularization import RandomLayer
from tapegrad.keras.layers.spatial_arguments import channels_format, positive
from tapegrad.ops.casting.cast import cast, in_dtype
from tapegrad.ops.creation import arange, numpy_dtype_of
from tapegrad.ops.elementwise.rounding import round as rounded
from tapegrad.ops.elementwise.selection import clip, where
from tapegrad.ops.image.interpolation import kernel_names, resized
from tapegrad.ops.indexing.gather import gather
from tapegrad.ops.random.primitives import draw_mask
from tapegrad.ops.reduction.functions import reduce_mean
from tapegrad.ops.shape.functions import moveaxis
from tapegrad.ops.shape.padding import pad
from tapegrad.ops.shape.rearranging import flip

# Axes of an image: 0 is its height, 1 its width.
_MODES = {"horizontal": (1,), "vertical": (0,), "horizontal_and_vertical": (1, 0)}


class ImageLayer(RandomLayer):
    """Base class of layers that take an image or a batch of images."""

    takes_lists_as_batches = True
    supports_masking = False

    def __init__(
        self, data_format: str | None = None, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(seed, **kwargs)
        self.data_format = channels_format(self, data_format)

    def _axes(self, shape: Any) -> tuple[int, int]:
        """Return the axes of height and width."""
        rank = len(shape)
        if rank not in (3, 4):
            raise ShapeError(
                f"{self._title} takes an image of 3 dimensions, or a batch of them. Got shape "
                f"{tuple(shape)}."
            )
        down = rank - 2 if self.data_format == "channels_first" else rank - 3
        return down, down + 1

    def _last(self, x: Any) -> Any:
        """Return images with their channels last."""
        return moveaxis(x, -3, -1) if self.data_format == "channels_first" else x

    def _restored(self, x: Any) -> Any:
        """Return images that have their channels last in the layout of this layer."""
        return moveaxis(x, -1, -3) if self.data_format == "channels_first" else x

    def compute_output_shape(self, input_shape: Any) -> Any:
        if isinstance(input_shape, Mapping):
            return {key: tuple(shape) for key, shape in input_shape.items()}
        self._axes(input_shape)
        return tuple(input_shape)


class RandomImageLayer(ImageLayer):
    """Base class of layers that change each image by its own random numbers, in training only.

    The input is an image, a batch of images, or a dict with `images`, whose `labels` and
    `segmentation_masks` change with the images.
    """

    least_factor = -1
    is_strict = False  # if False, the upper factor may be above 1, as in Keras
    is_symmetric = True  # whether one factor f means (-f, f), not (0, f)
    moves_pixels = True  # whether bounding boxes change, too

    def call(self, inputs: Any, training: Any = True) -> Any:
        is_dict = isinstance(inputs, Mapping)
        images = inputs["images"] if is_dict else inputs
        self._axes(images.shape)
        x = in_dtype(images, self.compute_dtype)
        drawn = self._draw(x) if training else None
        y = in_dtype(self._changed(x, drawn), self.compute_dtype) if training else x
        if not is_dict:
            return y
        return {**inputs, "images": y, **(self._other_parts(inputs, drawn) if training else {})}

    def _draw(self, x: Any) -> Any:
        """Return the random numbers for images."""
        raise NotImplementedError

    def _changed(self, x: Any, drawn: Any) -> Any:
        """Return images changed by the random numbers."""
        raise NotImplementedError

    def _changed_labels(self, labels: Any, drawn: Any) -> Any:
        return labels

    def _changed_masks(self, masks: Any, drawn: Any) -> Any:
        if not self.moves_pixels:
            return masks
        raise ArgumentError(f"{self._title} does not change segmentation_masks. Leave them out.")

    def _other_parts(self, inputs: Mapping[str, Any], drawn: Any) -> dict[str, Any]:
        """Return what belongs to the images, changed by the same random numbers."""
        if "bounding_boxes" in inputs and self.moves_pixels:
            raise ArgumentError(
                f"{self._title} does not move bounding_boxes. Change them in a function of your "
                "own, or use real Keras (KERAS_BACKEND=tapegrad)."
            )
        changes = {"labels": self._changed_labels, "segmentation_masks": self._changed_masks}
        return {key: run(inputs[key], drawn) for key, run in changes.items() if key in inputs}

    def _bounds(self, factor: Any) -> tuple[float, float]:
        """Return the range to draw from: the two factors, or (-factor, factor) for one factor."""
        is_one, least = isinstance(factor, Real), self.least_factor
        low, high = _in_order((factor, factor) if is_one else factor)
        if least <= low <= 1 and (high <= 1 or not self.is_strict):
            bound = abs(low)
            return (-bound if self.is_symmetric else 0.0, bound) if is_one else (low, high)
        raise ArgumentError(
            f"{type(self).__name__} takes a factor from {least} to 1, or a pair (lower, upper). "
            f"Got {factor!r}."
        )

    def _drawn(self, x: Any, *bounds: tuple[float, float]) -> list[Any]:
        """Draw a number from each range for each image, in shapes that broadcast to the images."""
        shape = (len(bounds), *x.shape[:-3], 1, 1, 1)
        # Half precision is too coarse for image coordinates.
        dtype = "float64" if self.compute_dtype == "float64" else "float32"
        with device(x.device):
            numbers = self.seed_generator.uniform(shape, dtype=dtype)
        return [numbers[k] * (high - low) + low for k, (low, high) in enumerate(bounds)]

    def _chosen(self, x: Any, bounds: tuple[float, float]) -> Any:
        """Choose images, each with a probability that is drawn from a range."""
        probability, number = self._drawn(x, bounds, (0.0, 1.0))
        return number < probability


class RandomFlip(RandomImageLayer):
    """Flip each image with probability 1/2, along one axis or along both independently.

    >>> import tapegrad
    >>> x = tapegrad.reshape(tapegrad.range(4.0), (1, 2, 2, 1))
    >>> RandomFlip("horizontal", seed=3)(x, training=False).numpy().ravel().tolist()
    [0.0, 1.0, 2.0, 3.0]
    """

    def __init__(
        self,
        mode: str = "horizontal_and_vertical",
        seed: int | None = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data_format, seed, **kwargs)
        check_choice("mode", mode, _MODES)
        self.mode = mode

    def _draw(self, x: Any) -> Any:
        shape = (*x.shape[:-3], 1, 1, 1)
        with device(x.device):
            return [draw_mask(self.seed_generator, shape, 0.5) for _ in _MODES[self.mode]]

    def _changed(self, x: Any, drawn: Any) -> Any:
        for place, is_kept in zip(_MODES[self.mode], drawn, strict=True):
            x = where(is_kept, x, flip(x, self._axes(x.shape)[place]))
        return x

    def _changed_masks(self, masks: Any, drawn: Any) -> Any:
        return self._changed(masks, drawn)


class ColourLayer(RandomImageLayer):
    """Base class of layers that take the range of the pixel values."""

    moves_pixels = False

    def __init__(
        self, factor: Any, value_range: Any = (0, 255), seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(seed=seed, **kwargs)
        self.factor = self._bounds(factor)
        self._set_range(value_range)

    def _set_range(self, value_range: Any) -> None:
        self.value_range = low, high = _in_order(value_range)
        if not low <= high:
            raise ArgumentError(
                f"{type(self).__name__} takes a value_range of two numbers. Got {value_range!r}."
            )


class RandomContrast(ColourLayer):
    """Scale the deviation of each channel from its mean by a random number.

    The number lies between `1 - lower` and `1 + upper`; a single factor is used for both.

    >>> import tapegrad
    >>> x = tapegrad.constant([[[100.0], [120.0]]])
    >>> RandomContrast(0.5)(x, training=False).numpy().ravel().tolist()
    [100.0, 120.0]
    """

    least_factor = 0

    def _draw(self, x: Any) -> Any:
        lower, upper = self.factor
        return self._drawn(x, (1 - abs(lower), 1 + upper))[0]

    def _changed(self, x: Any, drawn: Any) -> Any:
        mean = reduce_mean(x, self._axes(x.shape), keepdims=True)
        return clip((x - mean) * drawn + mean, *self.value_range)


class RandomBrightness(ColourLayer):
    """Add a random fraction of the value range to each image.

    >>> import tapegrad
    >>> x = tapegrad.constant([[[100.0], [250.0]]])
    >>> RandomBrightness((0.2, 0.2))(x, training=True).numpy().ravel().tolist()
    [151.0, 255.0]
    """

    def _draw(self, x: Any) -> Any:
        return self._drawn(x, self.factor)[0]

    def _changed(self, x: Any, drawn: Any) -> Any:
        low, high = self.value_range
        return clip(x + drawn * (high - low), low, high)


class _Sized(ImageLayer):
    """Base class of layers whose output images have a fixed size."""

    def __init__(
        self, height: int, width: int, data_format: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(data_format, **kwargs)
        self.height = positive(self, height, "a height")
        self.width = positive(self, width, "a width")

    def compute_output_shape(self, input_shape: Any) -> Any:
        sizes, (down, across) = list(input_shape), self._axes(input_shape)
        sizes[down], sizes[across] = self.height, self.width
        return tuple(sizes)

    def _size(self, x: Any) -> list[int]:
        return [x.shape[axis] for axis in self._axes(x.shape)]

    def _is_large_enough(self, x: Any) -> bool:
        height, width = self._size(x)
        return height >= self.height and width >= self.width

    def _centre_crop(self, x: Any, height: int, width: int) -> Any:
        """Crop the centre of images."""
        index = [slice(None)] * len(x.shape)
        for axis, size in zip(self._axes(x.shape), (height, width)):
            start = (x.shape[axis] - size) // 2
            index[axis] = slice(start, start + size)
        return x[tuple(index)]

    def _in_proportion(self, x: Any) -> list[int]:
        """Return the height that matches the width of images, and the width for their height."""
        height, width = self._size(x)
        return [int(width * self.height / self.width), int(height * self.width / self.height)]

    def _crop(self, x: Any) -> Any:
        """Crop the largest centred part with the target aspect ratio."""
        sizes = zip(self._size(x), self._in_proportion(x))
        return self._centre_crop(x, *[max(1, min(pair)) for pair in sizes])

    def _resized(self, x: Any, kernel: str = "bilinear", antialias: bool = False) -> Any:
        for axis, size in zip(self._axes(x.shape), (self.height, self.width)):
            x = resized(x, axis, size, kernel, antialias)
        return x


class Resizing(_Sized):
    """Resize images by interpolation between pixel centres.

    To keep the aspect ratio, images are cropped or padded first. Integer images are rounded and
    keep their dtype.

    >>> import tapegrad
    >>> x = tapegrad.reshape(tapegrad.range(4.0), (1, 4, 1))
    >>> Resizing(1, 2)(x).numpy().ravel().tolist()
    [0.5, 2.5]
    """

    def __init__(
        self,
        height: int,
        width: int,
        interpolation: str = "bilinear",
        crop_to_aspect_ratio: bool = False,
        pad_to_aspect_ratio: bool = False,
        fill_mode: str = "constant",
        fill_value: float = 0.0,
        antialias: bool = False,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(height, width, data_format, **kwargs)
        check_choice("interpolation", interpolation, ("nearest", *kernel_names()))
        check_choice("fill_mode", fill_mode, ("constant",))
        if crop_to_aspect_ratio and pad_to_aspect_ratio:
            raise ArgumentError(
                "Resizing takes crop_to_aspect_ratio or pad_to_aspect_ratio. Got both as True."
            )
        self.interpolation, self.antialias = interpolation, bool(antialias)
        self.crop_to_aspect_ratio = crop_to_aspect_ratio
        self.pad_to_aspect_ratio = pad_to_aspect_ratio
        self.fill_mode, self.fill_value = fill_mode, fill_value

    def call(self, inputs: Any) -> Any:
        x, kind = inputs, inputs.dtype
        is_between = kind.is_integer and self.interpolation != "nearest"
        if is_between or not kind.is_integer:
            x = in_dtype(x, "float32" if is_between else self.compute_dtype)
        if self.crop_to_aspect_ratio:
            x = self._crop(x)
        elif self.pad_to_aspect_ratio:
            x = self._padded(x)
        x = self._resized(x, self.interpolation, self.antialias)
        if not is_between:
            return x
        limits = np.iinfo(numpy_dtype_of(inputs))
        return cast(clip(rounded(x), limits.min, limits.max), kind)

    def _padded(self, x: Any) -> Any:
        """Pad both sides of images to the target aspect ratio."""
        pairs = [(0, 0)] * len(x.shape)
        for axis, size in zip(self._axes(x.shape), self._in_proportion(x)):
            pairs[axis] = (max(0, size - x.shape[axis]) // 2,) * 2
        return pad(x, pairs, constant_values=self.fill_value)


class CenterCrop(_Sized):
    """Crop the centre of images. Images that are too small are cropped and resized.

    >>> import tapegrad
    >>> CenterCrop(1, 2)(tapegrad.reshape(tapegrad.range(12.0), (3, 4, 1))).tolist()
    [[[5.0], [6.0]]]
    """

    def call(self, inputs: Any) -> Any:
        x = in_dtype(inputs, self.compute_dtype)
        if self._is_large_enough(x):
            return self._centre_crop(x, self.height, self.width)
        return self._resized(self._crop(x))


class RandomCrop(_Sized):
    """Crop images at a random position, which is the same for the whole batch.

    Outside training, or if images are too small, the largest centred part with the target aspect
    ratio is resized.

    >>> import tapegrad
    >>> RandomCrop(2, 3)(tapegrad.ones([5, 8, 8, 1]), training=True).shape
    (5, 2, 3, 1)
    """

    def __init__(
        self,
        height: int,
        width: int,
        seed: int | None = None,
        data_format: str | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(height, width, data_format, seed=seed, name=name, **kwargs)

    def call(self, inputs: Any, training: Any = True) -> Any:
        x = in_dtype(inputs, self.compute_dtype)
        if not training or not self._is_large_enough(x):
            return self._resized(self._crop(x))
        for axis, size in zip(self._axes(x.shape), (self.height, self.width)):
            with device(x.device):
                start = self.seed_generator.integers((), 0, x.shape[axis] - size + 1)
                places = start + arange(0, size, dtype="int64")
            x = gather(x, places, axis=axis)
        return x


def _in_order(value: Any) -> tuple[float, float]:
    """Return two numbers, the lower one first, or two NaN if the value is not two numbers."""
    try:
        low, high = sorted(map(float, value))
    except (TypeError, ValueError):
        return nan, nan
    return low, high
