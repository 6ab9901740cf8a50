"""Saved functions that divide lengths: strided convolutions, pooling, patches, frames."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, FileFormatError, ShapeError
from tapegrad.program.saved.derived_sizes import Sizes, UndeterminedError, all_sizes, other_lengths

RNG = np.random.default_rng(0)
W3, W5 = (RNG.normal(size=(n, n, 2, 2)).astype("float32") for n in (3, 5))
W1 = RNG.normal(size=(4, 2, 2)).astype("float32")


def _pyramid(x: Any) -> Any:
    fine = tf.nn.conv2d(x, W3, 2, "SAME")
    coarse = tf.nn.max_pool2d(fine, 3, 2, "SAME")
    rows = [tf.reshape(one, (one.shape[0], -1, 2)) for one in (fine, coarse)]
    return tf.concat(rows, axis=1)


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], list[Any], list[tuple[int, ...]]]] = {
    "same": (
        lambda x: tf.reduce_mean(tf.nn.conv2d(x, W5, 3, "SAME"), axis=(1, 2)),
        [None, None, None, 2],
        [(1, 6, 7, 2), (3, 32, 11, 2), (2, 17, 100, 2)],
    ),
    "a pyramid": (_pyramid, [None, None, None, 2], [(1, 6, 9, 2), (3, 25, 40, 2)]),
    "frames": (
        lambda x: tf.nn.conv1d(x, W1, 3, "VALID"),
        [None, None, 2],
        [(1, 4, 2), (2, 51, 2), (9, 66, 2), (2, 2000, 2)],
    ),
    "there and back": (
        lambda x: tf.nn.conv2d(x, W3, 2, "SAME") + x[:, ::2, ::2],
        [1, None, None, 2],
        [(1, 5, 8, 2), (1, 64, 3, 2)],
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_saved_divisions_are_right_for_all_lengths(name: str, tmp_path: Any) -> None:
    function, shape, shapes = FUNCTIONS[name]
    module = tf.Module()
    module.f = tf.function(function, input_signature=[tf.TensorSpec(shape, tf.float32)])
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    for one in shapes:
        x = tf.constant(np.random.default_rng(1).normal(size=one).astype("float32"))

        found, wanted = loaded.f(x), function(x)

        assert found.shape == wanted.shape, one
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_code_that_compares_lengths_is_not_saved(tmp_path: Any) -> None:
    module = tf.Module()
    module.f = tf.function(
        lambda x: tf.nn.conv1d(x, W1, 2, "VALID") * float(x.shape[0] > 20),
        input_signature=[tf.TensorSpec([None, None, 2], tf.float32)],
    )
    with pytest.raises(ArgumentError, match="cannot be saved for all lengths"):
        tf.saved_model.save(module, str(tmp_path))


def test_several_rules_ask_for_another_recording() -> None:
    sizes = Sizes([(64,), (69,), (96,)], other_lengths(1))
    with pytest.raises(UndeterminedError) as raised:
        sizes.terms((16, 17, 24))  # all offsets from 0 to 2 give a quarter of these lengths

    ((length,),) = [raised.value.lengths]
    assert len({(length + offset) // 4 for offset in range(3)}) > 1


@pytest.mark.parametrize("rule", [["quotient", 0, 1, 1, 0], ["quotient", 9, 1, 1, 2], [], 3])
def test_damaged_rules_are_refused(rule: Any) -> None:
    with pytest.raises(FileFormatError, match="damaged"):
        all_sizes([rule], (7,))


def test_u_nets_take_multiples_alone(tmp_path: Any) -> None:
    def halved(x: Any) -> Any:
        half = tf.nn.max_pool2d(x, 2, 2, "VALID")
        return x + tf.repeat(tf.repeat(half, 2, axis=1), 2, axis=2)

    module = tf.Module()
    module.f = tf.function(halved, input_signature=[tf.TensorSpec([None, None, None, 2])])
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    x = tf.constant(RNG.normal(size=(2, 6, 10, 2)).astype("float32"))

    np.testing.assert_allclose(loaded.f(x), halved(x), rtol=1e-6)
    with pytest.raises(ShapeError):
        loaded.f(x[:, 1:])
