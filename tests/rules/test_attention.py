"""The attention primitive: what it takes, edge cases, and half precision. Samples do the rest."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.ops.attention.functions import scaled_dot_product_attention
from tapegrad_numpy.kernels import attention as kernels


def draw(*shapes: tuple[int, ...], dtype: Any = "float64") -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def calls_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the calls of the primitive's NumPy kernel."""
    calls: list[str] = []
    kernel = kernels.attention

    def record(*args: Any, **params: Any) -> Any:
        calls.append("attention")
        return kernel(*args, **params)

    monkeypatch.setitem(PRIMITIVES["attention"].kernels, np.ndarray, record)
    return calls


def test_plain_attention_is_one_primitive(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = draw((2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 6))
    calls = calls_of(monkeypatch)

    scaled_dot_product_attention(q, k, v, causal=True)

    assert calls == ["attention"]


def test_masks_dropout_other_dtypes_and_broadcasting_are_composed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    q, k, v = draw((2, 3, 8), (2, 3, 8), (2, 3, 6))
    calls = calls_of(monkeypatch)

    scaled_dot_product_attention(q, k, v, mask=np.ones((3, 3), bool))
    scaled_dot_product_attention(q, k, v, dropout_rate=0.5)
    scaled_dot_product_attention(q.astype("float32"), k, v)
    scaled_dot_product_attention(q, k, v, scale=tf.constant(0.5, "float64"))
    scaled_dot_product_attention(q[:1], k, v)

    assert calls == []


def test_the_scale_may_be_learned() -> None:
    q, k, v = draw((2, 3, 8), (2, 3, 8), (2, 3, 6))
    scale = tf.Variable(0.3, dtype="float64")

    with tf.GradientTape() as tape:
        y = scaled_dot_product_attention(q, k, v, scale=scale)

    assert tape.gradient(y, scale) is not None


@pytest.mark.parametrize("generic", [False, True])
def test_without_keys_there_are_zeros_and_no_gradient(generic: bool) -> None:
    q, k, v, t = draw((2, 3, 4), (2, 0, 4), (2, 0, 5), (2, 3, 5))
    params = {"scale": 1.0, "causal": False}
    forward: Any = PRIMITIVES["attention"].forward
    backward: Any = PRIMITIVES["attention_gradient"].forward

    if generic:
        y, kept = forward(np, q, k, v, **params)
        gradients = backward(np, t, q, k, v, y, kept, **params)
    else:
        y, kept = kernels.attention(q, k, v, **params)
        gradients = kernels.attention_gradient(t, q, k, v, y, kept, **params)

    np.testing.assert_array_equal(y, np.zeros((2, 3, 5)))
    np.testing.assert_array_equal(gradients[0], np.zeros((2, 3, 4)))
    assert [g.shape for g in gradients[1:]] == [(2, 0, 4), (2, 0, 5)]


@pytest.mark.parametrize("causal", [False, True])
def test_the_kernel_equals_the_generic_one(causal: bool) -> None:
    q, k, v, t = draw((2, 6, 7, 4), (2, 2, 5, 4), (2, 2, 5, 3), (2, 6, 7, 3))
    params = {"scale": -0.7, "causal": causal}
    forward: Any = PRIMITIVES["attention"].forward
    backward: Any = PRIMITIVES["attention_gradient"].forward

    expected = forward(np, q, k, v, **params)
    result = kernels.attention(q, k, v, **params)
    gradients = kernels.attention_gradient(t, q, k, v, *result, **params)

    references = (*expected, *backward(np, t, q, k, v, *expected, **params))
    for array, reference in zip((*result, *gradients), references, strict=True):
        np.testing.assert_allclose(array, reference, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
def test_half_precision_rounds_once(dtype: Any) -> None:
    arrays = draw((2, 33, 16), (2, 40, 16), (2, 40, 16), dtype=dtype)
    tensors = [tf.constant(array) for array in arrays]

    with tf.GradientTape() as tape:
        tape.watch(tensors)
        y = scaled_dot_product_attention(*tensors)
    gradients = tape.gradient(y, tensors)

    wide = [tf.constant(array.astype("float64")) for array in arrays]
    with tf.GradientTape() as tape:
        tape.watch(wide)
        reference = scaled_dot_product_attention(*wide)
    references = [reference, *tape.gradient(reference, wide)]
    rounding = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[np.dtype(dtype).name]
    for result, expected in zip([y, *gradients], references, strict=True):
        assert result.dtype == tensors[0].dtype
        error = np.abs(result.numpy().astype("float64") - expected.numpy()).max()
        assert error <= 2 * rounding * np.abs(expected.numpy()).max()
