"""Train with checkpoints from where an earlier run was killed, and write the final weights.

Arguments: the folder, the file for the result, the number of steps, the step before which the last
rank kills itself, the seconds that it waits before, and how the model is sharded.
"""

import os
import signal
import sys
import time

import numpy as np

import tapegrad as tf
from tapegrad import distribute, keras

folder, target, steps, killed, delay, mode = sys.argv[1:]
distribute.init(timeout=30)
rank, size = distribute.rank(), distribute.size()
ROWS, SHARDS = 24, 6
rng = np.random.default_rng(0)
x = tf.constant(rng.normal(size=(ROWS, 8)).astype("float32"))
y = tf.constant(rng.normal(size=(ROWS, 2)).astype("float32"))
tf.random.set_seed(0)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(40, "tanh"), keras.layers.Dense(2)])
optimizer = keras.optimizers.Adam(0.01)
if mode == "states":
    distribute.shard_states(optimizer)


@tf.function(wait=True)
def gradients(inputs, targets):
    with tf.GradientTape() as tape:
        error = model(inputs, training=True) - targets
        loss = tf.reduce_sum(error * error) / ROWS
    return tape.gradient(loss, model.trainable_variables)


checkpoint = distribute.ShardedCheckpoint(folder, keep=2, model=model, optimizer=optimizer)
start = checkpoint.restore() or 0
for step in range(start, int(steps)):
    if step == int(killed) and rank == size - 1:
        time.sleep(float(delay))  # a thread may be writing a checkpoint
        os.kill(os.getpid(), signal.SIGKILL)
    total = distribute.sum_over_shards(gradients, [x, y], SHARDS)
    pairs = zip(total, model.trainable_variables)
    optimizer.apply_gradients(pairs, skip_gradients_aggregation=True)
    if step % 3 == 2:
        checkpoint.save(step + 1)
checkpoint.wait()
if rank == 0:
    with open(target, "wb") as file:
        file.write(b"".join(w.tobytes() for w in model.get_weights()))
print("done", rank, start, flush=True)
