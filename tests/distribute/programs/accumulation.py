"""When gradients travel: once per step if accumulated, and during the sweep if recorded."""

import re

import numpy as np

import tapegrad as tf
import tapegrad.compat.horovod as hvd
from tapegrad import distribute, keras
from tapegrad.core.world import current_world
from tapegrad.ops.collective.replicas import BUCKET, buckets

distribute.init()
rank, size = distribute.rank(), distribute.size()
STEPS, CALLS = 3, 7
gradients = np.random.default_rng(0).normal(size=(size, CALLS, 5)).astype("float32")
peers = current_world().peers


def expected(divisor):
    """Return the weights after each call: a step has the mean of STEPS sums over all processes."""
    w, found = np.ones(5), []
    for call in range(CALLS):
        if call % STEPS == STEPS - 1:
            calls = gradients[:, call - STEPS + 1 : call + 1].astype("float64")
            w = w - 0.5 * calls.sum((0, 1)) / divisor
        found.append(w)
    return found


def check(optimizer, divisor, is_recorded, messages=1, precision=1e-5):
    w, other = tf.Variable(np.ones(5, "float32")), tf.Variable(np.zeros((2, 2), "float32"))

    def step(gradient):
        optimizer.apply_gradients([(gradient, w), (tf.ones((2, 2)), other)])

    run = tf.function(step) if is_recorded else step
    counts = []
    for call, wanted in enumerate(expected(divisor)):
        before = peers._number
        run(tf.constant(gradients[rank, call]))
        counts.append(peers._number - before)
        np.testing.assert_allclose(w.numpy(), wanted, rtol=precision, atol=precision)
        ones = np.full((2, 2), -0.5 * size * ((call + 1) // STEPS) * STEPS / divisor)
        np.testing.assert_allclose(other.numpy(), ones, rtol=precision)
    assert counts == [messages * one for one in (0, 0, 1, 0, 0, 1, 0)], (counts, is_recorded)


strategy = tf.distribute.MirroredStrategy()
for is_recorded in (False, True):
    with strategy.scope():
        optimizer = keras.optimizers.SGD(0.5, gradient_accumulation_steps=STEPS)
    check(optimizer, STEPS, is_recorded)
    # The sum is scattered, and the new weights are gathered.
    optimizer = keras.optimizers.SGD(0.5, momentum=0.0, gradient_accumulation_steps=STEPS)
    check(distribute.shard_states(optimizer), STEPS, is_recorded, 2)
    # Parts are exchanged, and their sums are gathered.
    with strategy.scope():
        optimizer = keras.optimizers.SGD(0.5, gradient_accumulation_steps=STEPS)
    check(distribute.compress_gradients(optimizer), STEPS, is_recorded, 2, 0.05)
    optimizer = hvd.DistributedOptimizer(
        keras.optimizers.SGD(0.5), backward_passes_per_step=STEPS, op=hvd.Sum
    )
    check(optimizer, 1, is_recorded)
# A recorded step starts to add each bucket as soon as its gradients are there, and waits last.
buckets.__defaults__ = (1,)
with strategy.scope():
    layers = [keras.layers.Dense(4, use_bias=False) for _ in range(3)]
    model = keras.Sequential([keras.Input((4,)), *layers])
    optimizer = keras.optimizers.SGD(0.1)


@tf.function
def train(inputs):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(inputs) ** 2)
    found = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(found, model.trainable_variables))


train(tf.ones((2, 4)))
steps = re.findall(r"# (matmul|start_sum|wait)", train.program(tf.ones((2, 4))).source())
assert [steps.count(name) for name in ("matmul", "start_sum", "wait")] == [8, 3, 3], steps
starts = [k for k, name in enumerate(steps) if name == "start_sum"]
assert all(steps[k - 1] in ("matmul", "wait") for k in starts), steps
# The gradients of two layers travel while those of another one are computed.
assert steps[starts[0] : steps.index("wait")].count("matmul") >= 3, steps
assert steps[-4:] == ["wait", "start_sum", "wait", "wait"], steps


def steps_of(shard):
    """Return the names of the steps of a program that trains three layers."""
    layers = [keras.layers.Dense(40, use_bias=False) for _ in range(3)]
    model = keras.Sequential([keras.Input((40,)), *layers])
    optimizer = keras.optimizers.SGD(0.1, momentum=0.5)
    optimizer = shard(model, optimizer) or optimizer

    @tf.function
    def train(inputs):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(inputs) ** 2)
        found = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(found, model.trainable_variables))

    x = tf.ones((2, 40))
    train(x)
    return re.findall(
        r"# (matmul|start_\w+|wait|gather_\w+|\w+_scatter)", train.program(x).source()
    )


# Sharded states: gradients of the last layers travel while others are computed.
steps = steps_of(lambda model, optimizer: distribute.shard_states(optimizer))
assert [steps.count(name) for name in ("start_reduce_scatter", "start_all_gather")] == [3, 3], steps
assert steps.count("wait") == 6, steps
assert steps[: steps.index("wait")].count("matmul") >= 6, steps
buckets.__defaults__ = (BUCKET,)
# Sharded weights: those of the next layer travel while one computes, and so do gradients.
steps = steps_of(lambda model, optimizer: distribute.fully_shard(model) and None)
gather, scatter = "start_gather_shards", "start_scatter_shards"
assert steps[:7] == [gather, gather, "wait", "matmul", gather, "wait", "matmul"], steps
assert [steps.count(name) for name in (gather, scatter, "wait")] == [5, 3, 8], steps
for k, name in enumerate(steps):
    if name == gather:  # never more than one whole weight beside the one that computes
        assert steps[:k].count(gather) - steps[:k].count("matmul") <= 1, steps
assert "matmul" in steps[steps.index(scatter) : -1], steps
print("accumulated", rank, flush=True)
