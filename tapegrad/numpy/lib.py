"""NumPy's `lib`, as far as it holds functions of arrays."""

from tapegrad.numpy import emath as scimath, stride_tricks

__all__ = ["scimath", "stride_tricks"]
