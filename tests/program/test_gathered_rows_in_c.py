"""Short rows that are adjacent along several axes are processed together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_numpy.loops import compiler

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

rng = np.random.default_rng(3)


def compiled(function: Any, *arrays: Any) -> tuple[list[np.ndarray], str]:
    """Return the results of the compiled function, and the C text of its loops with stages."""
    recorded = tf.function(function)
    given = [tf.constant(array) for array in arrays]
    recorded(*given)
    found = [np.asarray(result) for result in tf.nest.flatten(recorded(*given))]
    steps = recorded.program(*given).steps
    staged = [s for s in steps if hasattr(s, "run") and s.made_of.loop.stages]
    return found, "\n".join(step.run.__dict__["source"] for step in staged)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(50, 7, 5, 3), (9, 40, 2, 4), (300, 6, 8), (11, 3, 5, 7, 2)])
def test_norms_of_differences(shape: tuple[int, ...], dtype: str) -> None:
    x = rng.normal(size=(*shape[:-2], 1, shape[-1])).astype(dtype)
    y = rng.normal(size=shape[-2:]).astype(dtype)
    radius = rng.uniform(size=shape[-2]).astype(dtype)

    def function(x: Any, y: Any, radius: Any) -> Any:
        norm = tf.sqrt(tf.reduce_sum((x - y) ** 2, -1))
        return tf.sigmoid(radius - norm), (x - y) / norm[..., None]

    (near, directions), text = compiled(function, x, y, radius)
    norm = np.sqrt(((x - y) ** 2).sum(-1))
    rtol = 2e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(near, 1 / (1 + np.exp(norm - radius)), rtol=rtol)
    np.testing.assert_allclose(directions, (x - y) / norm[..., None], rtol=rtol)
    # Rows are processed together; for these short ones, whose length is known, indices are counted.
    assert ("++i1 ==" if shape == (300, 6, 8) else "k0 = i0") in text


def test_rows_that_change_along_the_last_axis_alone() -> None:
    x, w = rng.normal(size=(33, 5, 1)), rng.normal(size=6)
    (found,), _ = compiled(lambda x, w: tf.nn.softmax(tf.sin(x) * w, axis=-1), x, w)
    e = np.exp(np.sin(x) * w)
    np.testing.assert_allclose(found, e / e.sum(-1, keepdims=True), rtol=1e-10)


def test_conditions_and_bfloat16() -> None:
    x = rng.normal(size=(40, 6, 1)).astype(np.float32)
    y = rng.normal(size=(40, 1, 4)).astype(tf.bfloat16.as_numpy_dtype)
    keep = rng.normal(size=(6, 4)) > 0

    def function(x: Any, y: Any, keep: Any) -> Any:
        z = tf.where(keep, x * tf.cast(y, tf.float32), 0.0)
        return z - tf.reduce_max(z, axis=-1, keepdims=True)

    (found,), _ = compiled(function, x, y, keep)
    z = np.where(keep, x * y.astype(np.float32), np.float32(0))
    np.testing.assert_array_equal(found, z - z.max(-1, keepdims=True))
