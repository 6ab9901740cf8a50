"""Window functions by name, as constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.scipy.vocabulary import as_constant

Host = np.ndarray

_COSINES: dict[str, tuple[float, ...]] = {
    "boxcar": (1.0,),
    "hann": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.5, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
}
_WITH_PARAMETERS = ("('kaiser', beta)", "('gaussian', std)", "('general_hamming', alpha)")
_OTHER_NAMES = {"ones": "boxcar", "rect": "boxcar", "hann_periodic": "hann"}


def host_window(window: Any, length: int, periodic: bool = True) -> Host:
    """Return the values of a window given by name, by (name, parameter), or as an array.

    >>> host_window("hann", 4).round(9).tolist()
    [0.0, 0.5, 1.0, 0.5]
    """
    if not isinstance(window, str | tuple):
        values = np.asarray(window, float)
        if values.shape != (length,):
            raise ShapeError(f"The window needs {length} values. Got shape {values.shape}.")
        return values
    name, *rest = (window,) if isinstance(window, str) else window
    if name == "hann_periodic":
        periodic = True
    name = _OTHER_NAMES.get(name, name)
    size = length + 1 if periodic else length
    place = np.arange(size)
    if name in _COSINES:
        angle = 2 * np.pi * place / max(size - 1, 1)
        terms = [(-1) ** k * a * np.cos(k * angle) for k, a in enumerate(_COSINES[name])]
        values = np.sum(terms, axis=0)
    elif name == "cosine":
        values = np.sin(np.pi * (place + 0.5) / size)
    elif name == "bartlett":
        values = np.bartlett(size)
    elif name == "general_hamming" and len(rest) == 1:
        alpha = float(rest[0])
        values = alpha - (1 - alpha) * np.cos(2 * np.pi * place / max(size - 1, 1))
    elif name == "kaiser" and len(rest) == 1:
        values = np.kaiser(size, float(rest[0]))
    elif name == "gaussian" and len(rest) == 1:
        values = np.exp(-0.5 * ((place - 0.5 * (size - 1)) / float(rest[0])) ** 2)
    else:
        known = ", ".join([*_COSINES, "bartlett", "cosine", *_WITH_PARAMETERS])
        raise ArgumentError(f"The window must be one of {known}, or an array. Got {window!r}.")
    return np.ones(1) if length == 1 else values[:length]


def get_window(window: Any, Nx: int, fftbins: bool = True) -> Any:
    """Return a window of length Nx, periodic by default and symmetric with `fftbins=False`.

    >>> get_window("hann", 5, fftbins=False).round(9).tolist()
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if int(Nx) != Nx or Nx < 1:
        raise ArgumentError(f"get_window needs a positive integer Nx. Got {Nx!r}.")
    if isinstance(window, float | int):
        window = ("kaiser", window)
    return as_constant(host_window(window, int(Nx), fftbins))
