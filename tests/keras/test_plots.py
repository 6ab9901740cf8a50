"""plot_model: what is drawn, and where."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ArgumentTypeError

keras = tf.keras
layers = keras.layers
utils = keras.utils


@dataclass
class Rect:
    """A rectangle on the page, with the words in it."""

    x: float
    y: float
    width: float
    height: float
    words: list[str]

    @property
    def middle(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2

    def overlaps(self, other: Rect) -> bool:
        apart_x = self.x + self.width <= other.x or other.x + other.width <= self.x
        apart_y = self.y + self.height <= other.y or other.y + other.height <= self.y
        return not apart_x and not apart_y

    def touches(self, x: float, y: float) -> bool:
        """Whether a point is at the edge."""
        inside = self.x - 1 <= x <= self.x + self.width + 1
        inside = inside and self.y - 1 <= y <= self.y + self.height + 1
        left = min(abs(x - self.x), abs(x - self.x - self.width)) < 1
        return inside and (left or min(abs(y - self.y), abs(y - self.y - self.height)) < 1)


def local(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


class Page:
    """The boxes, frames and arrows of a picture, with their places on the page."""

    def __init__(self, picture: Any) -> None:
        self.root = ET.fromstring(picture.svg)
        self.cards: list[Rect] = []
        self.frames: list[Rect] = []
        self.arrows: list[tuple[tuple[float, float], tuple[float, float]]] = []
        self._walk(self.root, 0.0, 0.0)

    def _walk(self, element: Any, x: float, y: float) -> None:
        moved = re.match(r"translate\((\S+) (\S+)\)", element.get("transform", ""))
        if moved:
            x, y = x + float(moved[1]), y + float(moved[2])
        words = [child.text for child in element if local(child) == "text"]
        for child in element:
            kind = child.get("class", "")
            if kind in ("card", "frame"):
                place = [float(child.get(key)) for key in ("x", "y", "width", "height")]
                rect = Rect(x + place[0], y + place[1], place[2], place[3], words)
                (self.cards if kind == "card" else self.frames).append(rect)
            if kind == "arrow":
                numbers = [float(n) for n in re.findall(r"-?[\d.]+", child.get("d"))]
                start, end = numbers[:2], numbers[-2:]
                self.arrows.append(((x + start[0], y + start[1]), (x + end[0], y + end[1])))
            self._walk(child, x, y)

    @property
    def titles(self) -> list[str]:
        return [card.words[0] for card in self.cards]

    def connections(self) -> list[tuple[str, str]]:
        """The first and the last box of each arrow, by title."""
        boxes = [*self.frames, *self.cards]

        def at(point: tuple[float, float]) -> str:
            (box,) = [box for box in boxes if box.touches(*point)]
            return box.words[0]

        return [(at(start), at(end)) for start, end in self.arrows]


def draw(model: Any, **options: Any) -> Page:
    return Page(utils.plot_model(model, to_file=None, **options))


def branched() -> Any:
    """Two inputs, four branches that join, a shared layer, an operator and two outputs."""
    picture, words = keras.Input((8, 8, 3), name="picture"), keras.Input((5,), name="words")
    x = layers.Conv2D(4, 3, padding="same")(picture)
    parts = [layers.Conv2D(4, size, padding="same", activation="relu")(x) for size in (1, 3, 5)]
    joined = layers.Concatenate()([*parts, layers.MaxPooling2D(3, 1, "same")(x)])
    shared = layers.Dense(7, name="shared")
    both = [shared(layers.Dense(6)(words)), shared(layers.Dense(6)(words))]
    end = layers.Concatenate()([layers.GlobalAveragePooling2D()(joined), *both])
    outputs = [layers.Dense(2, name="kind")(end), layers.Dense(1, name="size")(end * 2.0)]
    return keras.Model([picture, words], outputs, name="branched")


def chain() -> Any:
    return keras.Sequential(
        [keras.Input((6,)), layers.Dense(4, "relu"), layers.Dropout(0.5), layers.Dense(2)],
        name="chain",
    )


# Models


def test_a_sequential_model_is_a_chain_from_top_to_bottom() -> None:
    page = draw(chain())

    assert page.titles == ["InputLayer", "Dense", "Dropout", "Dense"]
    assert page.connections() == [
        ("InputLayer", "Dense"),
        ("Dense", "Dropout"),
        ("Dropout", "Dense"),
    ]
    heights = [card.y for card in page.cards]
    assert heights == sorted(heights)
    middles = [card.middle[0] for card in page.cards]
    assert middles == pytest.approx([middles[0]] * 4, abs=0.2)


@pytest.mark.parametrize(
    ("rankdir", "axis", "sign"), [("TB", 1, 1), ("BT", 1, -1), ("LR", 0, 1), ("RL", 0, -1)]
)
def test_arrows_point_in_the_direction_that_was_asked_for(
    rankdir: str, axis: int, sign: int
) -> None:
    page = draw(chain(), rankdir=rankdir)

    places = [sign * card.middle[axis] for card in page.cards]
    assert places == sorted(places)
    assert len(page.connections()) == 3


@pytest.mark.parametrize("rankdir", ["TB", "LR"])
@pytest.mark.parametrize("shows", [True, False])
def test_boxes_do_not_overlap_and_lie_on_the_page(rankdir: str, shows: bool) -> None:
    page = draw(branched(), rankdir=rankdir, show_shapes=shows, show_layer_names=shows)

    width, height = float(page.root.get("width", 0)), float(page.root.get("height", 0))
    assert len(page.cards) == 17
    assert not any(one.overlaps(other) for one, other in combinations(page.cards, 2))
    assert all(card.x >= 0 and card.x + card.width <= width for card in page.cards)
    assert all(card.y >= 0 and card.y + card.height <= height for card in page.cards)


def test_branches_joins_and_operators_are_connected() -> None:
    found = draw(branched()).connections()

    assert found.count(("Conv2D", "Conv2D")) == 3
    assert found.count(("Conv2D", "Concatenate")) == 3
    assert found.count(("Dense", "Concatenate")) == 2
    assert ("Concatenate", "Multiply") in found
    assert ("Multiply", "Dense") in found
    assert len(found) == 20


def test_each_call_of_a_shared_layer_says_which_one_it_is() -> None:
    page = draw(branched())

    words = [card.words for card in page.cards if "shared" in card.words]
    assert [card[-1] for card in words] == ["call 1 of 2", "call 2 of 2"]
    assert all(card[1:3] == ["name", "shared"] for card in words)


def test_rows_say_what_was_asked_for() -> None:
    model = chain()
    model.layers[2].trainable = False

    page = draw(
        model,
        show_shapes=True,
        show_dtype=True,
        show_layer_names=True,
        show_layer_activations=True,
        show_trainable=True,
    )

    name = model.layers[0].name
    assert page.cards[1].words == [
        *("Dense", "name", name, "activation", "relu", "input", "(None, 6)"),
        *("output", "(None, 4)", "dtype", "float32", "trainable", "yes"),
    ]
    assert page.cards[3].words[-1] == "no"
    assert draw(model).cards[1].words == ["Dense"]


def test_shapes_of_many_inputs_are_counted() -> None:
    x = keras.Input((2,))
    model = keras.Model(x, layers.Add()([layers.Dense(2)(x) for _ in range(6)]))

    words = draw(model, show_shapes=True).cards[-1].words

    assert words.count("(None, 2)") == 4  # three inputs and the output
    assert "and 3 more" in words


def nested() -> Any:
    inner = keras.Sequential([keras.Input((4,)), layers.Dense(3), layers.Dense(2)], name="inner")
    left, right = keras.Input((4,)), keras.Input((4,))
    return keras.Model([left, right], layers.Subtract()([inner(left), inner(right)]))


def test_a_model_inside_is_one_box_unless_it_is_expanded() -> None:
    page = draw(nested())

    assert page.titles.count("Sequential") == 2
    assert page.frames == []


@pytest.mark.parametrize("rankdir", ["TB", "RL"])
def test_an_expanded_model_is_drawn_in_a_frame(rankdir: str) -> None:
    page = draw(nested(), expand_nested=True, rankdir=rankdir)

    assert [frame.words for frame in page.frames] == [
        [f"inner (Sequential), call {number} of 2"] for number in (1, 2)
    ]
    assert page.titles.count("Dense") == 4
    assert not any(one.overlaps(other) for one, other in combinations(page.cards, 2))
    outside = [card for card in page.cards if not any(f.overlaps(card) for f in page.frames)]
    assert [card.words[0] for card in outside] == ["InputLayer", "InputLayer", "Subtract"]
    assert len(page.connections()) == 8


def test_a_model_that_was_built_by_a_call_is_drawn() -> None:
    model = keras.Sequential([layers.Dense(2)])
    model(np.zeros((3, 5), "float32"))

    assert "(None, 5)" in draw(model, show_shapes=True).cards[0].words


def test_a_subclass_made_from_inputs_and_outputs_is_drawn() -> None:
    class Named(keras.Model):
        pass

    x = keras.Input((3,))

    assert draw(Named(x, layers.Dense(2)(x))).titles == ["InputLayer", "Dense"]


def test_a_model_from_the_middle_of_another_begins_with_an_input() -> None:
    middle = layers.Dense(3)(keras.Input((2,)))
    tail = keras.Model(middle, layers.Dense(1)(middle))

    assert draw(tail).titles == ["InputLayer", "Dense"]


def test_names_with_signs_of_markup_are_escaped() -> None:
    model = keras.Sequential([keras.Input((2,)), layers.Dense(1, name="a<b>&c")], name='"m"')

    page = draw(model, show_layer_names=True)

    assert page.cards[1].words[-1] == "a<b>&c"


def test_a_picture_is_written_and_shown_in_notebooks(tmp_path: Path) -> None:
    picture = utils.plot_model(chain(), tmp_path / "model.svg")

    written = (tmp_path / "model.svg").read_text(encoding="utf-8")
    assert written.strip() == picture.svg == picture._repr_svg_()
    assert "chain: 3 layers, 38 weights" in written


class Own(keras.Model):
    def call(self, inputs: Any) -> Any:
        return inputs


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: Own(name="mine"),
            r"'mine' overrides `call` in its class Own.*Model\(inputs",
        ),
        (
            lambda: keras.Sequential([layers.Dense(1)]),
            r"is not built yet.*model.build\(input_shape",
        ),
        (lambda: keras.Sequential(), r"has no layers to draw"),
        (lambda: 3, r"Only Sequential and functional models can be drawn. Got int."),
    ],
)
def test_what_cannot_be_drawn_says_why(make: Any, words: str) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError), match=words):
        draw(make())


def test_other_files_and_directions_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"must end in .svg, such as 'm.svg'. Got 'm.txt'"):
        utils.plot_model(chain(), "m.txt")
    with pytest.raises(ArgumentError, match=r"such as 'h.svg'. Got 'h'"):
        utils.plot_history({"loss": [1.0]}, "h")
    with pytest.raises(ArgumentError, match=r"rankdir must be one of TB, BT, LR, RL. Got 'UP'"):
        utils.plot_model(chain(), None, rankdir="UP")


def test_a_picture_asked_for_as_png_is_written_as_svg(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"written as SVG: '.*m.svg' instead of '.*m.png'"):
        picture = utils.plot_model(chain(), tmp_path / "m.png")

    assert (tmp_path / "m.svg").read_text().strip() == picture.svg
    assert not (tmp_path / "m.png").exists()
