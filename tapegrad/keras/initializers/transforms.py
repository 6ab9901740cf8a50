"""Initializers of kernels that compute a short-time Fourier transform."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import ShapeError
from tapegrad.keras.initializers.base import DEFAULT_DTYPE, Initializer
from tapegrad.ops.creation import as_shape, constant


class STFT(Initializer):
    """Fill with the real or imaginary parts of the Fourier transform of a windowed frame.

    The shape is (frame length, 1, number of frequencies). `window` is a name of
    `scipy.signal.get_window` or an array. With `scaling` "density" its squares have the sum 1, with
    "spectrum" its absolute values.

    >>> STFT("real", None)((2, 1, 2)).numpy().round(6)[:, 0].tolist()
    [[1.0, 1.0], [1.0, -1.0]]
    """

    def __init__(
        self,
        side: str,
        window: Any = "hann",
        scaling: str | None = "density",
        periodic: bool = False,
    ) -> None:
        super().__init__()
        check_choice("side", side, ("real", "imag"))
        check_choice("scaling", scaling, ("density", "spectrum", None))
        if isinstance(window, str):
            _window(window, 1)  # refuses unknown names
        self.side = side
        self.window = window
        self.scaling = scaling
        self.periodic = periodic

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        sizes = as_shape(shape)
        if len(sizes) != 3:
            raise ShapeError(
                "STFT takes a shape of three numbers: frame length, 1 and frequencies. "
                f"Got {sizes}."
            )
        length, _, bins = sizes
        turns = np.outer(np.arange(length), np.arange(bins)) / max(2 * (bins - 1), 1)
        kernel = np.exp(-2j * np.pi * turns)
        parts = (kernel.real if self.side == "real" else kernel.imag) * self._taper(length)
        wanted = as_dtype(DEFAULT_DTYPE if dtype is None else dtype)
        return constant(np.broadcast_to(parts[:, None], sizes), wanted)

    def _taper(self, length: int) -> Any:
        """Return the window as a column, divided by its scale."""
        if self.window is None:
            return 1.0
        window = self.window
        if isinstance(window, str):
            window = _window(window, length, self.periodic)
        taper = np.asarray(window, np.float64)
        if taper.shape != (length,):
            raise ShapeError(
                f"The window of STFT must have the shape ({length},) of a frame. Got {taper.shape}."
            )
        if self.scaling == "density":
            taper = taper / np.sqrt(np.sum(taper**2))
        elif self.scaling == "spectrum":
            taper = taper / np.sum(np.abs(taper))
        return taper[:, None]


def _window(name: str, length: int, is_periodic: bool = True) -> Any:
    # Imported here because few models have this initializer, and all import this module.
    from tapegrad.scipy.signal.windows import get_window

    return get_window(name, length, is_periodic)
