"""Functions that print are saved and print again after loading."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tf


def reporting() -> Any:
    class Reporting(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = tf.Variable(0)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
        def __call__(self, x: Any) -> Any:
            self.step.assign_add(1)
            tf.print(
                "step", self.step, {"x": x, "kind": "values"}, sep=": ", output_stream=sys.stdout
            )
            if tf.reduce_sum(x) > 10.0:
                tf.print("large:", tf.reduce_sum(x))
            return x * 2.0

    return Reporting()


@pytest.fixture
def saved(tmp_path: Path, capsys: Any) -> Path:
    tf.saved_model.save(reporting(), str(tmp_path))
    assert capsys.readouterr() == ("", "")
    return tmp_path


def test_a_loaded_function_prints_what_the_function_printed(saved: Path, capsys: Any) -> None:
    loaded = tf.saved_model.load(str(saved))
    own = reporting()
    for numbers in ([1.0, 2.0], [1.0, 2.0, 3.0], [8.0, 9.0]):
        found = loaded(tf.constant(numbers))
        printed = capsys.readouterr()
        own(tf.constant(numbers))
        assert printed == capsys.readouterr()
        np.testing.assert_array_equal(found, 2 * np.array(numbers))
        assert (
            printed.out
            == f"step: {int(loaded.step)}: {{'x': {np.array(numbers)}, 'kind': 'values'}}\n"
        )
        assert printed.err == ("large: 17.0\n" if sum(numbers) > 10 else "")


def test_prints_of_a_loop_are_saved(tmp_path: Path, capsys: Any) -> None:
    class Counting(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
        def __call__(self, n: Any) -> Any:
            total = tf.constant(0)
            for i in range(3):
                total = total + n * i
                tf.print("round", i, total)
            return total

    tf.saved_model.save(Counting(), str(tmp_path))

    assert int(tf.saved_model.load(str(tmp_path))(tf.constant(2))) == 6
    assert capsys.readouterr().err == "round 0 0\nround 1 2\nround 2 6\n"


def test_a_damaged_print_is_refused(saved: Path) -> None:
    damaged = 0
    for path in saved.rglob("*.json"):
        text = path.read_text()
        if '"pieces"' in text:
            tree = json.dumps(json.loads(text)).replace('"list": ["step: ", 0,', '"list": ["", 99,')
            damaged += tree != json.dumps(json.loads(text))
            path.write_text(tree)
    assert damaged
    with pytest.raises(ValueError, match="A print in the program has the text"):
        tf.saved_model.load(str(saved))(tf.constant([1.0]))


def test_methods_that_return_a_variable_are_saved(tmp_path: Path) -> None:
    class Counter(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = tf.Variable(1.0)

        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
        def add(self, amount: Any) -> Any:
            self.count.assign_add(amount)
            return self.count

    counter = Counter()
    tf.saved_model.save(counter, str(tmp_path), signatures={"serving_default": counter.add})

    loaded = tf.saved_model.load(str(tmp_path))
    assert float(loaded.add(tf.constant(4.0))) == 5.0
    (found,) = loaded.signatures["serving_default"](amount=tf.constant(2.0)).values()
    assert float(found) == float(loaded.count) == 7.0
