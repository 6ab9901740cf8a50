"""The batches of an ImageDataGenerator: images from arrays or files, in random order."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError
from tapegrad.keras.batch_data import PyDataset
from tapegrad.keras.utils.images import img_to_array, load_img


class ArrayImages:
    """Images in an array, with their targets and weights."""

    class_indices: dict[str, int]

    def __init__(self, images: np.ndarray, y: Any, weights: Any) -> None:
        self._images, self._y, self._weights = images, y, weights
        self.class_indices = {}
        self.shape = images.shape[1:]

    def __len__(self) -> int:
        return len(self._images)

    def image(self, index: int) -> np.ndarray:
        found: np.ndarray = self._images[index]
        return found

    def batch(self, images: np.ndarray, places: np.ndarray) -> Any:
        """Return the images with what belongs to them."""
        others = [one[places] for one in (self._y, self._weights) if one is not None]
        return (images, *others) if others else images


class FileImages:
    """Images in files, with the labels of their classes."""

    def __init__(
        self,
        paths: list[str],
        labels: Any,
        class_indices: dict[str, int],
        class_mode: str | None,
        reading: tuple[Any, str, str, bool],
        directory: Any,
    ) -> None:
        self.paths, self.labels, self.class_mode = paths, labels, class_mode
        self.class_indices, self.directory = class_indices, directory
        self._size, self._color_mode, self._interpolation, self._keeps_ratio = reading
        channels = {"grayscale": 1, "rgba": 4}.get(self._color_mode, 3)
        self.shape = (*self._size, channels)

    def __len__(self) -> int:
        return len(self.paths)

    def image(self, index: int) -> np.ndarray:
        image = load_img(
            self.paths[index], self._color_mode, self._size, self._interpolation, self._keeps_ratio
        )
        found: np.ndarray = img_to_array(image)
        return found

    def batch(self, images: np.ndarray, places: np.ndarray) -> Any:
        """Return the images with their labels in the form of the class mode."""
        if self.class_mode is None:
            return images
        if self.class_mode == "input":
            return images, images.copy()
        labels = self.labels[places]
        if self.class_mode == "categorical":
            return images, np.eye(len(self.class_indices), dtype="float32")[labels]
        return images, labels.astype("float32" if self.class_mode == "binary" else labels.dtype)


class ImageBatches(PyDataset):
    """Batches of images; `next` and `for` go on for ever, and `fit` takes one pass per epoch.

    >>> from tapegrad.keras.preprocessing.image_generator import ImageDataGenerator
    >>> batches = ImageDataGenerator().flow(np.zeros((5, 2, 2, 1)), batch_size=2)
    >>> len(batches), [len(next(batches)) for _ in range(4)]
    (3, [2, 2, 1, 2])
    """

    repeats = True

    def __init__(
        self, generator: Any, source: Any, batch_size: int, shuffle: bool, seed: int | None
    ) -> None:
        super().__init__()
        if not len(source):
            raise ArgumentError("There are no images to make batches of.")
        self.image_data_generator, self._source = generator, source
        self.batch_size, self.shuffle, self.seed = batch_size, shuffle, seed
        self.n = self.samples = len(source)
        self.image_shape, self.class_indices = source.shape, source.class_indices
        self.num_classes = len(source.class_indices)
        self._rng = np.random.default_rng(seed)
        self._next = 0
        self.index_array = np.arange(self.n)
        self.on_epoch_end()

    def on_epoch_end(self) -> None:
        """Choose a new order if the images are shuffled."""
        self.index_array = self._rng.permutation(self.n) if self.shuffle else np.arange(self.n)

    def reset(self) -> None:
        """Start again at the first batch."""
        self._next = 0

    def __len__(self) -> int:
        return (self.n + self.batch_size - 1) // self.batch_size

    def __getitem__(self, index: int) -> Any:
        places = self.index_array[index * self.batch_size : (index + 1) * self.batch_size]
        images = np.stack([self._changed(self._source.image(k)) for k in places])
        return self._source.batch(images, places)

    def _changed(self, image: np.ndarray) -> np.ndarray:
        maker = self.image_data_generator
        moved = maker.apply_transform(image, maker.drawn(image.shape, self._rng))
        found: np.ndarray = maker.standardize(moved)
        return found

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        batch = self[self._next]
        self._next += 1
        if self._next == len(self):
            self.reset()
            self.on_epoch_end()
        return batch

    next = __next__

    # Files

    @property
    def filepaths(self) -> list[str]:
        """The paths of the files."""
        return list(self._source.paths)

    @property
    def filenames(self) -> list[str]:
        """The paths of the files, relative to the directory."""
        return [os.path.relpath(path, self._source.directory or ".") for path in self.filepaths]

    @property
    def classes(self) -> Sequence[int]:
        """The label of each image."""
        found: Sequence[int] = self._source.labels
        return found

    @property
    def labels(self) -> Sequence[int]:
        return self.classes
