"""MNIST: 70,000 grey images of handwritten digits, 28 x 28 pixels in uint8."""

from __future__ import annotations

from tapegrad.keras.datasets.files import Split, arrays_of

_HASH = "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"


def load_data(path: str = "mnist.npz") -> Split:
    """Return 60,000 training images with labels, and 10,000 test images with labels."""
    found = arrays_of(path, "mnist", _HASH)
    return (found["x_train"], found["y_train"]), (found["x_test"], found["y_test"])
