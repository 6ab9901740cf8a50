"""Look up, serialize and deserialize optimizers."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from tapegrad.errors import ArgumentTypeError
from tapegrad.keras.configured import Table, described
from tapegrad.keras.optimizers.adaptive import Adadelta, Adamax, Nadam
from tapegrad.keras.optimizers.base import Optimizer, rate_config
from tapegrad.keras.optimizers.known import SGD, Adagrad, Adam, AdamW, RMSprop
from tapegrad.keras.optimizers.layerwise import Adafactor, Lamb
from tapegrad.keras.optimizers.linear import Ftrl, Lion
from tapegrad.keras.optimizers.muon import Muon
from tapegrad.keras.registry import get_registered_name
from tapegrad.optimizers import base

_CLASSES = (
    SGD,
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    AdamW,
    Adamax,
    Ftrl,
    Lamb,
    Lion,
    Muon,
    Nadam,
    RMSprop,
)
OPTIMIZERS = Table("optimizer", {kind.__name__.lower(): kind for kind in _CLASSES})


def get(identifier: Any) -> Any:
    """Return the optimizer for a name, a configuration or a class; return an optimizer unchanged.

    >>> get("adam").name
    'adam'
    >>> get({"class_name": "SGD", "config": {"momentum": 0.5}}).momentum
    0.5
    """
    if identifier is None or isinstance(identifier, base.Optimizer):
        return identifier
    is_class = isinstance(identifier, type) and issubclass(identifier, base.Optimizer)
    if isinstance(identifier, str | Mapping) or is_class:
        return OPTIMIZERS.get(identifier)
    raise ArgumentTypeError(
        "An optimizer must be a name, a configuration or an Optimizer. "
        f"Got {type(identifier).__name__}: {identifier!r}."
    )


def serialize(optimizer: base.Optimizer | None) -> dict[str, Any] | None:
    """Return the class and configuration of an optimizer; that of None is None.

    >>> serialize(Adam(0.5))["config"]["learning_rate"]
    0.5
    """
    if optimizer is None:
        return None
    if not isinstance(optimizer, base.Optimizer):
        raise ArgumentTypeError(f"serialize() takes an optimizer. Got {type(optimizer).__name__}.")
    if isinstance(optimizer, Optimizer):
        return described(optimizer)
    name = get_registered_name(type(optimizer))
    return {"class_name": name, "config": _config_by_attributes(optimizer)}


def deserialize(config: Mapping[str, Any], custom_objects: Any = None) -> Any:
    """Create an optimizer from the result of `serialize`; `custom_objects` adds classes by name.

    >>> deserialize(serialize(Lion(0.5, beta_2=0.75))).beta_2
    0.75
    """
    return OPTIMIZERS.with_more(custom_objects).get(config)


def _config_by_attributes(optimizer: base.Optimizer) -> dict[str, Any]:
    """Read the arguments of an optimizer of `tapegrad.optimizers` from attributes of that name."""
    names: dict[str, Any] = {}
    for kind in type(optimizer).__mro__:
        if issubclass(kind, base.Optimizer):
            names |= inspect.signature(inspect.getattr_static(kind, "__init__")).parameters
    config = {name: getattr(optimizer, name) for name in names if name in vars(optimizer)}
    momentum = optimizer.ema_momentum
    config["use_ema"] = momentum is not None
    config["ema_momentum"] = 0.99 if momentum is None else momentum
    return {**config, "learning_rate": rate_config(optimizer)}
