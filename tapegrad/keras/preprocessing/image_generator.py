"""ImageDataGenerator: batches of images with random changes, from before Keras' image layers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.errors import ArgumentError
from tapegrad.keras.layers.spatial_arguments import is_whole
from tapegrad.keras.ops.image_functions import affine_transform
from tapegrad.keras.preprocessing.image_batches import ArrayImages, FileImages, ImageBatches
from tapegrad.keras.utils.directory_index import indexed

_FORMATS = (".bmp", ".gif", ".jpeg", ".jpg", ".png")
_CLASS_MODES = ("binary", "categorical", "input", "sparse", None)
_FILL_MODES = ("constant", "nearest", "reflect", "wrap")


class ImageDataGenerator:
    """Yield batches of images, each changed by random numbers within the given ranges.

    The layers `RandomRotation`, `RandomZoom` and others do the same inside a model, on any device.

    >>> images = np.arange(2 * 4 * 4 * 1.0).reshape(2, 4, 4, 1)
    >>> batches = ImageDataGenerator(rescale=1 / 31, horizontal_flip=True).flow(images, seed=0)
    >>> next(batches).shape
    (2, 4, 4, 1)
    """

    def __init__(
        self,
        featurewise_center: bool = False,
        samplewise_center: bool = False,
        featurewise_std_normalization: bool = False,
        samplewise_std_normalization: bool = False,
        zca_whitening: bool = False,
        zca_epsilon: float = 1e-6,
        rotation_range: float = 0,
        width_shift_range: Any = 0.0,
        height_shift_range: Any = 0.0,
        brightness_range: Any = None,
        shear_range: float = 0.0,
        zoom_range: Any = 0.0,
        channel_shift_range: float = 0.0,
        fill_mode: str = "nearest",
        cval: float = 0.0,
        horizontal_flip: bool = False,
        vertical_flip: bool = False,
        rescale: float | None = None,
        preprocessing_function: Callable[[Any], Any] | None = None,
        data_format: str | None = None,
        validation_split: float = 0.0,
        interpolation_order: int = 1,
        dtype: Any = None,
    ) -> None:
        check_choice("fill_mode", fill_mode, _FILL_MODES)
        if data_format == "channels_first" or zca_whitening:
            raise ArgumentError(
                "ImageDataGenerator takes images with the channels last, without zca_whitening."
            )
        if not 0 <= validation_split < 1:
            raise ArgumentError(f"validation_split must be in [0, 1). Got {validation_split!r}.")
        self.featurewise_center, self.samplewise_center = featurewise_center, samplewise_center
        self.featurewise_std_normalization = featurewise_std_normalization
        self.samplewise_std_normalization = samplewise_std_normalization
        self.rotation_range, self.shear_range = rotation_range, shear_range
        self.width_shift_range, self.height_shift_range = width_shift_range, height_shift_range
        self.brightness_range, self.channel_shift_range = brightness_range, channel_shift_range
        self.zoom_range = zoom_range if np.ndim(zoom_range) else (1 - zoom_range, 1 + zoom_range)
        self.fill_mode, self.cval = fill_mode, cval
        self.horizontal_flip, self.vertical_flip = horizontal_flip, vertical_flip
        self.rescale, self.preprocessing_function = rescale, preprocessing_function
        self.validation_split = validation_split
        self.interpolation_order = interpolation_order
        self.dtype = np.dtype(dtype or "float32")
        self.mean: Any = None
        self.std: Any = None

    # Batches

    def flow(
        self,
        x: Any,
        y: Any = None,
        batch_size: int = 32,
        shuffle: bool = True,
        sample_weight: Any = None,
        seed: int | None = None,
        save_to_dir: Any = None,
        save_prefix: str = "",
        save_format: str = "png",
        ignore_class_split: bool = False,
        subset: str | None = None,
    ) -> ImageBatches:
        """Return batches of an array of images, with their targets and weights if given."""
        images = np.asarray(x)
        if images.ndim != 4:
            raise ArgumentError(
                f"flow takes images of shape (count, height, width, channels). Got {images.shape}."
            )
        chosen = self._part(len(images), subset)
        others = [None if one is None else np.asarray(one)[chosen] for one in (y, sample_weight)]
        source = ArrayImages(images[chosen], others[0], others[1])
        return ImageBatches(self, source, batch_size, shuffle, seed)

    def flow_from_directory(
        self,
        directory: Any,
        target_size: Sequence[int] = (256, 256),
        color_mode: str = "rgb",
        classes: Sequence[str] | None = None,
        class_mode: str | None = "categorical",
        batch_size: int = 32,
        shuffle: bool = True,
        seed: int | None = None,
        save_to_dir: Any = None,
        save_prefix: str = "",
        save_format: str = "png",
        follow_links: bool = False,
        subset: str | None = None,
        interpolation: str = "nearest",
        keep_aspect_ratio: bool = False,
    ) -> ImageBatches:
        """Return batches of the image files in the subdirectories of a directory, one per class."""
        check_choice("class_mode", class_mode, _CLASS_MODES)
        files = indexed(directory, "inferred", _FORMATS, classes, follow_links)
        labels = np.asarray(files.labels)
        kept = [np.flatnonzero(labels == k) for k in range(len(files.class_names))]
        chosen = np.concatenate([np.zeros(0, int), *[one[self._part(len(one), subset)]
                                                     for one in kept]])  # fmt: skip
        names = {name: k for k, name in enumerate(files.class_names)}
        source = FileImages(
            [files.paths[k] for k in chosen], labels[chosen], names, class_mode,
            (tuple(target_size), color_mode, interpolation, keep_aspect_ratio), directory,
        )  # fmt: skip
        return ImageBatches(self, source, batch_size, shuffle, seed)

    def flow_from_dataframe(
        self,
        dataframe: Any,
        directory: Any = None,
        x_col: str = "filename",
        y_col: Any = "class",
        weight_col: str | None = None,
        target_size: Sequence[int] = (256, 256),
        color_mode: str = "rgb",
        classes: Sequence[str] | None = None,
        class_mode: str | None = "categorical",
        batch_size: int = 32,
        shuffle: bool = True,
        seed: int | None = None,
        subset: str | None = None,
        interpolation: str = "nearest",
        **unused: Any,
    ) -> ImageBatches:
        """Return batches of the image files that a column of a table names."""
        chosen = self._part(len(dataframe), subset)
        folder = "" if directory is None else os.fspath(directory)
        paths = [os.path.join(folder, str(dataframe[x_col].iloc[k])) for k in chosen]
        labels, names, mode = None, {}, class_mode
        if class_mode in ("raw", "multi_output", "other"):
            labels, mode = dataframe[y_col].to_numpy()[chosen], "sparse"
        elif class_mode not in (None, "input"):
            words = dataframe[y_col].to_numpy()[chosen].tolist()
            names = {name: k for k, name in enumerate(classes or sorted(set(words)))}
            labels = np.array([names[word] for word in words])
        size = (tuple(target_size), color_mode, interpolation, False)
        source = FileImages(paths, labels, names, mode, size, folder)
        return ImageBatches(self, source, batch_size, shuffle, seed)

    def _part(self, count: int, subset: str | None) -> np.ndarray:
        check_choice("subset", subset, ("training", "validation", None))
        border = int(count * self.validation_split)
        every = np.arange(count)
        if subset is None:
            return every
        return every[:border] if subset == "validation" else every[border:]

    # Images

    def fit(self, x: Any, augment: bool = False, rounds: int = 1, seed: int | None = None) -> None:
        """Compute the mean and the standard deviation that `featurewise_...` need."""
        images = np.asarray(x, self.dtype)
        self.mean = images.mean(axis=(0, 1, 2)) if self.featurewise_center else None
        centred = images - (0 if self.mean is None else self.mean)
        if self.featurewise_std_normalization:
            self.std = centred.std(axis=(0, 1, 2))

    def standardize(self, x: Any) -> np.ndarray:
        """Return an image after the preprocessing function, scaled and centred."""
        image = np.array(x, self.dtype)
        if self.preprocessing_function is not None:
            image = np.asarray(self.preprocessing_function(image), self.dtype)
        if self.rescale is not None:
            image = image * self.dtype.type(self.rescale)
        if self.samplewise_center:
            image = image - image.mean()
        if self.samplewise_std_normalization:
            image = image / (image.std() + 1e-6)
        if self.mean is not None:
            image = image - self.mean
        if self.std is not None:
            image = image / (self.std + 1e-6)
        return image.astype(self.dtype, copy=False)

    def get_random_transform(
        self, img_shape: Sequence[int], seed: int | None = None
    ) -> dict[str, Any]:
        """Return random parameters for `apply_transform`."""
        return self.drawn(img_shape, np.random.default_rng(seed))

    def drawn(self, shape: Sequence[int], rng: np.random.Generator) -> dict[str, Any]:
        """Return random parameters for `apply_transform`, drawn from a generator."""
        low, high = self.zoom_range
        zoom = rng.uniform(low, high, 2) if low != high else np.array([low, high])
        bright = self.brightness_range
        return {
            "theta": rng.uniform(-1, 1) * self.rotation_range,
            "tx": _shift(self.height_shift_range, shape[0], rng),
            "ty": _shift(self.width_shift_range, shape[1], rng),
            "shear": rng.uniform(-1, 1) * self.shear_range,
            "zx": float(zoom[0]),
            "zy": float(zoom[1]),
            "flip_horizontal": self.horizontal_flip and bool(rng.random() < 0.5),
            "flip_vertical": self.vertical_flip and bool(rng.random() < 0.5),
            "channel_shift_intensity": rng.uniform(-1, 1) * self.channel_shift_range,
            "brightness": None if bright is None else rng.uniform(bright[0], bright[1]),
        }

    def apply_transform(self, x: Any, transform_parameters: dict[str, Any]) -> np.ndarray:
        """Return an image moved by parameters as `get_random_transform` returns them."""
        image, given = np.asarray(x, self.dtype), transform_parameters
        matrix = _matrix(given, image.shape)
        if not np.allclose(matrix, np.eye(3)):
            # The matrix is for (row, column); the function takes (x, y), the columns first.
            (a, b, c), (d, e, f) = matrix[0], matrix[1]
            image = affine_transform(
                image[None],
                [[e, d, f, b, a, c, 0.0, 0.0]],
                "bilinear" if self.interpolation_order else "nearest",
                self.fill_mode,
                self.cval,
                "channels_last",
            ).numpy()[0]
        shift = given.get("channel_shift_intensity")
        if shift:
            image = np.clip(image + shift, image.min(), image.max())
        if given.get("flip_horizontal"):
            image = image[:, ::-1]
        if given.get("flip_vertical"):
            image = image[::-1]
        if given.get("brightness") is not None:
            image = np.clip(image * given["brightness"], 0, 255)
        return image.astype(self.dtype, copy=False)

    def random_transform(self, x: Any, seed: int | None = None) -> np.ndarray:
        """Return an image with random changes."""
        return self.apply_transform(x, self.get_random_transform(np.shape(x), seed))


def _shift(given: Any, length: int, rng: np.random.Generator) -> float:
    if np.ndim(given):
        return float(rng.choice(given) * rng.choice([-1, 1]))
    if is_whole(given):
        return float(rng.integers(-given + 1, given)) if given > 1 else 0.0
    return float(rng.uniform(-1, 1) * given * (length if given < 1 else 1))


def _matrix(given: dict[str, Any], shape: Sequence[int]) -> np.ndarray:
    """Return the matrix from (row, column, 1) of the result to the place that is read."""
    angle = np.deg2rad(given.get("theta", 0.0))
    shear = np.deg2rad(given.get("shear", 0.0))
    cos, sin = np.cos(angle), np.sin(angle)
    turn = np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])
    move = np.array([[1, 0, given.get("tx", 0.0)], [0, 1, given.get("ty", 0.0)], [0, 0, 1]])
    slant = np.array([[1, -np.sin(shear), 0], [0, np.cos(shear), 0], [0, 0, 1]])
    zoom = np.diag([given.get("zx", 1.0), given.get("zy", 1.0), 1.0])
    centre = np.array([[1, 0, (shape[0] - 1) / 2], [0, 1, (shape[1] - 1) / 2], [0, 0, 1]])
    found: np.ndarray = centre @ turn @ move @ slant @ zoom @ np.linalg.inv(centre)
    return found
