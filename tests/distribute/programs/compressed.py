"""Steps with gradients in half precision reach the sum of all gradients, up to one rounding."""

import numpy as np

import tapegrad as tf
from tapegrad import distribute, keras

STEPS = 64
distribute.init()
rank, size = distribute.rank(), distribute.size()
rng = np.random.default_rng(0)
# In bfloat16 the spacing of numbers between 1 and 2 is 1/128; each process has other gradients.
gradients = rng.uniform(1, 2, size=(size, 300)).astype("float32")
exact = gradients.astype("float64").sum(0)


def trained(optimizer, is_recorded):
    """Return the mean change of a weight per step, at a learning rate of 1."""
    w = tf.Variable(np.zeros(300, "float64"))
    halves = tf.Variable(np.zeros(2, "float16"))
    single = tf.Variable(np.float32(0))

    def step(g):
        gradients = [tf.cast(g, "float64"), tf.constant([1.0, 2.0], "float16"), g[0]]
        optimizer.apply_gradients(zip(gradients, [w, halves, single]))

    run = tf.function(step) if is_recorded else step
    for _ in range(STEPS):
        run(tf.constant(gradients[rank]))
    np.testing.assert_array_equal(halves.numpy(), -STEPS * size * np.array([1.0, 2.0]))
    np.testing.assert_allclose(single.numpy(), w.numpy()[0], rtol=1e-3)
    return -w.numpy() / STEPS


with tf.distribute.MultiWorkerMirroredStrategy().scope():
    plain = trained(keras.optimizers.SGD(1.0), False)
    np.testing.assert_allclose(plain, exact, rtol=1e-6)
    for is_recorded in (False, True):
        for dtype, spacing in (("bfloat16", 2.0**-7), ("float16", 2.0**-10)):
            optimizer = distribute.compress_gradients(keras.optimizers.SGD(1.0), dtype)
            error = np.abs(trained(optimizer, is_recorded) - exact).max() * STEPS
            # What is not sent yet: half a spacing of each process, and half of one of the sum.
            assert error < 0.51 * size * spacing + 0.51 * spacing * 2 ** np.ceil(np.log2(size))
            rounded = np.abs(tf.cast(gradients, dtype).numpy().astype("float64").sum(0) - exact)
            assert error < 0.2 * STEPS * rounded.max(), error  # without feedback
print("done", rank, flush=True)
