"""Global settings of `tapegrad.keras`; only the dtype policy can be set."""

from tapegrad.core.argument_checks import check_choice
from tapegrad.keras.dtype_policies import dtype_policy, set_dtype_policy
from tapegrad.keras.losses.crossentropy_functions import EPSILON


def backend() -> str:
    """Return the name of the backend, which is always "tapegrad".

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
    """Return the default dtype of weights.

    >>> floatx()
    'float32'
    """
    return dtype_policy().variable_dtype


def set_floatx(value: str) -> None:
    """Set the default dtype of weights and results.

    >>> set_floatx("float64")
    >>> floatx()
    'float64'
    >>> set_floatx("float32")
    """
    check_choice("floatx", value, ("bfloat16", "float16", "float32", "float64"))
    set_dtype_policy(value)


def image_data_format() -> str:
    """Return the default data format of images.

    >>> image_data_format()
    'channels_last'
    """
    return _data_format[0]


def set_image_data_format(data_format: str) -> None:
    """Set the data format of layers that are created without one.

    >>> set_image_data_format("channels_first")
    >>> image_data_format()
    'channels_first'
    >>> set_image_data_format("channels_last")
    """
    check_choice("data_format", data_format, ("channels_last", "channels_first"))
    _data_format[0] = data_format


_data_format = ["channels_last"]

__all__ = [
    "backend",
    "dtype_policy",
    "epsilon",
    "floatx",
    "image_data_format",
    "set_dtype_policy",
    "set_floatx",
    "set_image_data_format",
]
