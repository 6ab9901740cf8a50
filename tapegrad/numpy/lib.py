"""NumPy's `lib`: the modules with functions of arrays."""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.numpy import emath as scimath, stride_tricks

__all__ = ["scimath", "stride_tricks"]

_check_calls(globals(), __all__)
