"""Fashion-MNIST: 70,000 grey images of clothes, 28 x 28 pixels in uint8."""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np

from tapegrad.keras.datasets.files import ORIGIN, Split
from tapegrad.keras.utils.get_file import get_file


def load_data() -> Split:
    """Return 60,000 training images with labels, and 10,000 test images with labels."""
    parts = [(_read(f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28),
              _read(f"{part}-labels-idx1-ubyte.gz", 8)) for part in ("train", "t10k")]  # fmt: skip
    return parts[0], parts[1]


def _read(name: str, start: int) -> Any:
    path = get_file(name, ORIGIN + name, cache_subdir="datasets/fashion-mnist")
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=start)
