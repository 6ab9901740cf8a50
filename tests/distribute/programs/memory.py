"""Count the memory of steps of a fully sharded model, in bytes of arrays."""

import gc
import tracemalloc

import numpy as np

import tapegrad as tf
from tapegrad import distribute, keras
from tapegrad.engine import grouped_updates

# A constant number of bytes, which is not small beside this model.
grouped_updates.BATCH = 1 << 19
distribute.init()
LAYERS, WIDTH, ROWS = 24, 256, 2
x = tf.constant(np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype("float32"))


def peak_of_step(is_recorded):
    """Return the most bytes that live during a step, and those between steps."""
    layers = [keras.layers.Dense(WIDTH, "tanh", use_bias=False) for _ in range(LAYERS)]
    model = keras.Sequential([keras.Input((WIDTH,)), *layers])
    distribute.fully_shard(model)
    optimizer = keras.optimizers.Adam(1e-3)

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    run = tf.function(step) if is_recorded else step
    run()
    run()
    gc.collect()
    # Whatever else lives, such as compiled programs and imported modules, is not of the step.
    arrays = sum(v.array.nbytes for v in [*model.variables, *optimizer.variables])
    others = tracemalloc.get_traced_memory()[0] - arrays
    tracemalloc.reset_peak()
    run()
    return tracemalloc.get_traced_memory()[1] - others, arrays


tracemalloc.start()
whole = 4 * 4 * LAYERS * WIDTH * WIDTH  # float32: weights, gradients and two slots of Adam
for is_recorded in (False, True):
    peak, held = peak_of_step(is_recorded)
    print(f"peak {peak / whole:.3f} of the memory of one process, held {held / whole:.3f}")
print("done", distribute.rank(), flush=True)
