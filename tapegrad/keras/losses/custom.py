"""Making objects of configurations that may name a user's own classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def make(config: Any, custom_objects: Mapping[str, Any] | None, get: Callable[[Any], Any]) -> Any:
    """Make an object of a name or a configuration: of the user's own kinds first, else by `get`.

    >>> class Own:
    ...     def __init__(self, factor):
    ...         self.factor = factor
    >>> make({"class_name": "Own", "config": {"factor": 3}}, {"Own": Own}, get=None).factor
    3
    """
    name: Any = config.get("class_name") if isinstance(config, Mapping) else config
    own = (custom_objects or {}).get(name)
    if own is None:
        return get(config)
    if not isinstance(own, type):
        return own
    arguments = config.get("config", {}) if isinstance(config, Mapping) else {}
    return own.from_config(arguments) if hasattr(own, "from_config") else own(**arguments)
