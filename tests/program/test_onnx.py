"""Exported ONNX models compute what the functions compute, in onnxruntime."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad import keras
from tapegrad.onnx import export
from tapegrad.testing.samples import all_samples

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
onnxruntime.set_default_logger_severity(4)

WITHOUT_KERNELS = {"elliprj"}
"""Samples with an operator and a dtype that onnxruntime does not have on the CPU."""
PART = 1 if os.environ.get("TAPEGRAD_LONG") else 24


def outputs_of(model: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    read = {one.name for one in session.get_inputs()}
    given = {one.name: a for one, a in zip(model.graph.input, arrays) if one.name in read}
    return session.run(None, given)  # type: ignore[no-any-return]


def check(model: Any, function: Callable[..., Any], *arrays: Any, tolerance: float = 1e-5) -> None:
    found = outputs_of(model, arrays)
    wanted = [one.numpy() for one in tf.nest.flatten(function(*map(tf.constant, arrays)))]
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, rtol=20 * tolerance, atol=2 * tolerance)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype("float32")


@pytest.mark.parametrize(
    "sample", [s for s in all_samples() if s.records][::PART], ids=lambda sample: sample.name
)
def test_samples(sample: Any) -> None:
    """A sample of the table is exported and agrees, or is refused by a sentence."""
    arrays = [a.astype("float32") if a.dtype == np.float64 else a for a in sample.make()]
    try:
        model = export(sample.function, None, *map(tf.constant, arrays))
    except tf.errors.UnimplementedError:
        return
    if sample.name not in WITHOUT_KERNELS:
        check(model, sample.function, *arrays)


def test_a_batch_of_any_size() -> None:
    weights = tf.Variable(random(4, 3))

    def function(x: Any, y: Any) -> dict[str, Any]:
        scaled = tf.nn.softmax(tnp.reshape(x, (-1, 4)) @ weights)
        return {"mean": tf.reduce_mean(scaled, 0), "product": tf.reshape(scaled, [-1]) * y[0, 0]}

    specs = tf.TensorSpec([None, 2, 2]), tf.TensorSpec([None, None])
    model = export(function, None, *specs)
    assert [one.name for one in model.graph.input] == ["x", "y"]
    assert [one.name for one in model.graph.output] == ["mean", "product"]
    for batch, length in ((1, 1), (3, 2), (17, 5)):
        check(model, function, random(batch, 2, 2), random(batch, length))


def test_an_image_model(tmp_path: Path) -> None:
    layers = keras.layers
    model = keras.Sequential([
        layers.Input((12, 12, 3)),
        layers.Conv2D(6, 3, strides=2, padding="same", activation="relu"),
        layers.BatchNormalization(),
        layers.DepthwiseConv2D(3, padding="same"),
        layers.MaxPooling2D(2),
        layers.UpSampling2D(interpolation="bilinear"),
        layers.Conv2DTranspose(4, 3, strides=2, padding="same"),
        layers.AveragePooling2D(2, padding="same"),
        layers.LayerNormalization(),
        layers.Dropout(0.5),
        layers.GlobalAveragePooling2D(),
        layers.Dense(10, activation="softmax"),
    ])  # fmt: skip
    model.export(tmp_path / "image.onnx", format="onnx")
    loaded = onnx.load(tmp_path / "image.onnx")
    for batch in (1, 5):
        check(loaded, lambda x: model(x, training=False), random(batch, 12, 12, 3))


def test_a_language_model_of_any_length() -> None:
    layers = keras.layers
    tokens = keras.Input((None,), dtype="int32")
    x = layers.Embedding(20, 8)(tokens)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True))
    model = keras.Model(tokens, layers.Dense(20, activation="gelu")(x))
    exported = export(model, None, tf.TensorSpec([None, None], "int32", name="tokens"))
    rng = np.random.default_rng(0)
    for shape in ((1, 3), (4, 11)):
        check(exported, model, rng.integers(0, 20, shape).astype("int32"))


def test_gradients_are_operations_like_others() -> None:
    def energy(x: Any) -> Any:
        return tf.reduce_sum(tf.tanh(x) ** 2 * tf.math.log1p(tf.exp(x)))

    slope = tf.grad(energy)
    check(export(slope, None, tf.TensorSpec([None, 3])), slope, random(5, 3))


def test_functions_with_names_and_opset() -> None:
    @tf.function
    def double(x: Any) -> Any:
        return 2 * x

    model = export(double, None, random(2, 3), input_names=["a"], output_names=["b"], opset=20)
    assert [one.name for one in (*model.graph.input, *model.graph.output)] == ["a", "b"]
    assert model.opset_import[0].version == 20
    check(model, double, random(2, 3))


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (tf.math.lgamma, r"because of lgamma at .*test_onnx.py.*no operators"),
    (lambda x: x + tf.random.uniform([3]), "random_uniform"),
    (tf.linalg.inv, r"inv.* at .*test_onnx.py"),
]


@pytest.mark.parametrize(("function", "words"), REFUSED)
def test_what_onnx_has_no_operators_for(function: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(NotImplementedError, match=words):
        export(lambda x: function(x), None, np.eye(3, dtype="float32"))


def test_refusals() -> None:
    count = tf.Variable(0.0)
    with pytest.raises(NotImplementedError, match="assigns to a variable"):
        export(lambda x: x + count.assign_add(1.0), None, random(2))
    with pytest.raises(ValueError, match="opset must be from 18"):
        export(tf.tanh, None, random(2), opset=9)
    with pytest.raises(ValueError, match="input_names must be 1 different names"):
        export(tf.tanh, None, random(2), input_names=["a", "b"])
    with pytest.raises(ValueError, match="output_names must be 1 different names"):
        export(tf.tanh, None, random(2), output_names=["a", "b"])
    with pytest.raises(ValueError, match="zeros in the place of a TensorSpec"):
        export(tf.linalg.inv, None, tf.TensorSpec([3, 3]))
