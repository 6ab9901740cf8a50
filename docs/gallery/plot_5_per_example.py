"""
Gradients of single examples
============================

The gradient of a batch hides which examples pull hardest. ``tf.vmap`` of ``tf.grad`` computes one
gradient for each example, without a loop. Here their norms find the outliers of a regression.
"""

import matplotlib.pyplot as plt
import numpy as np

import tapegrad as tf

rng = np.random.default_rng(2)
x = rng.uniform(-1, 1, size=120)
y = 1.5 * x + 0.2 + 0.05 * rng.normal(size=x.size)
outliers = rng.choice(x.size, 6, replace=False)
y[outliers] += rng.choice([-1.0, 1.0], 6)


def loss(line, x, y):
    return (line[0] * x + line[1] - y) ** 2


line = tf.constant(np.polyfit(x, y, 1))
each = tf.vmap(tf.grad(loss), in_axes=(None, 0, 0))(line, tf.constant(x), tf.constant(y))
norms = np.linalg.norm(np.asarray(each), axis=1)
assert set(np.argsort(norms)[-6:]) == set(outliers)

# %%
# Larger points have larger gradients:

plt.figure(figsize=(7, 3.2), layout="constrained")
plt.scatter(x, y, s=4 + 60 * norms / norms.max(), c=norms, cmap="viridis")
plt.axline((0.0, float(line[1])), slope=float(line[0]), color="0.5")
plt.colorbar(label="norm of the gradient")
plt.show()
