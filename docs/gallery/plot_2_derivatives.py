"""
Derivatives of any order
========================

``tf.grad`` of a gradient is the second derivative, and so on. ``tf.vmap`` evaluates a derivative at
many points at once.
"""

import matplotlib.pyplot as plt
import numpy as np

import tapegrad as tf

x = np.linspace(-4.0, 4.0, 200)
curves = {"tanh": tf.tanh}
for order in ("first", "second", "third"):
    last = list(curves.values())[-1]
    curves[f"{order} derivative"] = tf.grad(last)

values = {name: np.asarray(tf.vmap(curve)(x)) for name, curve in curves.items()}
np.testing.assert_allclose(values["first derivative"], 1 - np.tanh(x) ** 2, atol=1e-12)

# %%
# Four curves from one line of maths:

plt.figure(figsize=(7, 3.2), layout="constrained")
for name, curve in values.items():
    plt.plot(x, curve, label=name)
plt.legend()
plt.show()
