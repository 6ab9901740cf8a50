"""Pickles of tensors, variables, dtypes, optimizers, layers, models and random generators.

A pickle names the modules and the attributes of the objects in it, so it is the format that a
rename breaks first. Tests of `copy` and `pickle` within one revision do not notice that.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad import keras
from tests.compatibility import models
from tests.compatibility.cases import Case, Outcome, fingerprint

PROTOCOL = 4


def _case(make: Callable[[], Any], observe: Callable[[Any], Outcome]) -> Case:
    def write(folder: Path) -> Outcome:
        keras.utils.set_random_seed(1)
        value = make()
        (folder / "value.pickle").write_bytes(pickle.dumps(value, PROTOCOL))
        return observe(value)

    def read(folder: Path) -> Outcome:
        return observe(pickle.loads((folder / "value.pickle").read_bytes()))

    return Case(write, read)


# Values


def _values() -> dict[str, Any]:
    return {
        "tensor": tf.constant([[1.5, -2.0]]),
        "half": tf.constant([1.5, 3.0], "bfloat16"),
        "scalar": tf.constant(3),
        "variable": tf.Variable([1.0, 2.0], name="w", trainable=False),
        "constrained": tf.Variable([0.5], constraint=keras.constraints.NonNeg()),
        "dtypes": [tf.float32, tf.bool, tf.bfloat16, tf.as_dtype("complex128")],
        "shape": tf.constant([[1.0, 2.0]]).shape,
        "functions": [tnp.sin, tnp.special.erf, tnp.add],
    }


def _observe_values(values: dict[str, Any]) -> Outcome:
    arrays = {name: values[name] for name in ("tensor", "half", "scalar", "variable")}
    variable = values["variable"]
    x = np.array([0.5, 1.0], "float32")
    stored = {
        **arrays,
        "about": [
            variable.name,
            variable.trainable,
            type(values["constrained"].constraint).__name__,
        ],
        "dtypes": [dtype.name for dtype in values["dtypes"]],
        "shape": list(values["shape"]),
    }
    sin, erf, add = values["functions"]
    results = [sin(x), erf(x), add(x, x[::-1])]
    return Outcome(stored, {"functions": results, "twice": values["tensor"] * 2.0})


# Optimizers with their variables


def _optimizers() -> list[Any]:
    pairs = [
        (tf.optimizers.Adam(0.1, use_ema=True), tf.Variable([1.0, 2.0])),
        (keras.optimizers.Adam(0.1, amsgrad=True, weight_decay=0.1), tf.Variable([1.0, 2.0])),
        (keras.optimizers.Lamb(0.1), tf.Variable([1.0, 2.0])),
        (models.SignMomentum(0.1), tf.Variable([1.0, 2.0])),
    ]
    for pair in pairs:
        _step(*pair)
    return pairs


def _step(optimizer: Any, variable: Any) -> None:
    optimizer.apply_gradients([(tf.cos(variable), variable)])


def _observe_optimizers(pairs: list[Any]) -> Outcome:
    stored = [fingerprint([v, *optimizer.variables]) for optimizer, v in pairs]
    for pair in pairs:
        _step(*pair)
    return Outcome({"state": stored}, {"after": [v for _, v in pairs]})


# Layers and models


def _model_case(name: str) -> Case:
    make, x, y = models.MODELS[name]

    def trained() -> Any:
        model = make()
        model.fit(x, y, epochs=2, verbose=0, shuffle=False)
        return model

    return _case(trained, lambda model: models.observe(model, x, y))


def _layers() -> list[Any]:
    made = [keras.layers.Dense(2, "relu"), keras.layers.LSTM(2), keras.layers.Dropout(0.5, seed=3)]
    for layer in made:
        layer(_INPUT, training=True)
    return made


_INPUT = np.random.default_rng(5).normal(size=(2, 3, 2)).astype("float32")


def _observe_layers(made: list[Any]) -> Outcome:
    stored = [fingerprint(layer.variables) for layer in made]
    return Outcome({"layers": stored}, {"y": [layer(_INPUT, training=True) for layer in made]})


# Random generators and polynomials of tapegrad.numpy


def _numpy_objects() -> dict[str, Any]:
    return {
        "generator": tnp.random.default_rng(3),
        "legacy": tnp.random.RandomState(4),
        "polynomial": tnp.polynomial.Chebyshev([1.0, 2.0, 3.0]),
        "poly1d": tnp.poly1d([1.0, 2.0]),
    }


def _observe_numpy(objects: dict[str, Any]) -> Outcome:
    stored = {
        "generator": objects["generator"].integers(0, 1000, 3),
        "legacy": objects["legacy"].random_sample(2),
        "poly1d": objects["poly1d"](3.0),
        "polynomial": objects["polynomial"](0.5),
    }
    return Outcome(stored)


CASES = {
    "pickle-values": _case(_values, _observe_values),
    "pickle-optimizers": _case(_optimizers, _observe_optimizers),
    "pickle-layers": _case(_layers, _observe_layers),
    "pickle-numpy": _case(_numpy_objects, _observe_numpy),
    "pickle-sequential": _model_case("sequential"),
    "pickle-convolutional": _model_case("convolutional"),
}
