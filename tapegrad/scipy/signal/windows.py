"""Window functions by name, as constants."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.scipy.vocabulary import as_constant

Host = np.ndarray
Shape = Callable[..., Any]


def _centred(size: int) -> Any:
    """Return the distances from the middle, in samples."""
    return np.arange(size) - 0.5 * (size - 1)


def _share(size: int) -> Any:
    """Return the positions from 0 at the first to 1 at the last sample."""
    return np.arange(size) / max(size - 1, 1)


def _cosines(size: int, weights: Any) -> Any:
    angle = 2 * np.pi * _share(size)
    return np.sum([(-1) ** k * a * np.cos(k * angle) for k, a in enumerate(weights)], axis=0)


def _cosine_sum(*weights: float) -> Shape:
    return lambda size: _cosines(size, weights)


def _tukey(size: int, alpha: float = 0.5) -> Any:
    if alpha <= 0:
        return np.ones(size)
    edge = np.minimum(_share(size), 1 - _share(size))
    return 0.5 * (1 - np.cos(np.pi * np.minimum(2 * edge / min(alpha, 1.0), 1.0)))


def _triangle(size: int) -> Any:
    return 1 - np.abs(2 * _centred(size)) / (size + size % 2)


def _parzen(size: int) -> Any:
    far = np.abs(_centred(size)) / (size / 2)
    inner = 1 - 6 * far**2 + 6 * far**3
    return np.where(np.abs(_centred(size)) <= (size - 1) / 4, inner, 2 * (1 - far) ** 3)


def _bohman(size: int) -> Any:
    far = np.abs(2 * _share(size) - 1)
    values = (1 - far) * np.cos(np.pi * far) + np.sin(np.pi * far) / np.pi
    values[[0, -1]] = 0.0
    return values


def _bartlett_hann(size: int) -> Any:
    far = np.abs(_share(size) - 0.5)
    return 0.62 - 0.48 * far + 0.38 * np.cos(2 * np.pi * far)


def _exponential(size: int, center: float | None = None, tau: float = 1.0) -> Any:
    middle = 0.5 * (size - 1) if center is None else center
    return np.exp(-np.abs(np.arange(size) - middle) / tau)


def _gaussian(size: int, std: float) -> Any:
    return np.exp(-0.5 * (_centred(size) / std) ** 2)


def _general_gaussian(size: int, p: float, sig: float) -> Any:
    return np.exp(-0.5 * np.abs(_centred(size) / sig) ** (2 * p))


def _general_hamming(size: int, alpha: float) -> Any:
    return _cosines(size, (alpha, 1.0 - alpha))


def _general_cosine(size: int, a: Any) -> Any:
    return _cosines(size, np.asarray(a, float))


_SHAPES: dict[str, Shape] = {
    "boxcar": lambda size: np.ones(size),
    "hann": _cosine_sum(0.5, 0.5),
    "hamming": _cosine_sum(0.54, 0.46),
    "blackman": _cosine_sum(0.42, 0.5, 0.08),
    "nuttall": _cosine_sum(0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": _cosine_sum(0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": _cosine_sum(0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
    "barthann": _bartlett_hann,
    "bartlett": np.bartlett,
    "bohman": _bohman,
    "cosine": lambda size: np.sin(np.pi * (np.arange(size) + 0.5) / size),
    "exponential": _exponential,
    "gaussian": _gaussian,
    "general_cosine": _general_cosine,
    "general_gaussian": _general_gaussian,
    "general_hamming": _general_hamming,
    "kaiser": lambda size, beta: np.kaiser(size, float(beta)),
    "lanczos": lambda size: np.sinc(2 * _share(size) - 1),
    "parzen": _parzen,
    "triang": _triangle,
    "tukey": _tukey,
}
"""The values of `size` samples of a symmetric window, and its parameters."""
_OTHER_NAMES = {
    "brthan": "barthann",
    "bth": "barthann",
    "bart": "bartlett",
    "brt": "bartlett",
    "black": "blackman",
    "blk": "blackman",
    "blackharr": "blackmanharris",
    "bkh": "blackmanharris",
    "bman": "bohman",
    "bmn": "bohman",
    "box": "boxcar",
    "ones": "boxcar",
    "rect": "boxcar",
    "rectangular": "boxcar",
    "halfcosine": "cosine",
    "poisson": "exponential",
    "flat": "flattop",
    "flt": "flattop",
    "gauss": "gaussian",
    "gss": "gaussian",
    "ggs": "general_gaussian",
    "general_gauss": "general_gaussian",
    "hamm": "hamming",
    "ham": "hamming",
    "han": "hann",
    "ksr": "kaiser",
    "sinc": "lanczos",
    "nutl": "nuttall",
    "nut": "nuttall",
    "parz": "parzen",
    "par": "parzen",
    "triangle": "triang",
    "tri": "triang",
    "tuk": "tukey",
}


def host_window(window: Any, length: int, periodic: bool = True) -> Host:
    """Return the values of a window given by name, by (name, *parameters), or as an array.

    >>> host_window("hann", 4).round(9).tolist()
    [0.0, 0.5, 1.0, 0.5]
    """
    if not isinstance(window, str | tuple):
        values = np.asarray(window, float)
        if values.shape != (length,):
            raise ShapeError(f"The window needs {length} values. Got shape {values.shape}.")
        return values
    name, *parameters = (window,) if isinstance(window, str) else window
    shape, periodic = _named(name, periodic)
    if shape is None:
        raise ArgumentError(
            f"The window must be one of {', '.join(_SHAPES)}, or an array. Got {window!r}."
        )
    try:
        inspect.signature(shape).bind(length, *parameters)
    except TypeError:
        raise ArgumentError(
            f"The window {name} takes the parameters {_parameters(shape)}. Got {window!r}."
        ) from None
    if length == 1:
        return np.ones(1)
    samples: Host = shape(length + 1 if periodic else length, *parameters)
    return samples[:length]


def _named(name: Any, periodic: bool) -> tuple[Shape | None, bool]:
    """Return a window by its name, which may end by _periodic or _symmetric."""
    text = str(name).replace(" ", "_")
    for ending, is_periodic in (("_periodic", True), ("_symmetric", False)):
        if text.endswith(ending):
            text, periodic = text.removesuffix(ending), is_periodic
    return _SHAPES.get(_OTHER_NAMES.get(text, text)), periodic


def _parameters(shape: Shape) -> str:
    return f"({', '.join(list(inspect.signature(shape).parameters)[1:])})"


def get_window(window: Any, Nx: int, fftbins: bool = True) -> Any:
    """Return a window of length Nx, periodic by default and symmetric with `fftbins=False`.

    `window` is a name such as 'hann', a tuple of a name and parameters such as ('tukey', 0.3), or
    the `beta` of a Kaiser window.

    >>> get_window("hann", 5, fftbins=False).round(9).tolist()
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if int(Nx) != Nx or Nx < 1:
        raise ArgumentError(f"get_window needs a positive integer Nx. Got {Nx!r}.")
    if isinstance(window, float | int):
        window = ("kaiser", window)
    return as_constant(host_window(window, int(Nx), fftbins))
