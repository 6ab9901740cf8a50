"""plot_history: positions of curves, labels and errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras.utils.scales import label, ticks_of, whole_ticks_of

keras = tf.keras
plot_history = keras.utils.plot_history
NAMESPACE = {"s": "http://www.w3.org/2000/svg"}


def page(history: Any, **options: Any) -> Any:
    return ET.fromstring(plot_history(history, to_file=None, **options).svg)


def words_of(root: Any) -> list[str]:
    return [text.text for text in root.iterfind(".//s:text", NAMESPACE)]


def dots(root: Any, kind: str) -> dict[str, tuple[float, float]]:
    """The places of all points of one kind, by what they tell."""
    found = {}
    for circle in root.iterfind(f".//s:g[@class='{kind}']/s:circle", NAMESPACE):
        told = circle.find("s:title", NAMESPACE)
        if told is not None:
            found[told.text] = (float(circle.get("cx")), float(circle.get("cy")))
    return found


def lines(root: Any, kind: str) -> list[str]:
    """The paths of curves, without the samples of the legend."""
    found = root.iterfind(f".//s:g[@class='{kind}']/s:path", NAMESPACE)
    return [path.get("d") for path in found if " h" not in path.get("d")]


def test_curves_of_training_and_validation_are_drawn_to_scale() -> None:
    values = {"loss": [2.0, 1.0, 0.5], "val_loss": [1.5, 1.25, 0.0]}

    root = page(values)

    train, validation = dots(root, "train"), dots(root, "val")
    assert list(train) == [f"loss, train, epoch {k + 1}: {v:g}" for k, v in enumerate([2, 1, 0.5])]
    points = [*train.values(), *validation.values()]
    xs, ys = np.array(points).T
    assert xs[0] == xs[3]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.11)
    # Larger is higher on the page, in equal steps: y grows downwards.
    slope, start = np.polyfit([2, 1, 0.5, 1.5, 1.25, 0], ys, 1)
    assert slope < 0
    np.testing.assert_allclose(slope * np.array([2, 1, 0.5, 1.5, 1.25, 0]) + start, ys, atol=0.11)
    assert {"train 0.5", "validation 0", "loss", "epoch", "0.0", "2.0"} <= set(words_of(root))


def test_each_metric_has_a_part_of_its_own() -> None:
    values = {"loss": [1.0, 0.5], "accuracy": [0.5, 0.9], "learning_rate": [1e-3, 1e-4]}

    root = page(values, title="A & B", columns=1)

    words = words_of(root)
    assert words[0] == "A & B"
    assert {"loss", "accuracy", "learning_rate", "last value 0.0001"} <= set(words)
    places = [group.get("transform") for group in root.iterfind(".//s:g[@transform]", NAMESPACE)]
    assert [re.findall(r"\d+", place)[0] for place in places] == ["0", "0", "0"]
    assert [word for word in words_of(page(values, metrics=["accuracy"])) if word in values] == [
        "accuracy"
    ]


def test_what_fit_returns_can_be_drawn(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(20, 2)).astype("float32")
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    history = model.fit(x, x[:, :1], epochs=4, validation_split=0.5, validation_freq=2, verbose=0)

    picture = plot_history(history, tmp_path / "history.svg")

    assert (tmp_path / "history.svg").read_text(encoding="utf-8").strip() == picture.svg
    root = ET.fromstring(picture._repr_svg_())
    assert "Training over 4 epochs" in words_of(root)
    epochs = [re.findall(r"epoch (\d)", told)[0] for told in dots(root, "val")]
    assert epochs == ["2", "4"]


def test_epochs_go_on_where_an_earlier_training_ended() -> None:
    history = keras.callbacks.History()
    for epoch in (5, 6):
        history.on_epoch_end(epoch, {"loss": 1.0})

    assert list(dots(page(history), "train")) == [
        "loss, train, epoch 6: 1",
        "loss, train, epoch 7: 1",
    ]


def test_a_curve_is_broken_where_a_value_is_not_finite() -> None:
    root = page({"loss": [3.0, 2.0, float("nan"), 1.0, float("inf"), 0.5]})

    (path,) = lines(root, "train")
    assert path.count("M") == 3
    assert path.count("L") == 1
    assert len(dots(root, "train")) == 4


@pytest.mark.parametrize("values", [[0.5], [0.0, 0.0], [float("nan")], [1e-30, 2e-30], [1e30, 1.0]])
def test_all_values_lie_on_the_page(values: list[float]) -> None:
    root = page({"loss": values})

    for x, y in dots(root, "train").values():
        assert 0 <= x <= 430
        assert 0 <= y <= 290


def test_long_trainings_are_drawn_without_dots() -> None:
    root = page({"loss": list(np.linspace(1, 0, 500))})

    assert dots(root, "train") == {}
    assert lines(root, "train")[0].count("L") == 499


@pytest.mark.parametrize(
    ("history", "options", "words"),
    [
        ({}, {}, "The history holds no epoch to plot"),
        ({"loss": []}, {}, "holds no epoch to plot"),
        (keras.callbacks.History(), {}, "holds no epoch to plot"),
        ({"loss": [1.0]}, {"metrics": ["acc"]}, r"from the history: loss. Got \['acc'\]"),
        ({"loss": [1.0]}, {"columns": 0}, "columns must be positive. Got 0"),
    ],
)
def test_what_cannot_be_drawn_says_why(history: Any, options: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        page(history, **options)


def test_something_else_than_a_history_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match=r"the result of fit, or a dictionary.*Got list"):
        page([1.0, 2.0])


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0.13, 0.94), (-3, 7), (1e-9, 3e-9), (99.0, 101.0), (5, 5), (0, 1e12)]
)
def test_ticks_are_round_and_reach_over_the_values(low: float, high: float) -> None:
    ticks = ticks_of(low, high)

    steps = np.diff(ticks)
    assert 2 <= len(ticks) <= 6
    assert ticks[0] <= low
    assert ticks[-1] >= high
    np.testing.assert_allclose(steps, steps[0], rtol=1e-6)
    first = steps[0] / 10 ** np.floor(np.log10(steps[0]) + 1e-9)
    assert np.isclose(first, [1, 2, 2.5, 5]).any()
    labels = [label(value, ticks) for value in ticks]
    assert len(set(labels)) == len(labels)


def test_ticks_of_epochs_are_whole_numbers() -> None:
    assert whole_ticks_of(1, 1) == [1]
    assert whole_ticks_of(1, 8) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert whole_ticks_of(1, 9) == [2, 4, 6, 8]
    assert whole_ticks_of(1, 1000) == [200, 400, 600, 800, 1000]
