"""Train on two processes with recorded steps and sums inside them, like one process does."""

import numpy as np

import tapegrad as tf
from tapegrad import distribute, keras

distribute.init(timeout=60)
rank, size = distribute.rank(), distribute.size()
rng = np.random.default_rng(0)
x = rng.normal(size=(64, 16)).astype("float32")
y = x @ rng.normal(size=(16, 1)).astype("float32")
rows = slice(rank * 64 // size, (rank + 1) * 64 // size)


def trained(joint: bool) -> list[np.ndarray]:
    tf.keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.Input((16,)), keras.layers.Dense(256, "tanh"), keras.layers.Dense(1)]
    )
    optimizer = keras.optimizers.Adam(0.01)

    @tf.function
    def step(inputs, targets):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((model(inputs) - targets) ** 2) / 64
        gradients = tape.gradient(loss, model.trainable_variables)
        if joint:
            gradients = [distribute.all_reduce(one) for one in gradients]
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    used = rows if joint else slice(None)
    for _ in range(30):
        step(tf.constant(x[used]), tf.constant(y[used]))
    if joint and "cuda" in tf.constant(1.0).device:
        run = step.program(tf.constant(x[used]), tf.constant(y[used]))._run
        assert not getattr(run, "uncaptured", [])
        assert not run.reason, run.reason
    return model.get_weights()


for alone, joint in zip(trained(False), trained(True)):
    np.testing.assert_allclose(joint, alone, rtol=2e-4, atol=2e-5)
print("done", rank, size, flush=True)
