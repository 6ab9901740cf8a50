"""The rules of a weight: how it begins, what it costs, and what it has to stay within."""

from __future__ import annotations

from typing import Any

from tapegrad.keras import constraints, initializers, regularizers

_TABLES: dict[str, Any] = {
    "initializer": initializers,
    "regularizer": regularizers,
    "constraint": constraints,
}


Rules = tuple[Any, Any, Any]
"""An initializer, a regularizer and a constraint, as users give them."""


def rules_of(**kinds: Rules) -> dict[str, Any]:
    """Return KIND_initializer, KIND_regularizer and KIND_constraint of each kind of weights."""
    return {
        f"{kind}_{word}": table.get(given)
        for kind, rules in kinds.items()
        for (word, table), given in zip(_TABLES.items(), rules, strict=True)
    }


def set_rules(layer: Any, **kinds: Rules) -> None:
    """Set what `rules_of` returns as attributes of a layer."""
    for name, rule in rules_of(**kinds).items():
        setattr(layer, name, rule)


def ruled_weight(
    layer: Any, kind: str, shape: Any, name: str | None = None, autocast: bool = True
) -> Any:
    """Make a weight that follows the rules of its kind, after which it is named by default."""
    rules = {word: getattr(layer, f"{kind}_{word}") for word in _TABLES}
    return layer.add_weight(shape, **rules, autocast=autocast, name=name or kind)
