"""Train sharded models in all processes and compare with one that each process trains alone."""

import numpy as np

import tapegrad as tf
from tapegrad import distribute, keras
from tapegrad.ops.collective.replicas import using_replicas

distribute.init()
rank, size = distribute.rank(), distribute.size()
rng = np.random.default_rng(0)
ROWS = 6 * size
x = rng.normal(size=(ROWS, 12)).astype("float32")
ids = rng.integers(0, 50, size=(ROWS, 4))
y = rng.normal(size=(ROWS, 3)).astype("float32")
own = slice(rank * 6, rank * 6 + 6)


def make_model():
    """Return a model with most kinds of layers; all processes get the same weights."""
    tf.random.set_seed(1)
    features, tokens = keras.Input((12,)), keras.Input((4,), dtype="int64")
    h = keras.layers.Embedding(51, 24)(tokens)
    h = keras.layers.MultiHeadAttention(3, 8)(h, h)
    h = keras.layers.Conv1D(20, 2, padding="same")(h)
    h = keras.layers.LSTM(17)(h)
    h = keras.layers.Concatenate()([h, keras.layers.Dense(33, "tanh")(features)])
    h = keras.layers.LayerNormalization()(h)
    return keras.Model([features, tokens], keras.layers.Dense(3)(h))


def train(model, optimizer, rows, is_recorded, total=ROWS):
    """Make three steps in a loop of one's own."""

    def step(a, b, targets):
        with tf.GradientTape() as tape:
            error = model([a, b], training=True) - targets
            loss = tf.reduce_sum(error * error) / total
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    run = tf.function(step) if is_recorded else step
    for _ in range(3):
        run(tf.constant(x[rows]), tf.constant(ids[rows]), tf.constant(y[rows]))


def expect_weights(model, expected, what):
    for found, wanted, variable in zip(model.get_weights(), expected, model.variables):
        np.testing.assert_allclose(
            found, wanted, rtol=2e-4, atol=2e-6, err_msg=f"{what} {variable.name}"
        )


def adam(**options):
    return keras.optimizers.Adam(0.01, **options)


OPTIMIZERS = {
    "each clipped": lambda: adam(clipnorm=0.02),
    "decayed": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1),
    # The norm is that of the mean of three gradients, which are divided by the scale before.
    "accumulated": lambda: adam(
        global_clipnorm=0.05, gradient_accumulation_steps=3, loss_scale_factor=16.0
    ),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(adam(global_clipnorm=0.01), 8.0),
}
RECORDED = ("decayed", "accumulated")
expected = {}
for name, make in OPTIMIZERS.items():
    model = make_model()
    train(model, make(), slice(None), name in RECORDED)
    expected[name] = model.get_weights()

for name, make in OPTIMIZERS.items():
    model = distribute.fully_shard(make_model(), smallest=100)
    train(model, make(), own, name in RECORDED)
    held = sum(int(np.prod(v.shape)) for v in model.trainable_variables)
    assert size == 1 or held < 0.6 * sum(w.size for w in expected[name]), held
    with distribute.whole_weights(model):
        expect_weights(model, expected[name], f"fully sharded, {name}")

# A gradient that is infinite in the part of one process stops the step in all of them.
scaled = keras.optimizers.LossScaleOptimizer(adam(), 8.0)
before = model.get_weights()
pairs = [(tf.fill(v.shape, np.inf if rank == 0 else 0.0), v) for v in model.trainable_variables]
scaled.apply_gradients(pairs)
assert float(scaled.dynamic_scale) == 4.0, scaled.dynamic_scale
for found, wanted in zip(model.get_weights(), before):
    np.testing.assert_array_equal(found, wanted)

for name in ("each clipped", "decayed", "accumulated"):
    model = make_model()
    optimizer = distribute.shard_states(OPTIMIZERS[name]())
    train(model, optimizer, own, name in RECORDED)
    expect_weights(model, expected[name], f"sharded states, {name}")
    held = sum(int(np.prod(v.shape)) for v in optimizer.variables)
    # Two states per parameter are sharded; accumulated gradients are whole.
    whole = 1 if name == "accumulated" else 0
    assert held < (whole + 2.1 / size) * model.count_params(), held


# The same by `fit`, which divides the batches itself.
def fitted(model):
    model.compile(keras.optimizers.Adam(0.01), "mse")
    model.fit([x, ids], y, batch_size=8, epochs=2, shuffle=False, verbose=0)
    return model


with using_replicas(1):
    wanted = fitted(make_model()).get_weights()
with distribute.whole_weights(fitted(distribute.fully_shard(make_model(), smallest=100))) as model:
    expect_weights(model, wanted, "fit")

# Optimizers that need whole gradients are refused.
model = distribute.fully_shard(make_model(), smallest=100)
try:
    train(model, keras.optimizers.Lamb(0.01), own, False)
except tf.errors.InvalidArgumentError as error:
    assert "Lamb computes with whole gradients" in str(error), error
else:
    raise AssertionError("Lamb was accepted")
print("done", rank, flush=True)
