"""`ArrayBox`, for scripts that ask whether a value is a traced array."""

from tapegrad.compat.autograd.tracer import Box

__all__ = ["ArrayBox"]


class ArrayBox(Box):
    """What traced arrays are instances of.

    >>> isinstance(1.0, ArrayBox)
    False
    """
