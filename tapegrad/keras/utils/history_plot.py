"""plot_history: plot the metrics of all epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras.callbacks.history import History
from tapegrad.keras.utils.picture import (
    FONT,
    Picture,
    finish,
    hint,
    length_of,
    svg_path,
    tag,
    text,
)
from tapegrad.keras.utils.scales import Scale, label, ticks_of, whole_ticks_of

_WIDTH, _HEIGHT = 430.0, 290.0
"""The size of the plot of one metric."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 18.0, 60.0, 44.0
_MARGIN, _HEADER = 14.0, 48.0
_MOST_DOTS = 40
_KINDS = {"train": "train", "val": "validation"}
_STYLE = f"""
.tapegrad-curves text {{ font: 12px {FONT}; fill: #3e4c59; }}
.tapegrad-curves .head {{ font-size: 16px; font-weight: bold; fill: #1f2933; }}
.tapegrad-curves .name {{ font-size: 14px; font-weight: bold; fill: #1f2933; }}
.tapegrad-curves .end {{ text-anchor: end; }} .tapegrad-curves .middle {{ text-anchor: middle; }}
.tapegrad-curves .grid {{ stroke: #e4e7eb; }} .tapegrad-curves .axis {{ stroke: #9aa5b1; }}
.tapegrad-curves path {{ fill: none; stroke-width: 2; stroke-linejoin: round; }}
.tapegrad-curves .train {{ stroke: #2f6fd0; }} .tapegrad-curves .train circle {{ fill: #2f6fd0; }}
.tapegrad-curves .val {{ stroke: #e2711d; }} .tapegrad-curves .val circle {{ fill: white; }}
.tapegrad-curves circle {{ stroke-width: 1.6; }}
"""


def plot_history(
    history: Any,
    to_file: Any = "history.svg",
    metrics: Sequence[str] | None = None,
    title: str | None = None,
    columns: int = 2,
) -> Picture:
    """Plot the training and validation metrics of all epochs to an SVG file.

    `history` is the result of `fit`, or its dictionary. `metrics` are the names of the metrics to
    plot, by default all. Notebooks display the result. Pass `to_file=None` to write no file.

    >>> curves = {"loss": [0.9, 0.5, 0.3], "val_loss": [0.8, 0.6, 0.5]}
    >>> "loss, validation, epoch 3: 0.5" in plot_history(curves, to_file=None).svg
    True
    """
    path = svg_path(to_file)
    if columns < 1:
        raise ArgumentError(f"columns must be positive. Got {columns!r}.")
    values = history.history if isinstance(history, History) else history
    epochs = history.epoch if isinstance(history, History) else []
    groups = _groups(values, metrics)
    columns = min(columns, len(groups))
    rows = -(-len(groups) // columns)
    width, height = _WIDTH * columns, _HEADER + _HEIGHT * rows
    count = max(len(one) for one in values.values())
    words = title or f"Training over {count} epoch{'s' if count > 1 else ''}"
    parts = [text(words, _MARGIN, 32, "head")]
    for place, (name, curves) in enumerate(groups.items()):
        row, column = divmod(place, columns)
        part = _Part(name, {kind: _points(one, epochs) for kind, one in curves.items()})
        at = f"translate({column * _WIDTH:.0f} {_HEADER + row * _HEIGHT:.0f})"
        parts.append(tag("g", *part.drawn(), transform=at))
    width = max(width, _MARGIN * 2 + length_of(words, 16))
    group = tag("g", "\n".join(parts), class_="tapegrad-curves")
    picture = finish(width, height + _MARGIN, _STYLE, words, [group])
    if path is not None:
        picture.save(path)
    return picture


def _groups(values: Any, metrics: Sequence[str] | None) -> dict[str, dict[str, list[float]]]:
    """Return the values by metric name, and then by "train" and "val"."""
    if not isinstance(values, Mapping):
        raise ArgumentTypeError(
            "plot_history takes the result of fit, or a dictionary of values per epoch. "
            f"Got {type(values).__name__}."
        )
    found: dict[str, dict[str, list[float]]] = {}
    for name, one in values.items():
        kind = "val" if name.startswith("val_") else "train"
        # A metric with several elements is plotted as their mean, as it is printed.
        numbers = [float(np.mean(value)) for value in one]
        if numbers:
            found.setdefault(name.removeprefix("val_"), {})[kind] = numbers
    if not found:
        raise ArgumentError("The history holds no epoch to plot.")
    if metrics is None:
        return found
    missing = [name for name in metrics if name not in found]
    if missing or not metrics:
        raise ArgumentError(
            f"metrics must be names from the history: {', '.join(found)}. Got {metrics!r}."
        )
    return {name: found[name] for name in metrics}


def _points(values: Sequence[float], epochs: Sequence[int]) -> list[tuple[int, float]]:
    """Return values with their epoch numbers, counted from 1 as in the output of `fit`.

    If there are fewer validations, they are assigned to every second, third, ... epoch.
    """
    numbers = [epoch + 1 for epoch in epochs]
    count = len(values)
    if count >= len(numbers):
        return list(enumerate(values, numbers[0] if count == len(numbers) and numbers else 1))
    for every in range(2, max(numbers) + 1):
        chosen = [number for number in numbers if number % every == 0]
        if len(chosen) == count:
            return list(zip(chosen, values))
    return list(zip(numbers[-count:], values))


class _Part:
    """The curves of one metric."""

    def __init__(self, name: str, curves: Mapping[str, list[tuple[int, float]]]) -> None:
        self._name, self._curves = name, curves
        numbers = [number for points in curves.values() for number, _ in points]
        finite = [v for points in curves.values() for _, v in points if isfinite(v)] or [0.0]
        self._y_ticks = ticks_of(min(finite), max(finite))
        self._x_ticks = whole_ticks_of(min(numbers), max(numbers))
        low, high = min(numbers), max(numbers)
        room = 0.5 if low == high else 0.0
        self._x = Scale(low - room, high + room, _LEFT, _WIDTH - _RIGHT)
        bottom, top = min([*finite, self._y_ticks[0]]), max([*finite, self._y_ticks[-1]])
        self._y = Scale(bottom, top, _HEIGHT - _BOTTOM, _TOP)

    def drawn(self) -> list[str]:
        parts = [text(self._name, _LEFT, 20, "name"), *self._legend(), *self._axes()]
        return [*parts, *[self._curve(kind, points) for kind, points in self._curves.items()]]

    def _legend(self) -> list[str]:
        """Return the legend with the last values."""
        x, parts = _LEFT, []
        for kind, points in self._curves.items():
            sample = [tag("path", d=f"M{x:.1f},38 h22"), tag("circle", cx=x + 11, cy=38.0, r=3.2)]
            word = _KINDS[kind] if len(self._curves) > 1 else "last value"
            words = f"{word} {points[-1][1]:.4g}"
            parts += [tag("g", *sample, class_=kind), text(words, x + 29, 42, "legend")]
            x += 29 + length_of(words, 12) + 22
        return parts

    def _axes(self) -> list[str]:
        left, right, bottom = _LEFT, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
        parts = []
        for value in self._y_ticks:
            y = self._y.place(value)
            parts.append(tag("line", x1=left, x2=right, y1=y, y2=y, class_="grid"))
            parts.append(text(label(value, self._y_ticks), left - 8, y + 4, "end"))
        for number in self._x_ticks:
            x = self._x.place(number)
            parts.append(tag("line", x1=x, x2=x, y1=bottom, y2=bottom + 5, class_="axis"))
            parts.append(text(str(number), x, bottom + 19, "middle"))
        parts.append(tag("line", x1=left, x2=right, y1=bottom, y2=bottom, class_="axis"))
        parts.append(text("epoch", (left + right) / 2, bottom + 37, "middle"))
        return parts

    def _curve(self, kind: str, points: Sequence[tuple[int, float]]) -> str:
        line, dots, is_broken = [], [], True
        for number, value in points:
            if not isfinite(value):
                is_broken = True
                continue
            x, y = self._x.place(number), self._y.place(value)
            line.append(f"{'M' if is_broken else 'L'}{x:.1f},{y:.1f}")
            is_broken = False
            tooltip = f"{self._name}, {_KINDS[kind]}, epoch {number}: {value:.6g}"
            dots.append(tag("circle", hint(tooltip), cx=x, cy=y, r=3.2))
        few = dots if len(points) <= _MOST_DOTS else []
        return tag("g", tag("path", d=" ".join(line)), *few, class_=kind)
