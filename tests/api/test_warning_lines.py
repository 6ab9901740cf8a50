"""A warning names the user's line, however deep inside tapegrad it is given."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.autodiff.forward import ForwardAccumulator

ROOT = Path(tf.__file__).parents[1]


def watch_nothing():
    with tf.GradientTape() as tape:
        tape.watch([])


def integer_primal():
    ForwardAccumulator(tf.constant([1, 2]), tf.constant([1, 1]))


def missing_gradient():
    v = tf.Variable([1.0, 2.0])
    tf.keras.optimizers.SGD(0.1).apply_gradients(
        [(None, v), (tf.ones([2]), tf.Variable([1.0, 1.0]))]
    )


def old_switch():
    tf.compat.v1.disable_eager_execution()


def skewed_covariance():
    tnp.random.default_rng(0).multivariate_normal(
        [0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]], method="eigh"
    )


def zoom_of_a_grid():
    tf.scipy.ndimage.zoom(tnp.ones(4), 2.0, mode="constant", grid_mode=True)


CALLS = [
    watch_nothing,
    integer_primal,
    missing_gradient,
    old_switch,
    skewed_covariance,
    zoom_of_a_grid,
]


@pytest.mark.parametrize("call", CALLS)
def test_the_warning_names_the_line_of_the_call(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()

    assert caught
    assert {warning.filename for warning in caught} == {__file__}


def test_no_module_counts_the_frames_to_the_user():
    sources = [*(ROOT / "tapegrad").rglob("*.py"), *(ROOT / "backends").rglob("*.py")]
    counting = [path for path in sources if "stacklevel" in path.read_text(encoding="utf-8")]

    assert [path.name for path in counting] == ["call_site.py"]


def test_a_warning_about_a_with_statement_names_the_line_of_the_statement():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with tf.device("/GPU:97"):
            tf.constant(1.0)
    assert [warning.filename for warning in caught] == [__file__]
