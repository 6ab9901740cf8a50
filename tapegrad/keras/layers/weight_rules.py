"""The initializer, regularizer and constraint of each weight of a layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapegrad.keras import constraints, initializers, regularizers

_TABLES: dict[str, Any] = {
    "initializer": initializers,
    "regularizer": regularizers,
    "constraint": constraints,
}


def rules_of(given: Mapping[str, Any], *kinds: str) -> dict[str, Any]:
    """Return KIND_initializer, KIND_regularizer and KIND_constraint for each kind of weight.

    `given` holds the arguments of a constructor, that is, its `locals()`.
    """
    names = [(f"{kind}_{word}", table) for kind in kinds for word, table in _TABLES.items()]
    return {name: table.get(given[name]) for name, table in names}


def set_rules(layer: Any, given: Mapping[str, Any], *kinds: str) -> None:
    """Set the result of `rules_of` as attributes of a layer."""
    for name, rule in rules_of(given, *kinds).items():
        setattr(layer, name, rule)


def ruled_weight(
    layer: Any, kind: str, shape: Any, name: str | None = None, autocast: bool = True
) -> Any:
    """Create a weight with the rules of its kind. Its default name is the kind."""
    rules = {word: getattr(layer, f"{kind}_{word}") for word in _TABLES}
    return layer.add_weight(shape, **rules, autocast=autocast, name=name or kind)
