"""Models that Keras and tapegrad.keras build alike, and the files that Keras wrote of them.

KERAS_BACKEND=jax python tests/keras/interchange_models.py   writes the files again, with Keras
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "data" / "keras-3.15.1"


def stack(keras: Any) -> Any:
    layers = keras.layers
    model = keras.Sequential([
        keras.Input((4,)),
        layers.Dense(6, activation="relu", kernel_regularizer=keras.regularizers.L2(0.01)),
        layers.BatchNormalization(),
        layers.Dense(3, activation="softmax"),
    ])  # fmt: skip
    model.compile(
        keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    return model


def graph(keras: Any) -> Any:
    layers = keras.layers
    a, b = keras.Input((4,), name="a"), keras.Input((3,), name="b")
    shared = layers.Dense(4, activation="gelu")
    u, v = shared(a), layers.Dense(4)(b)
    one = layers.Dense(1, name="one")(layers.multiply([u, shared(v)]))
    two = layers.Dense(2, name="two")(keras.ops.concatenate([u, v], axis=-1) * 2.0 + 1.0)
    return keras.Model({"a": a, "b": b}, {"one": one, "two": two})


def nested(keras: Any) -> Any:
    layers = keras.layers
    inner = keras.Sequential(
        [keras.Input((5,)), layers.Dense(5, activation="tanh"), layers.BatchNormalization()]
    )
    x = keras.Input((5,))
    block = keras.Model(x, layers.LayerNormalization()(layers.Dense(5)(x)), name="block")
    x = keras.Input((5,))
    return keras.Model(x, layers.Dense(1)(block(inner(x)) + x))


def recurrent(keras: Any) -> Any:
    layers = keras.layers
    return keras.Sequential([
        keras.Input((None,), dtype="int32"),
        layers.Embedding(9, 4, mask_zero=True),
        layers.Bidirectional(layers.LSTM(3, return_sequences=True)),
        layers.RNN([layers.GRUCell(3), layers.LSTMCell(2)]),
        layers.Dense(2),
    ])  # fmt: skip


def attention(keras: Any) -> Any:
    layers = keras.layers
    x = keras.Input((5, 4))
    h = layers.LayerNormalization(epsilon=1e-6)(x + layers.MultiHeadAttention(2, 3)(x, x))
    h = layers.GroupQueryAttention(2, 4, 1)(h, h)
    return keras.Model(x, layers.TimeDistributed(layers.Dense(2))(h))


def images(keras: Any) -> Any:
    layers = keras.layers
    return keras.Sequential([
        keras.Input((8, 8, 3)),
        layers.Rescaling(1 / 255),
        layers.Conv2D(2, 3, padding="same", activation="relu"),
        layers.SeparableConv2D(3, 3),
        layers.SpatialDropout2D(0.1),
        layers.Conv2DTranspose(2, 2, strides=2),
        layers.SpectralNormalization(layers.Conv2D(2, 1)),
        layers.GlobalAveragePooling2D(),
    ])  # fmt: skip


MODELS = {one.__name__: one for one in (stack, graph, nested, recurrent, attention, images)}


def inputs(name: str) -> Any:
    rng = np.random.default_rng(3)
    if name == "recurrent":
        return np.array([[1, 2, 3, 0], [4, 5, 0, 0], [7, 8, 6, 3]], "int32")
    shapes = {"stack": (6, 4), "nested": (4, 5), "attention": (2, 5, 4), "images": (2, 8, 8, 3)}
    if name == "graph":
        return {key: rng.normal(size=(5, n)).astype("float32") for key, n in (("a", 4), ("b", 3))}
    return rng.normal(size=shapes[name]).astype("float32")


def outputs(model: Any, name: str) -> list[np.ndarray]:
    found = model.predict(inputs(name), verbose=0)
    return [np.asarray(one) for one in (found.values() if isinstance(found, dict) else [found])]


def with_other_weights(model: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    model.set_weights([rng.uniform(0.1, 0.6, w.shape).astype(w.dtype) for w in model.get_weights()])
    return model


LABELS = np.array([0, 1, 2, 0, 1, 2])


def trained(model: Any) -> list[float]:
    # Another order of the rows would round the loss in another way.
    history = model.fit(
        inputs("stack"), LABELS, epochs=2, batch_size=6, shuffle=False, verbose=0
    ).history
    return [float(loss) for loss in history["loss"]]


def _write() -> None:
    import keras

    found: dict[str, Any] = {}
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, make in MODELS.items():
        model = with_other_weights(make(keras), 1)
        if name == "stack":
            trained(model)
        model.save(FOLDER / f"{name}.keras")
        if name in ("stack", "recurrent", "images"):
            model.save(FOLDER / f"{name}.h5")
        found |= {f"{name}{n}": one for n, one in enumerate(outputs(model, name))}
        model.save_weights(FOLDER / f"{name}.weights.h5")
        if name == "stack":
            found["losses"] = np.array(trained(model))
    np.savez(FOLDER / "outputs.npz", **found)


if __name__ == "__main__":
    sys.exit(_write())
