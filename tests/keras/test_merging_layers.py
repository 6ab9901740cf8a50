"""Merging layers: different ranks, and masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.keras import Model, layers

rng = np.random.default_rng(3)

FORMULAS: dict[str, Any] = {
    "Add": lambda a, b: a + b,
    "Subtract": lambda a, b: a - b,
    "Multiply": lambda a, b: a * b,
    "Average": lambda a, b: (a + b) / 2,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
}


@pytest.mark.parametrize("kind", FORMULAS)
@pytest.mark.parametrize(
    "shapes",
    [((3, 3), (3, 3, 3)), ((3, 2, 4), (3, 4)), ((3,), (3, 4)), ((2, 5), (2, 1, 3, 5))],
    ids=str,
)
def test_new_axes_of_a_shorter_tensor_come_after_the_batch(kind: str, shapes: Any) -> None:
    a, b = (rng.normal(size=shape).astype("float32") for shape in shapes)
    rank = max(a.ndim, b.ndim)
    one, other = (x.reshape(x.shape[0], *(1,) * (rank - x.ndim), *x.shape[1:]) for x in (a, b))
    wanted = FORMULAS[kind](one, other)

    layer = getattr(layers, kind)()

    np.testing.assert_allclose(layer([a, b]).numpy(), wanted, rtol=1e-6)
    unknown = [(None, *shape[1:]) for shape in shapes]
    assert layer.compute_output_shape(unknown) == (None, *wanted.shape[1:])


def test_an_integer_beside_a_float_takes_its_dtype() -> None:
    y = layers.Add()([tf.constant([[0.5, 1.5]]), tf.constant([[1, 2]])])

    assert y.dtype == "float32"
    assert y.numpy().tolist() == [[1.5, 3.5]]


class _Mask(layers.Layer):
    """The mask as numbers, or -1 where there is none."""

    def call(self, inputs: Any, mask: Any = None) -> Any:
        flat = inputs[..., 0]
        return tf.zeros_like(flat) - 1.0 if mask is None else tf.cast(mask, flat.dtype)


A = np.array([[1, 0, 0, 2]])
B = np.array([[1, 2, 0, 0]])
EITHER, NEITHER = [1, 1, 0, 1], [-1, -1, -1, -1]
# What is masked: a is 2 where it counts, b is 3; z is 5 everywhere and has no mask.
MASKED: dict[str, tuple[Any, str, list[int], list[int]]] = {
    "Add": (layers.Add, "ab", [5, 5, 5, 5], EITHER),
    "Add, one without a mask": (layers.Add, "az", [7, 7, 7, 7], NEITHER),
    "Average": (layers.Average, "ab", [2.5] * 4, EITHER),
    "Multiply": (layers.Multiply, "ab", [6, 3, 0, 2], EITHER),
    "Multiply, one without a mask": (layers.Multiply, "abz", [30, 15, 5, 10], NEITHER),
    "Maximum": (layers.Maximum, "ab", [3, 3, 2, 2], EITHER),
    "Minimum": (layers.Minimum, "ab", [2, 3, 2, 2], EITHER),
    "Minimum, one without a mask": (layers.Minimum, "bz", [3, 3, 5, 5], NEITHER),
    "Concatenate": (layers.Concatenate, "ab", [2, 2, 2, 2], EITHER),
    "Concatenate, one without a mask": (layers.Concatenate, "az", [2, 2, 2, 2], [1, 1, 1, 1]),
}


def _embedded(kind: Any, which: str) -> Any:
    """A model of two rows of tokens that embeds them, merges some, and shows value and mask."""
    a, b = layers.Input((4,), dtype="int32"), layers.Input((4,), dtype="int32")
    made = {
        name: layers.Embedding(3, 2, mask_zero=name != "z", embeddings_initializer=start)(tokens)
        for name, tokens, start in (("a", a, tf.keras.initializers.Constant(2.0)),
                                    ("b", b, tf.keras.initializers.Constant(3.0)),
                                    ("z", a, tf.keras.initializers.Constant(5.0)))
    }  # fmt: skip
    merged = kind([made[name] for name in which])
    return Model([a, b], [merged, _Mask()(merged)])


@pytest.mark.parametrize("name", MASKED)
def test_what_one_of_the_tensors_has_counts(name: str) -> None:
    kind, which, values, mask = MASKED[name]

    merged, shown = _embedded(kind(), which)([A, B])

    np.testing.assert_allclose(merged.numpy()[0, :, 0], values)
    assert shown.numpy()[0].tolist() == mask


def test_masks_are_joined_along_the_axis_of_steps() -> None:
    _, joined = _embedded(layers.Concatenate(axis=1), "ab")([A, B])
    _, partly = _embedded(layers.Concatenate(axis=1), "za")([A, B])

    assert joined.numpy()[0].tolist() == [1, 0, 0, 1, 1, 1, 0, 0]
    assert partly.numpy()[0].tolist() == [1, 1, 1, 1, 1, 0, 0, 1]


@pytest.mark.parametrize("kind", FORMULAS)
def test_functions_make_a_layer_and_call_it(kind: str) -> None:
    a, b = rng.normal(size=(2, 4, 3)).astype("float32")

    y = getattr(layers, kind.lower())([a, b], name="both")

    np.testing.assert_allclose(y.numpy(), FORMULAS[kind](a, b), rtol=1e-6)


def test_functions_take_the_axes_of_their_layers() -> None:
    x = layers.Input((3,))

    assert layers.concatenate([x, x], axis=-1).shape == (None, 6)
    assert layers.dot([x, x], axes=1).shape == (None, 1)
    assert layers.add.__name__ == "add"
