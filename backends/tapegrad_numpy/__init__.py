"""The reference backend: primitives on NumPy arrays, on the CPU."""

from tapegrad_numpy.backend import load

__all__ = ["load"]
