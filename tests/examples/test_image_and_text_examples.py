"""The examples that look at pictures and that write text."""

from __future__ import annotations

import importlib.util
import math
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXT = (EXAMPLES / "data" / "sonnets.txt").read_text(encoding="ascii")


def load_example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_convnet_tells_shapes_apart_that_a_linear_classifier_does_not():
    results = load_example("convnet").main(short=True)

    assert results["accuracy"] > 0.5
    assert results["linear_accuracy"] < 0.3


def test_pictures_come_in_all_classes_and_their_colours_do_not_say_which():
    images, labels = load_example("convnet").draw_pictures(2000, seed=5)

    assert images.shape == (2000, 32, 32, 3)
    assert np.bincount(labels).tolist() == [200] * 10
    # The corners show the ground alone: were its colour a hint, the means of classes would differ
    # by more than chance allows (a mean of 200 has a deviation of about 0.02 here).
    corners = images[:, 0, 0]
    means = np.stack([corners[labels == number].mean(axis=0) for number in range(10)])
    assert np.ptp(means, axis=0).max() < 5 * corners.std() / math.sqrt(200)


def test_pictures_are_turned_pixel_by_pixel_and_only_while_they_are_learned_from():
    example = load_example("convnet")
    images, _ = example.draw_pictures(20, seed=5)

    turned = example.Turn()(images, training=True)

    ways = [np.rot90(image, k) for image in images for k in range(4)]
    ways += [np.rot90(image[::-1], k) for image in images for k in range(4)]
    seen = {way.tobytes() for way in ways}
    assert all(image.tobytes() in seen for image in turned.numpy())
    assert not np.array_equal(turned.numpy(), images)
    np.testing.assert_array_equal(example.Turn()(images), images)


def test_the_transformer_foretells_more_of_new_sonnets_than_pairs_of_characters_do():
    results = load_example("gpt").main(short=True)

    assert results["loss"] < 2.3
    assert results["bigram"] == pytest.approx(2.39, abs=0.005)
    assert results["unigram"] == pytest.approx(3.13, abs=0.005)


def test_counts_of_characters_and_pairs_give_the_losses_of_their_smoothed_frequencies():
    example = load_example("gpt")
    learned, held_out, characters = example.read_text()
    new = "".join(characters[number] for number in held_out)
    old = TEXT[: -len(new)]

    one, two = example.count_alone(learned, held_out, len(characters))

    single, pairs, firsts = Counter(old), Counter(pairwise(old)), Counter(old[:-1])
    size = len(set(TEXT))
    expected_one = [-math.log((single[c] + 0.5) / (len(old) + 0.5 * size)) for c in new[1:]]
    expected_two = [
        -math.log((pairs[a, b] + 0.05) / (firsts[a] + 0.05 * size)) for a, b in pairwise(new)
    ]
    assert one == pytest.approx(math.fsum(expected_one) / len(expected_one), rel=1e-9)
    assert two == pytest.approx(math.fsum(expected_two) / len(expected_two), rel=1e-9)


def test_the_text_is_sixty_sonnets_of_fourteen_lines_and_the_last_six_are_held_out():
    learned, held_out, characters = load_example("gpt").read_text()

    assert [len(sonnet.splitlines()) for sonnet in TEXT.split("\n\n")] == [14] * 60
    assert "".join(characters[number] for number in [*learned, *held_out]) == TEXT
    assert "".join(characters[number] for number in held_out).count("\n\n") == 5


def test_the_transformer_sees_no_character_after_the_one_that_it_foretells():
    example = load_example("gpt")
    model = example.GPT(characters=10, context=8)
    tokens = np.array([[1, 2, 3, 4, 5, 6, 7, 8]], "int32")
    changed = np.array([[1, 2, 3, 4, 5, 9, 0, 1]], "int32")

    one, other = model(tokens).numpy(), model(changed).numpy()

    np.testing.assert_allclose(one[:, :5], other[:, :5], rtol=1e-5, atol=1e-6)
    assert np.abs(one[:, 5:] - other[:, 5:]).max() > 1e-3
