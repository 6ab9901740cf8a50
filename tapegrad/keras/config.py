"""Global settings of `tapegrad.keras`; only the dtype policy can be set."""

from typing import TYPE_CHECKING, Any as _Any, ClassVar

from tapegrad.core.argument_checks import check_choice, check_count
from tapegrad.core.exports import list_exports as _list_exports
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


def enable_unsafe_deserialization() -> None:
    """Accept the call: files hold no code that could be unsafe.

    >>> enable_unsafe_deserialization()
    """


class _Limits:
    """The most epochs and steps of `fit`, for a quick run of a whole program."""

    epochs: int | None = None
    steps: int | None = None


def max_epochs() -> int | None:
    """Return the most epochs that `fit` trains, or None.

    >>> max_epochs() is None
    True
    """
    return _Limits.epochs


def set_max_epochs(max_epochs: int | None) -> None:
    """Limit the number of epochs of `fit`, whatever its argument is; None removes the limit.

    >>> set_max_epochs(None)
    """
    _Limits.epochs = _limit("max_epochs", max_epochs)


def max_steps_per_epoch() -> int | None:
    """Return the most steps of an epoch, an evaluation or a prediction, or None.

    >>> max_steps_per_epoch() is None
    True
    """
    return _Limits.steps


def set_max_steps_per_epoch(max_steps_per_epoch: int | None) -> None:
    """Limit the number of steps of an epoch, an evaluation and a prediction; None removes it.

    >>> set_max_steps_per_epoch(None)
    """
    _Limits.steps = _limit("max_steps_per_epoch", max_steps_per_epoch)


def _limit(name: str, value: int | None) -> int | None:
    return None if value is None else check_count(name, value, f"set_{name}", least=1)


def limited_epochs(epochs: int) -> int:
    """Return a number of epochs, or the limit if that is smaller.

    >>> limited_epochs(3)
    3
    """
    return epochs if _Limits.epochs is None else min(epochs, _Limits.epochs)


def limited_steps(steps: int | None, available: int | None) -> int | None:
    """Return a number of steps, or the limit if that is smaller than the steps to be made.

    >>> limited_steps(3, None)
    3
    """
    number, limit = available if steps is None else steps, _Limits.steps
    return limit if limit is not None and (number is None or limit < number) else steps


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
    "enable_unsafe_deserialization",
    "epsilon",
    "floatx",
    "image_data_format",
    "is_flash_attention_enabled",
    "is_interactive_logging_enabled",
    "is_nnx_enabled",
    "is_traceback_filtering_enabled",
    "max_epochs",
    "max_steps_per_epoch",
    "set_dtype_policy",
    "set_epsilon",
    "set_floatx",
    "set_image_data_format",
    "set_max_epochs",
    "set_max_steps_per_epoch",
]

_list_exports(globals())


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> _Any:
        raise _absent_name("keras.config", name, __all__)
