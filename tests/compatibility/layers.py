"""Every layer of `keras.layers`: its configuration, and its variables in a checkpoint.

The names in a checkpoint come from attributes, private ones included, so renaming an attribute of
a layer must not lose the values of old files.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad import keras
from tapegrad.keras import layers
from tests.compatibility.cases import Case, Outcome, fingerprint, load_configs, save_configs

_rng = np.random.default_rng(4)


def _values(*shape: int) -> Any:
    return _rng.normal(size=shape).astype("float32")


ROWS = _values(3, 4)
STEPS = _values(1, 4, 2)
IMAGES = _values(1, 4, 4, 1)
VOLUMES = _values(1, 3, 3, 3, 1)
PAIR = [_values(2, 3), _values(2, 3)]
QUERY_AND_VALUE = [_values(1, 2, 4), _values(1, 3, 4)]
BINS = np.array([[0, 2], [1, 1]])

# A tuple of data is one argument after the other, a list is one argument.
LAYERS: dict[str, tuple[Callable[[], Any], Any]] = {
    "Activation": (lambda: layers.Activation("gelu"), ROWS),
    "ActivityRegularization": (lambda: layers.ActivityRegularization(l1=0.1), ROWS),
    "AdditiveAttention": (lambda: layers.AdditiveAttention(), QUERY_AND_VALUE),
    "AlphaDropout": (lambda: layers.AlphaDropout(0.5, seed=1), ROWS),
    "Attention": (lambda: layers.Attention(use_scale=True), QUERY_AND_VALUE),
    "BatchNormalization": (lambda: layers.BatchNormalization(momentum=0.5), ROWS),
    "Bidirectional": (lambda: layers.Bidirectional(layers.GRU(2), "sum"), STEPS),
    "CategoryEncoding": (lambda: layers.CategoryEncoding(4, "count"), BINS),
    "CenterCrop": (lambda: layers.CenterCrop(2, 3), IMAGES),
    "Conv1D": (lambda: layers.Conv1D(2, 3, padding="causal"), STEPS),
    "Conv1DTranspose": (lambda: layers.Conv1DTranspose(2, 3, strides=2), STEPS),
    "Conv2D": (lambda: layers.Conv2D(2, (2, 3), activation="relu"), IMAGES),
    "Conv2DTranspose": (
        lambda: layers.Conv2DTranspose(1, 2, output_padding=1, strides=2),
        IMAGES[:, :2, :2],
    ),
    "Conv3D": (lambda: layers.Conv3D(2, 2), VOLUMES),
    "Conv3DTranspose": (lambda: layers.Conv3DTranspose(1, 2), VOLUMES[:, :2, :2, :1]),
    "Cropping1D": (lambda: layers.Cropping1D((1, 2)), STEPS),
    "Cropping2D": (lambda: layers.Cropping2D(((1, 0), (0, 1))), IMAGES),
    "Cropping3D": (lambda: layers.Cropping3D(1), VOLUMES),
    "Dense": (lambda: layers.Dense(2, "selu", kernel_regularizer="l2"), ROWS),
    "DepthwiseConv1D": (lambda: layers.DepthwiseConv1D(2, depth_multiplier=2), STEPS),
    "DepthwiseConv2D": (lambda: layers.DepthwiseConv2D(2), IMAGES),
    "Dot": (lambda: layers.Dot(axes=1, normalize=True), PAIR),
    "Dropout": (lambda: layers.Dropout(0.5, seed=2), ROWS),
    "ELU": (lambda: layers.ELU(0.5), ROWS),
    "EinsumDense": (lambda: layers.EinsumDense("abc,cd->abd", (None, 2), bias_axes="d"), STEPS),
    "Embedding": (lambda: layers.Embedding(3, 2), BINS),
    "Flatten": (lambda: layers.Flatten(), STEPS),
    "GRU": (lambda: layers.GRU(2, reset_after=False, return_sequences=True), STEPS),
    "GaussianDropout": (lambda: layers.GaussianDropout(0.5, seed=3), ROWS),
    "GaussianNoise": (lambda: layers.GaussianNoise(0.5, seed=4), ROWS),
    "GroupNormalization": (lambda: layers.GroupNormalization(2), ROWS),
    "GroupQueryAttention": (lambda: layers.GroupQueryAttention(2, 2, 1), tuple(QUERY_AND_VALUE)),
    "Identity": (lambda: layers.Identity(), ROWS),
    "LSTM": (lambda: layers.LSTM(2, go_backwards=True), STEPS),
    "Lambda": (lambda: layers.Lambda(keras.ops.square), ROWS),
    "LayerNormalization": (lambda: layers.LayerNormalization(axis=(1, 2)), STEPS),
    "LeakyReLU": (lambda: layers.LeakyReLU(0.25), ROWS),
    "Masking": (lambda: layers.Masking(1.0), STEPS),
    "MultiHeadAttention": (lambda: layers.MultiHeadAttention(2, 2, 1), tuple(QUERY_AND_VALUE)),
    "Normalization": (lambda: layers.Normalization(mean=2.0, variance=3.0), ROWS),
    "PReLU": (lambda: layers.PReLU("random_uniform", shared_axes=[1]), STEPS),
    "Permute": (lambda: layers.Permute((2, 1)), STEPS),
    "RMSNormalization": (lambda: layers.RMSNormalization(), ROWS),
    "RNN": (lambda: layers.RNN([layers.GRUCell(2), layers.SimpleRNNCell(2)]), STEPS),
    "RandomBrightness": (lambda: layers.RandomBrightness(0.2, seed=5), IMAGES),
    "RandomContrast": (lambda: layers.RandomContrast(0.2, seed=6), IMAGES),
    "RandomCrop": (lambda: layers.RandomCrop(2, 2, seed=7), IMAGES),
    "RandomFlip": (lambda: layers.RandomFlip("horizontal", seed=8), IMAGES),
    "RandomRotation": (lambda: layers.RandomRotation(0.2, seed=9), IMAGES),
    "RandomTranslation": (lambda: layers.RandomTranslation(0.5, 0.5, seed=10), IMAGES),
    "RandomZoom": (lambda: layers.RandomZoom(0.5, seed=11), IMAGES),
    "ReLU": (lambda: layers.ReLU(max_value=1.0, negative_slope=0.5), ROWS),
    "RepeatVector": (lambda: layers.RepeatVector(2), ROWS),
    "Rescaling": (lambda: layers.Rescaling(0.5, offset=1.0), ROWS),
    "Reshape": (lambda: layers.Reshape((-1, 2)), ROWS),
    "Resizing": (lambda: layers.Resizing(3, 5), IMAGES),
    "RotaryEmbedding": (lambda: layers.RotaryEmbedding(), QUERY_AND_VALUE[0]),
    "SeparableConv1D": (lambda: layers.SeparableConv1D(2, 2), STEPS),
    "SeparableConv2D": (lambda: layers.SeparableConv2D(2, 2), IMAGES),
    "SimpleRNN": (lambda: layers.SimpleRNN(2), STEPS),
    "Softmax": (lambda: layers.Softmax(axis=1), STEPS),
    "SpatialDropout1D": (lambda: layers.SpatialDropout1D(0.5, seed=12), STEPS),
    "SpatialDropout2D": (lambda: layers.SpatialDropout2D(0.5, seed=13), IMAGES),
    "SpatialDropout3D": (lambda: layers.SpatialDropout3D(0.5, seed=14), VOLUMES),
    "SpectralNormalization": (lambda: layers.SpectralNormalization(layers.Dense(2)), ROWS),
    "StackedRNNCells": (lambda: layers.RNN(layers.StackedRNNCells([layers.LSTMCell(2)])), STEPS),
    "TimeDistributed": (lambda: layers.TimeDistributed(layers.Dense(2)), STEPS),
    "UnitNormalization": (lambda: layers.UnitNormalization(), ROWS),
    "UpSampling1D": (lambda: layers.UpSampling1D(2), STEPS),
    "UpSampling2D": (lambda: layers.UpSampling2D(2, interpolation="bilinear"), IMAGES[:, :2, :2]),
    "UpSampling3D": (lambda: layers.UpSampling3D(2), VOLUMES[:, :1, :1, :1]),
    "ZeroPadding1D": (lambda: layers.ZeroPadding1D((1, 0)), STEPS),
    "ZeroPadding2D": (lambda: layers.ZeroPadding2D(((1, 0), (0, 0))), IMAGES),
    "ZeroPadding3D": (
        lambda: layers.ZeroPadding3D(((1, 0), (0, 0), (0, 0))),
        VOLUMES[:, :1, :2, :2],
    ),
    **{
        name: (getattr(layers, name), PAIR)
        for name in ("Add", "Average", "Concatenate", "Maximum", "Minimum", "Multiply", "Subtract")
    },
    **{
        f"{kind}{n}D": (partial(getattr(layers, f"{kind}{n}D"), *arguments), data)
        for kind, arguments in {
            "AveragePooling": (2,),
            "MaxPooling": (2,),
            "GlobalAveragePooling": (),
            "GlobalMaxPooling": (),
        }.items()
        for n, data in ((1, STEPS), (2, IMAGES), (3, VOLUMES))
    },
}

BUILT_OTHERWISE = {
    "GRUCell", "Input", "InputLayer", "LSTMCell", "Layer", "SimpleRNNCell",
}  # fmt: skip
"""Classes that other cases cover: cells inside of RNN layers, inputs of functional models."""


def write(folder: Path) -> Outcome:
    _refuse_missing()
    keras.utils.set_random_seed(3)
    made = {name: make() for name, (make, _) in LAYERS.items()}
    save_configs(made, folder)
    _call_all(made)
    tf.train.Checkpoint(layers=made).write(folder / "layers")
    return _observe(made)


def read(folder: Path) -> Outcome:
    made = load_configs(folder)
    _call_all(made)
    tf.train.Checkpoint(layers=made).read(folder / "layers").assert_consumed()
    return _observe(made)


def _refuse_missing() -> None:
    """Raise unless each class has a row; aliases are the classes that they name."""
    public = [getattr(layers, name) for name in layers.__all__]
    names = {one.__name__ for one in public if isinstance(one, type)}
    missing = names - LAYERS.keys() - BUILT_OTHERWISE
    assert not missing, f"No row for these layers: {sorted(missing)}"


def _call_all(made: dict[str, Any]) -> dict[str, Any]:
    return {
        name: made[name](*(x if isinstance(x, tuple) else (x,)), training=True)
        for name, (_, x) in LAYERS.items()
    }


def _observe(made: dict[str, Any]) -> Outcome:
    stored = {name: fingerprint(one.variables) for name, one in made.items()}
    return Outcome(stored, {"training": _call_all(made)})


CASES = {"layers": Case(write, read)}
