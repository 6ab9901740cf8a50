"""Train with keras.distribution and compare with a model that each process trains alone."""

import numpy as np

import tapegrad as tf
from tapegrad import distribute, keras
from tapegrad.keras.distribution import DataParallel, DeviceMesh, LayoutMap, ModelParallel

distribute.init()
rank, size = distribute.rank(), distribute.size()
rng = np.random.default_rng(0)
ROWS, BATCH = 22, 8  # a last batch of six rows
ids = rng.integers(0, 30, size=(ROWS, 5))
y = rng.normal(size=(ROWS, 4)).astype("float32")


def make_model():
    tf.random.set_seed(1)
    tokens = keras.Input((5,), dtype="int64")
    h = keras.layers.Embedding(30, 8, name="table")(tokens)
    h = keras.layers.MultiHeadAttention(4, 2, name="attention")(h, h)
    h = keras.layers.GlobalAveragePooling1D()(h)
    h = keras.layers.Dense(16, "tanh", name="first")(h)
    h = keras.layers.Dense(12, "softmax", name="second")(h)
    model = keras.Model(tokens, keras.layers.Dense(4, name="third")(h))
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    return model


def trained(model):
    done = model.fit(ids, y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0)
    return done.history


alone = make_model()
expected_history = trained(alone)
expected = alone.get_weights()
outputs = alone.predict(ids, verbose=0)


def check(distribution, cut):
    keras.distribution.set_distribution(distribution)
    model = make_model()
    history = trained(model)
    for name, values in expected_history.items():
        np.testing.assert_allclose(history[name], values, rtol=1e-4, err_msg=name)
    for name, shape in cut.items():
        assert tuple(model.named_variables()[name].shape) == shape, name
    np.testing.assert_allclose(model.predict(ids, verbose=0), outputs, rtol=1e-3, atol=1e-5)
    with distribute.whole_weights(model):
        for found, wanted in zip(model.get_weights(), expected):
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)
    keras.distribution.set_distribution(None)


def layouts(shape):
    found = LayoutMap(DeviceMesh(shape, ["batch", "model"]))
    found["table/embeddings"] = (None, "model")
    found["first/kernel"] = (None, "model")
    found["first/bias"] = ("model",)
    found["second/kernel"] = ("model", None)
    found["attention/query/kernel"] = (None, "model", None)
    found["third/kernel"] = (None, "batch")  # divided in memory only
    return found


check(DataParallel(), {})
shapes = [(1, size), (size, 1), (size // 2, 2)] if size > 1 else [(1, 1)]
for shape in dict.fromkeys(shapes):
    replicas, n = shape
    cut = {
        "table/embeddings": (30, 8 // n),
        "first/kernel": (8, 16 // n),
        "first/bias": (16 // n,),
        "second/kernel": (16 // n, 12),
        "attention/query/kernel": (8, 4 // n, 2),
        "third/kernel": (48 // replicas,),
    }
    check(ModelParallel(layout_map=layouts(shape), batch_dim_name="batch"), cut)
print("done", rank, flush=True)
