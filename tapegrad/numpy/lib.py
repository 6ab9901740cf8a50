"""NumPy's `lib`: the modules with functions of arrays."""

from tapegrad.numpy import emath as scimath, stride_tricks

__all__ = ["scimath", "stride_tricks"]
