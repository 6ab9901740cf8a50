"""Weight initializers with the names of `keras.initializers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.keras.absent import absent_name as _absent_name
from tapegrad.keras.configured import Table, described_or_named, in_small_letters
from tapegrad.keras.initializers.base import Initializer, RandomInitializer
from tapegrad.keras.initializers.constants import Constant, Identity, Ones, Zeros
from tapegrad.keras.initializers.draws import (
    Orthogonal,
    RandomNormal,
    RandomUniform,
    TruncatedNormal,
)
from tapegrad.keras.initializers.scaling import (
    GlorotNormal,
    GlorotUniform,
    HeNormal,
    HeUniform,
    LecunNormal,
    LecunUniform,
    VarianceScaling,
)
from tapegrad.keras.initializers.transforms import STFT

zeros = Zeros
ones = Ones
constant = Constant
identity = IdentityInitializer = Identity
random_normal = RandomNormal
random_uniform = RandomUniform
truncated_normal = TruncatedNormal
variance_scaling = VarianceScaling
glorot_normal = GlorotNormal
glorot_uniform = GlorotUniform
he_normal = HeNormal
he_uniform = HeUniform
lecun_normal = LecunNormal
lecun_uniform = LecunUniform
orthogonal = OrthogonalInitializer = Orthogonal
stft = STFTInitializer = STFT


def get(identifier: Any) -> Any:
    """Return the initializer for a name, a configuration or a class; return an object unchanged.

    >>> get("he_normal").get_config()
    {'seed': None, 'input_axes': None, 'output_axes': None}
    """
    return INITIALIZERS.get(identifier)


def serialize(initializer: Any) -> Any:
    """Return the class name and configuration of an initializer, the name of a function, or None.

    >>> serialize(Constant(2.0))
    {'class_name': 'Constant', 'config': {'value': 2.0}}
    """
    return described_or_named(initializer)


def deserialize(
    config: Mapping[str, Any] | str, custom_objects: Mapping[str, Any] | None = None
) -> Any:
    """Create an initializer from the result of `serialize`; `custom_objects` adds classes by name.

    >>> deserialize({"class_name": "Constant", "config": {"value": 2.0}}).value
    2.0
    """
    return INITIALIZERS.with_more(custom_objects).get(config)


__all__ = [
    "Constant", "GlorotNormal", "GlorotUniform", "HeNormal", "HeUniform", "Identity",
    "IdentityInitializer", "Initializer", "LecunNormal", "LecunUniform", "Ones", "Orthogonal",
    "OrthogonalInitializer", "RandomInitializer", "RandomNormal", "RandomUniform", "STFT",
    "STFTInitializer", "TruncatedNormal", "VarianceScaling", "Zeros", "constant", "deserialize",
    "get", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "identity", "lecun_normal",
    "lecun_uniform", "ones", "orthogonal", "random_normal", "random_uniform", "serialize", "stft",
    "truncated_normal", "variance_scaling", "zeros",
]  # fmt: skip

INITIALIZERS = Table(
    "initializer",
    {
        **in_small_letters(__all__, globals()),
        "zero": Zeros,
        "one": Ones,
        "identity_initializer": Identity,
        "normal": RandomNormal,
        "uniform": RandomUniform,
        "orthogonal_initializer": Orthogonal,
    },
)

_check_calls(globals(), __all__)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise _absent_name("keras.initializers", name, __all__)
