"""What a prompt, a notebook and the completion of names show."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import extend

EXAMPLES = sorted(
    path
    for path in (Path(__file__).parents[2] / "examples").glob("*.py")
    if path.name != "keras_digits.py"  # switches the process to real Keras
)


def test_a_notebook_shows_a_matrix_as_a_table():
    matrix = tf.constant([[1.5, 2.0], [3.0, -4.0]])
    page = matrix._repr_html_()

    assert f"Tensor of shape (2, 2), float32, on {matrix.device}" in page
    assert page.count("<tr>") == 2
    assert all(f">{text}</td>" in page for text in ("1.5", "2", "3", "-4"))


def test_a_notebook_shows_the_ends_of_a_large_matrix():
    page = tf.Variable(tf.zeros([300, 300]))._repr_html_()

    assert "Variable of shape (300, 300)" in page
    assert page.count("<td") == 11 * 11
    assert "…" in page


@pytest.mark.parametrize("value", [tf.constant(2.5), tf.zeros([2, 2, 2]), tf.zeros([0])], ids=str)
def test_a_notebook_shows_other_arrays_as_text(value):
    assert "<pre>" in value._repr_html_()


def test_a_notebook_shows_models_histories_and_programs():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, name="head")])
    model.compile("sgd", "mse")
    history = model.fit(np.ones((2, 2)), np.ones((2, 1)), epochs=2, verbose=0)
    product = tf.function(lambda a: a @ a)
    product(tf.eye(2))

    assert "head (Dense)" in model._repr_html_()
    assert history._repr_html_().count("<tr>") == 3
    assert repr(history).startswith("<History of 2 epochs: loss ")
    assert product.program(tf.eye(2))._repr_html_().startswith("<svg")


def test_a_tape_says_in_which_state_it_is():
    w = tf.Variable(2.0)
    tape = tf.GradientTape()
    states = [repr(tape)]
    with tape:
        y = w * w
        states.append(repr(tape))
    states.append(repr(tape))
    tape.gradient(y, w)
    states.append(repr(tape))

    for state, word in zip(
        states, ["not entered", "recording", "recorded", "used up"], strict=True
    ):
        assert state.startswith(f"<tapegrad.GradientTape: {word}")


@pytest.mark.parametrize(
    "module",
    [extend, tf.test, tf.scipy.optimize, tf.keras, tf.keras.layers, tf.nn],
    ids=lambda module: module.__name__,
)
def test_dir_lists_what_a_module_exports(module):
    assert dir(module) == sorted(module.__all__)


CELL = """
from tapegrad import extend, grad

def cell(factor):
    return extend.unary("cube", lambda t, x: factor * x * x * t, forward=lambda xp, x: x * x * x)

print(float(grad(cell(3.0))(2.0)), float(grad(cell(6.0))(2.0)))
extend.unary("multiply", lambda t, y: t)
"""


def test_a_notebook_cell_may_declare_its_primitive_again():
    ended = subprocess.run(
        [sys.executable, "-c", CELL], capture_output=True, text=True, check=False
    )

    assert ended.stdout.split() == ["12.0", "24.0"]
    assert "declared in tapegrad.ops.elementwise.arithmetic. Choose another name." in ended.stderr


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_help_of_an_example_trains_nothing(example, monkeypatch, capsys):
    if example.stem == "scikit_learn":
        pytest.importorskip("sklearn")
    monkeypatch.setattr(sys, "argv", [example.name, "--help"])

    with pytest.raises(SystemExit, match="0"):
        runpy.run_path(str(example), run_name="__main__")

    assert capsys.readouterr().out.startswith(f"usage: {example.name}")
