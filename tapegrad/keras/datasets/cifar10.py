"""CIFAR-10: 60,000 colour images of ten classes, 32 x 32 pixels in uint8."""

from __future__ import annotations

import tarfile

import numpy as np

from tapegrad.keras.datasets.files import Split, pictures
from tapegrad.keras.utils.get_file import get_file

_ORIGIN = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
_HASH = "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"


def load_data() -> Split:
    """Return 50,000 training images with labels, and 10,000 test images with labels."""
    names = [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]
    with tarfile.open(get_file(origin=_ORIGIN, file_hash=_HASH)) as archive:
        files = [archive.extractfile(f"cifar-10-batches-py/{name}") for name in names]
        *parts, test = [pictures(file, "labels") for file in files]
    x, y = (np.concatenate(column) for column in zip(*parts))
    return (x, y.astype(np.uint8)), (test[0], test[1])
