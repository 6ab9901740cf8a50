"""Train in a fixed order of additions and print a digest of the weights."""

import hashlib

import numpy as np

import tapegrad as tf
from tapegrad import distribute, keras

distribute.init()
SHARDS, ROWS, STEPS = 7, 50, 200
rng = np.random.default_rng(0)
x = tf.constant(rng.normal(size=(ROWS, 6)).astype("float32"))
y = tf.constant(rng.normal(size=(ROWS, 1)).astype("float32"))
weights = [tf.Variable(rng.normal(size=shape).astype("float32")) for shape in ((6, 5), (5, 1))]
optimizer = tf.optimizers.Adam(0.01)


@tf.function(wait=True)
def gradients(inputs, targets):
    with tf.GradientTape() as tape:
        error = tf.tanh(inputs @ weights[0]) @ weights[1] - targets
        loss = tf.reduce_sum(error * error) / ROWS
    return loss, tape.gradient(loss, weights)


for _ in range(STEPS):
    loss, total = distribute.sum_over_shards(gradients, [x, y], SHARDS)
    optimizer.apply_gradients(zip(total, weights))
digest = hashlib.sha256(b"".join(w.numpy().tobytes() for w in weights)).hexdigest()
print(f"{digest} {float(loss):.6f}", flush=True)

# The same by `fit`, with dropout, shuffled batches and a last one with fewer rows than shards.
with tf.distribute.MultiWorkerMirroredStrategy().scope():
    tf.random.set_seed(3)
    layers = [keras.layers.Dense(9, "relu"), keras.layers.Dropout(0.3), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((6,)), *layers])
    model.compile("adam", "mse", metrics=["mae"])
with distribute.same_bits(SHARDS):
    history = model.fit(x, y, batch_size=16, epochs=50, verbose=0).history
digest = hashlib.sha256(b"".join(w.tobytes() for w in model.get_weights())).hexdigest()
print(f"{digest} {history['loss'][-1]:.5f} {history['mae'][-1]:.5f}", flush=True)
