"""CIFAR-100: 60,000 colour images of a hundred classes, 32 x 32 pixels in uint8."""

from __future__ import annotations

import tarfile

from tapegrad.core.argument_checks import check_choice
from tapegrad.keras.datasets.files import Split, pictures
from tapegrad.keras.utils.get_file import get_file

_ORIGIN = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
_HASH = "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7"


def load_data(label_mode: str = "fine") -> Split:
    """Return training and test images with labels; "coarse" labels are the 20 superclasses."""
    check_choice("label_mode", label_mode, ("fine", "coarse"))
    with tarfile.open(get_file(origin=_ORIGIN, file_hash=_HASH)) as archive:
        files = [archive.extractfile(f"cifar-100-python/{name}") for name in ("train", "test")]
        train, test = [pictures(file, f"{label_mode}_labels") for file in files]
    return train, test
