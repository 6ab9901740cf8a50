"""The line of the user's program that led to a call."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

_OWN = frozenset({"tapegrad", "tapegrad_numpy", "tapegrad_cupy"})
_INSIDE = _OWN | {"keras_tapegrad", "contextlib"}
"""Packages that a warning never names: contextlib runs the generators of `with` blocks."""
_ARRAY_LIBRARIES = {"cupy", "jax", "matplotlib", "numba", "numpy", "pandas", "scipy", "seaborn"}
_ARRAY_LIBRARIES |= {"sklearn", "torch", "tqdm", "xarray"}
"""Libraries that convert what they are given; the user's line is the one that calls them."""
LIBRARIES = frozenset({*_OWN, *sys.stdlib_module_names, *_ARRAY_LIBRARIES})
"""Packages whose code is not the user's."""
_MOST = 10_000
_packages: dict[object, str] = {}


def user_call() -> tuple[FrameType, FrameType]:
    """Return the innermost frame of the user's program, and the frame that it has called.

    This is the innermost frame that is neither in tapegrad nor in a library below it. If there is
    none, it is the innermost frame outside tapegrad.
    """
    called = sys._getframe(1)
    frame = called.f_back
    outside: tuple[FrameType, FrameType] | None = None
    first, packages, own = called, _packages, _OWN  # this runs for every frame of a recorded call
    while frame is not None:
        module = frame.f_globals.get("__name__")
        package = packages.get(module) or _package_of(module)
        if package not in own:
            if package not in LIBRARIES:
                return frame, called
            if outside is None:
                outside = frame, called
        called, frame = frame, frame.f_back
    return outside or (first, first)


def _package_of(module: object) -> str:
    """Return the top-level package of a module, and remember it."""
    package = str(module).partition(".")[0]
    if isinstance(module, str) and len(_packages) < _MOST:
        _packages[module] = package
    return package


def is_of_user(frame: FrameType) -> bool:
    """Return whether a frame runs code that is neither in tapegrad nor in a library below it."""
    return _package_of(frame.f_globals.get("__name__")) not in LIBRARIES


def module_of(frame: FrameType) -> str:
    """Return the name of the module whose code a frame runs."""
    return str(frame.f_globals.get("__name__"))


def call_site() -> str:
    """Return the file and line of the user's program that led to this call."""
    return place_of(user_call()[0])


def place_of(frame: FrameType) -> str:
    """Return the file and line that a frame runs."""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def warn_outside(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and name the line outside of tapegrad that led to this call."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _package_of(frame.f_globals.get("__name__")) in _INSIDE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
