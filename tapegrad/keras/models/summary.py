"""The table that `model.summary()` prints."""

from __future__ import annotations

from math import prod
from typing import Any

from tapegrad.keras.layers.calling import NOT_BUILT

_SIZES = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))


def summary_of(model: Any, width: int = 78, expand: bool = False) -> str:
    """Return the layers of a model as a table."""
    rows = [("Layer (type)", "Output shape", "Weights")]
    rows += list(_rows(model, expand, ""))
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    widths[1] += max(0, width - sum(widths) - 4)
    lines = [_line(row, widths) for row in rows]
    rule = "-" * len(lines[0])
    notes = [] if model.variables or model.built else [NOT_BUILT]
    return "\n".join(
        [f"Model: {model.name}", rule, lines[0], rule, *lines[1:], rule, *_totals(model), *notes]
    )


def _rows(model: Any, expand: bool, indent: str) -> Any:
    for layer in model.layers:
        count = f"{layer.count_params():,}" if layer.built else "not built"
        yield (f"{indent}{layer.name} ({type(layer).__name__})", _output_shape(layer), count)
        if expand and hasattr(layer, "layers"):
            yield from _rows(layer, expand, indent + "  ")


def _output_shape(layer: Any) -> str:
    shape = getattr(layer, "last_output_shape", None)
    return "?" if shape is None else str(shape)


def _line(row: tuple[str, str, str], widths: list[int]) -> str:
    return f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}"


def _totals(model: Any) -> list[str]:
    kinds = (
        ("Weights", model.variables),
        ("Trainable weights", model.trainable_variables),
        ("Other weights", model.non_trainable_variables),
    )
    return [_total(name, variables) for name, variables in kinds]


def _total(name: str, variables: Any) -> str:
    count = sum(prod(v.shape) for v in variables)
    size = sum(prod(v.shape) * v.dtype.size for v in variables)
    for unit, word in _SIZES:
        if size >= unit:
            return f"{name}: {count:,} ({size / unit:.2f} {word})"
    return f"{name}: {count:,} ({size} bytes)"
