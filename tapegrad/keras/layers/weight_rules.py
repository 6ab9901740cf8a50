"""The rules of a weight: how it begins, what it costs, and what it has to stay within."""

from __future__ import annotations

from typing import Any

from tapegrad.keras import constraints, initializers, regularizers

_TABLES: dict[str, Any] = {
    "initializer": initializers,
    "regularizer": regularizers,
    "constraint": constraints,
}


def set_rules(layer: Any, **kinds: tuple[Any, Any, Any]) -> None:
    """Set KIND_initializer, KIND_regularizer and KIND_constraint of each kind of weights."""
    for kind, rules in kinds.items():
        for (word, table), given in zip(_TABLES.items(), rules, strict=True):
            setattr(layer, f"{kind}_{word}", table.get(given))


def ruled_weight(layer: Any, kind: str, shape: Any, name: str | None = None) -> Any:
    """Make a weight that follows the rules of its kind, after which it is named by default."""
    first, cost, limit = (getattr(layer, f"{kind}_{word}") for word in _TABLES)
    return layer.add_weight(shape, first, regularizer=cost, constraint=limit, name=name or kind)
