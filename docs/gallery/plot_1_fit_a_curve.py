"""
Fit a curve with SciPy's optimizer
==================================

SciPy finds the minimum of a function, and tapegrad computes its gradient. The model is plain NumPy
code: a damped oscillation with four unknown numbers.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import tapegrad as tf

rng = np.random.default_rng(0)
times = np.linspace(0.0, 10.0, 80)
truth = np.array([2.0, 0.3, 2.5, 0.5])
measured = truth[0] * np.exp(-truth[1] * times) * np.sin(truth[2] * times + truth[3])
measured += 0.15 * rng.normal(size=times.size)


def model(p):
    return p[0] * np.exp(-p[1] * times) * np.sin(p[2] * times + p[3])


def loss(p):
    return tf.reduce_mean((model(p) - measured) ** 2)


# %%
# ``tf.grad(loss)`` is a function of the parameters, as SciPy expects it: the gradient by a NumPy
# array is a NumPy array.

start = np.array([1.0, 0.1, 2.3, 0.0])
found = minimize(loss, start, jac=tf.grad(loss), method="BFGS")
assert np.abs(found.x - truth).max() < 0.2
print(np.round(found.x, 3))

# %%
# The measured points, the first guess and the fit:

plt.figure(figsize=(7, 3.2), layout="constrained")
plt.plot(times, measured, ".", color="0.5", label="measured")
plt.plot(times, model(start), "--", label="start")
plt.plot(times, model(found.x), label="fit")
plt.xlabel("time")
plt.legend()
plt.show()
