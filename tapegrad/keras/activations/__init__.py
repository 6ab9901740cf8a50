"""Activations with the names of `keras.activations`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.errors import ArgumentError
from tapegrad.keras.absent import absent_name as _absent_name
from tapegrad.keras.activations.corners import (
    hard_silu,
    leaky_relu,
    relu,
    relu6,
    sparse_plus,
    sparse_sigmoid,
)
from tapegrad.keras.activations.rows import log_softmax, softmax, sparsemax
from tapegrad.keras.activations.smooth import (
    celu,
    elu,
    exponential,
    gelu,
    linear,
    log_sigmoid,
    mish,
    selu,
    sigmoid,
    silu,
    softplus,
    softsign,
    tanh,
)
from tapegrad.keras.configured import Configured, Table, described, in_small_letters
from tapegrad.keras.registry import get_registered_name
from tapegrad.ops.elementwise.activations import (
    glu,
    hard_shrink,
    hard_sigmoid,
    hard_tanh,
    soft_shrink,
    threshold,
)
from tapegrad.ops.elementwise.sigmoids import squareplus, tanh_shrink

swish = silu
hard_swish = hard_silu


def get(identifier: Any) -> Any:
    """Return the activation for a name, a configuration or an object; None gives `linear`.

    >>> get("relu").__name__, get(None).__name__
    ('relu', 'linear')
    """
    return ACTIVATIONS.get(identifier, linear)


def serialize(activation: Any) -> str | dict[str, Any]:
    """Return the name of an activation, or the class name and configuration of an object.

    >>> serialize(swish)
    'silu'
    """
    if isinstance(activation, Configured):
        return described(activation)
    name = getattr(activation, "__name__", "")
    if not name.isidentifier():
        raise ArgumentError(
            f"An activation is serialized by its name, but this one has none: {activation!r}. "
            "Define it with `def`."
        )
    return get_registered_name(activation)


def deserialize(
    config: Mapping[str, Any] | str, custom_objects: Mapping[str, Any] | None = None
) -> Any:
    """Return the activation for the result of `serialize`; `custom_objects` adds names.

    >>> deserialize("silu").__name__
    'silu'
    """
    return ACTIVATIONS.with_more(custom_objects).get(config, linear)


__all__ = [
    "celu", "deserialize", "elu", "exponential", "gelu", "get", "glu", "hard_shrink",
    "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "leaky_relu", "linear", "log_sigmoid",
    "log_softmax", "mish", "relu", "relu6", "selu", "serialize", "sigmoid", "silu", "soft_shrink",
    "softmax", "softplus", "softsign", "sparse_plus", "sparse_sigmoid", "sparsemax", "squareplus",
    "swish", "tanh", "tanh_shrink", "threshold",
]  # fmt: skip

ACTIVATIONS = Table("activation", in_small_letters(__all__, globals()))

_check_calls(globals(), __all__)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise _absent_name("keras.activations", name, __all__)
