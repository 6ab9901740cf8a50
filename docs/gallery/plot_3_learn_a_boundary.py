"""
Train a network, by hand
========================

A tape, an optimizer and a loop: the network learns to tell two spirals apart. The whole step is
compiled by ``tf.function``.
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

import tapegrad as tf

rng = np.random.default_rng(1)
tf.random.set_seed(1)
angle = np.sqrt(rng.uniform(size=400)) * 3 * np.pi
side = np.repeat([0.0, 1.0], 200)
radius = angle / (3 * np.pi)
x = np.stack([radius * np.cos(angle + np.pi * side), radius * np.sin(angle + np.pi * side)], axis=1)
x = (x + 0.01 * rng.normal(size=x.shape)).astype("float32")
y = side[:, None].astype("float32")

# %%
# Three layers, written out:

sizes = [2, 48, 48, 1]
weights = [tf.Variable(tf.random.normal([n, m], stddev=np.sqrt(2 / n))) for n, m in pairwise(sizes)]
biases = [tf.Variable(tf.zeros([m])) for m in sizes[1:]]
optimizer = tf.optimizers.Adam(0.01)


def network(x):
    for w, b in zip(weights[:-1], biases):
        x = tf.nn.silu(x @ w + b)
    return x @ weights[-1] + biases[-1]


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=network(x))
        loss = tf.reduce_mean(losses)
    variables = weights + biases
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss


losses = [float(step(x, y)) for _ in range(600)]
assert losses[-1] < 0.2 * losses[0]

# %%
# The boundary between the two classes, and the loss:

side_by_side, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
grid = np.linspace(-1.2, 1.2, 120, dtype="float32")
points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
left.contourf(grid, grid, np.asarray(tf.sigmoid(network(points))).reshape(120, 120), cmap="RdBu")
left.scatter(*x.T, c=side, s=8, cmap="RdBu", edgecolors="k", linewidths=0.3)
left.set_title("learned boundary")
right.semilogy(losses)
right.set_title("loss")
plt.show()
