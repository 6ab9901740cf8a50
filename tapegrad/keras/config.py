"""Global settings of `tapegrad.keras`; only the dtype policy can be set."""

from tapegrad.core.argument_checks import check_choice
from tapegrad.errors import ArgumentError
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
    return "channels_last"


def set_image_data_format(data_format: str) -> None:
    """Accept "channels_last", the only default; other formats are arguments of layers.

    >>> set_image_data_format("channels_last")
    """
    check_choice("data_format", data_format, ("channels_last", "channels_first"))
    if data_format == "channels_first":
        raise ArgumentError(
            "The default data format cannot be changed. Pass data_format='channels_first' to the "
            "layers instead."
        )


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
