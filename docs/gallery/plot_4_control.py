"""
Differentiate a simulation
==========================

A ball is thrown against air resistance. The simulation is a loop in Python; its gradient says how
to change the throw so that the ball lands where it should.
"""

import matplotlib.pyplot as plt
import numpy as np

import tapegrad as tf

TARGET, STEPS, DT = 12.0, 60, 0.03


def simulate(velocity):
    position, path = tf.zeros([2], "float64"), []
    for _ in range(STEPS):
        speed = tf.norm(velocity)
        velocity = velocity + DT * (np.array([0.0, -9.81]) - 0.05 * speed * velocity)
        position = position + DT * velocity
        path.append(position)
    return tf.stack(path)


def miss(velocity):
    end = simulate(velocity)[-1]
    return tf.reduce_sum((end - np.array([TARGET, 0.0])) ** 2)


# %%
# Gradient descent on the velocity of the throw, with the gradient through all steps:

velocity = np.array([4.0, 4.0])
throws = [velocity]
for _ in range(60):
    velocity = velocity - 0.12 * np.asarray(tf.grad(miss)(velocity))
    throws.append(velocity)
assert float(miss(tf.constant(velocity))) < 1e-2

# %%
# The first throws miss, the last one hits:

plt.figure(figsize=(7, 3.2), layout="constrained")
for number in (0, 1, 2, 5, 60):
    path = np.asarray(simulate(tf.constant(throws[number])))
    plt.plot(*path.T, label=f"after {number} steps")
plt.plot([TARGET], [0.0], "k*", markersize=12)
plt.legend()
plt.show()
