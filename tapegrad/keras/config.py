"""Global settings of `tapegrad.keras`; only the dtype policy can be set."""

from typing import Any as _Any, ClassVar

from tapegrad.core.argument_checks import check_choice
from tapegrad.errors import ArgumentError
from tapegrad.keras.absent import absent_name as _absent_name
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


def set_epsilon(value: float) -> None:
    """Accept the usual number; others are arguments of layers, losses and optimizers.

    >>> set_epsilon(1e-7)
    """
    if value != EPSILON:
        raise ArgumentError(
            f"epsilon is always {EPSILON}. Pass epsilon={value!r} to the layers and optimizers "
            "instead."
        )


class _Switches:
    """Settings that are kept and have no effect."""

    known: ClassVar[dict[str, bool]] = {"interactive": True, "filtering": True, "flash": True}


def enable_interactive_logging() -> None:
    """Accept the usual way of logging: `fit` prints its progress.

    >>> enable_interactive_logging(); is_interactive_logging_enabled()
    True
    """
    _Switches.known["interactive"] = True


def disable_interactive_logging() -> None:
    """Remember that progress should not be printed; `verbose=0` of `fit` does that."""
    _Switches.known["interactive"] = False


def is_interactive_logging_enabled() -> bool:
    """Return what `enable_interactive_logging` or `disable_interactive_logging` set last."""
    return _Switches.known["interactive"]


def enable_traceback_filtering() -> None:
    """Remember the setting; tracebacks are always complete.

    >>> enable_traceback_filtering(); is_traceback_filtering_enabled()
    True
    """
    _Switches.known["filtering"] = True


def disable_traceback_filtering() -> None:
    """Remember the setting; tracebacks are always complete."""
    _Switches.known["filtering"] = False


def is_traceback_filtering_enabled() -> bool:
    """Return what `enable_traceback_filtering` or `disable_traceback_filtering` set last."""
    return _Switches.known["filtering"]


def enable_flash_attention() -> None:
    """Remember the setting; the kernel of attention is chosen by what is computed.

    >>> enable_flash_attention(); is_flash_attention_enabled()
    True
    """
    _Switches.known["flash"] = True


def disable_flash_attention() -> None:
    """Remember the setting; the kernel of attention is chosen by what is computed."""
    _Switches.known["flash"] = False


def is_flash_attention_enabled() -> bool:
    """Return what `enable_flash_attention` or `disable_flash_attention` set last."""
    return _Switches.known["flash"]


def is_nnx_enabled() -> bool:
    """Return False: layers are not modules of Flax.

    >>> is_nnx_enabled()
    False
    """
    return False


_data_format = ["channels_last"]

__all__ = [
    "backend",
    "disable_flash_attention",
    "disable_interactive_logging",
    "disable_traceback_filtering",
    "dtype_policy",
    "enable_flash_attention",
    "enable_interactive_logging",
    "enable_traceback_filtering",
    "epsilon",
    "floatx",
    "image_data_format",
    "is_flash_attention_enabled",
    "is_interactive_logging_enabled",
    "is_nnx_enabled",
    "is_traceback_filtering_enabled",
    "set_dtype_policy",
    "set_epsilon",
    "set_floatx",
    "set_image_data_format",
]


def __getattr__(name: str) -> _Any:
    raise _absent_name("keras.config", name, __all__)
