"""What holds for all of `tapegrad.keras`; only the dtype policy can be set."""

from tapegrad.core.choices import check_choice
from tapegrad.keras.dtype_policies import dtype_policy, set_dtype_policy
from tapegrad.keras.losses.crossentropy_functions import EPSILON


def backend() -> str:
    """Return the name of what computes, which is always tapegrad.

    >>> backend()
    'tapegrad'
    """
    return "tapegrad"


def epsilon() -> float:
    """Return the small number that keeps logarithms and divisions finite.

    >>> epsilon()
    1e-07
    """
    return EPSILON


def floatx() -> str:
    """Return the dtype of weights where nothing else is said.

    >>> floatx()
    'float32'
    """
    return dtype_policy().variable_dtype


def set_floatx(value: str) -> None:
    """Set the dtype of weights and results where nothing else is said.

    >>> set_floatx("float64")
    >>> floatx()
    'float64'
    >>> set_floatx("float32")
    """
    check_choice("floatx", value, ("bfloat16", "float16", "float32", "float64"))
    set_dtype_policy(value)


def image_data_format() -> str:
    """Return where images have their channels where nothing else is said.

    >>> image_data_format()
    'channels_last'
    """
    return "channels_last"


__all__ = [
    "backend",
    "dtype_policy",
    "epsilon",
    "floatx",
    "image_data_format",
    "set_dtype_policy",
    "set_floatx",
]
