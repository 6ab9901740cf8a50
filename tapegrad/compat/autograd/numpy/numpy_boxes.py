"""`ArrayBox`, for scripts that check whether a value is a traced array."""

from tapegrad.compat.autograd.tracer import Box

__all__ = ["ArrayBox"]


class ArrayBox(Box):
    """The class of traced arrays, for `isinstance`.

    >>> isinstance(1.0, ArrayBox)
    False
    """
