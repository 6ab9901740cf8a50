"""The examples that draw images and points, learn to learn, and look at gradients one by one."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def load_example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_autoencoder_knows_more_of_new_digits_than_their_pixels_one_by_one():
    results = load_example("vae").main(short=True)

    assert results["independent_pixels"] == pytest.approx(-25.07, abs=0.01)
    assert results["bound"] > -21
    assert results["wrong_pixels"] < 0.10


def test_the_generator_covers_most_modes_of_the_ring():
    results = load_example("gan").main(short=True)

    assert results["modes_covered"] >= 6
    assert results["good_points"] > 0.4


def test_training_through_a_gradient_step_makes_that_step_worth_more():
    results = load_example("meta_learning").main(short=True)

    assert results["meta_1"] < 2.0
    assert results["meta_1"] < 0.7 * results["ordinary_1"]
    assert results["meta_1"] < 0.7 * results["meta_0"]


def test_gradients_of_single_images_agree_with_a_loop_and_train_privately():
    results = load_example("per_example_gradients").main(short=True)

    assert results["vectorized_map_error"] < 1e-5
    assert results["jacobian_error"] < 1e-5
    assert results["epsilon"] == pytest.approx(2.27, abs=0.01)
    assert results["private_accuracy"] > 0.8
