"""Train in an elastic world that loses processes, and compare with training that loses none.

Arguments: the folder of checkpoints, and how processes are lost, the last one and then the first.
"""

import os
import signal
import sys
import time

import numpy as np

import tapegrad as tf
from tapegrad import distribute, keras
from tapegrad.core.world import current_world

folder, *ways = sys.argv[1:]
distribute.init(timeout=3.0 if "loop" in ways else 60.0, elastic=True)
ROWS, STEPS, SHARDS = 24, 12, 6
first_size = distribute.size()
rng = np.random.default_rng(0)
x = tf.constant(rng.normal(size=(ROWS, 8)).astype("float32"))
y = tf.constant(rng.normal(size=(ROWS, 2)).astype("float32"))


def fail(way):
    if way == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "error":
        raise ZeroDivisionError("the data of this rank are bad")
    if way == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    while way == "loop":
        time.sleep(0.01)


def train(name, ways):
    """Make the model and train it; lose a process at steps 4, 8 and so on."""
    tf.random.set_seed(0)
    layers = [keras.layers.Dense(40, "tanh"), keras.layers.Dense(2)]
    model = keras.Sequential([keras.Input((8,)), *layers])
    optimizer = distribute.shard_states(keras.optimizers.Adam(0.01))

    @tf.function(wait=True)
    def gradients(inputs, targets):
        with tf.GradientTape() as tape:
            error = model(inputs, training=True) - targets
            loss = tf.reduce_sum(error * error) / ROWS
        return tape.gradient(loss, model.trainable_variables)

    place = os.path.join(folder, name)
    checkpoint = distribute.ShardedCheckpoint(place, model=model, optimizer=optimizer)
    start = checkpoint.restore() or 0
    for step in range(start, STEPS):
        number = first_size - distribute.size()
        is_next = number < len(ways) and step == 4 * (number + 1)
        if is_next and distribute.rank() == (0 if number else distribute.size() - 1):
            while not checkpoint.numbers():  # a thread writes it
                time.sleep(0.01)
            fail(ways[number])
        total = distribute.sum_over_shards(gradients, [x, y], SHARDS)
        pairs = zip(total, model.trainable_variables)
        optimizer.apply_gradients(pairs, skip_gradients_aggregation=True)
        if step % 3 == 2:
            checkpoint.save(step + 1)
    checkpoint.wait()
    return start, model.get_weights()


_, expected = distribute.run_elastic(train, "whole", [])
losses = []
current_world().peers.on_loss(lambda: losses.append("said"))
began = time.monotonic()
start, found = distribute.run_elastic(train, "lossy", ways)
assert start > 0, start
for one, other in zip(found, expected):
    np.testing.assert_array_equal(one, other)
assert losses == ["said"], losses
assert distribute.size() == first_size - len(ways), distribute.size()
assert time.monotonic() - began < 10 * len(ways) + 20
total = float(distribute.all_reduce(tf.constant(1.0)))
print(f"done {distribute.rank()} of {total:.0f}", flush=True)
