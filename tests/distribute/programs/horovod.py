"""Train as a program for Horovod does, each process on its rows, and check the mean gradient."""

import numpy as np

import tapegrad as tf
import tapegrad.compat.horovod as hvd
from tapegrad import keras

hvd.init()
rank, size = hvd.rank(), hvd.size()
rng = np.random.default_rng(0)
x = rng.normal(size=(4 * size, 3)).astype("float32")
y = x @ np.array([[1.0], [2.0], [3.0]], "float32")
own = slice(4 * rank, 4 * rank + 4)

w = tf.Variable(np.full((3, 1), float(rank), "float32"))
hvd.broadcast_variables([w], root_rank=0)
for compression in (hvd.Compression.none, hvd.Compression.fp16):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x[own] @ w - y[own]) ** 2)
    tape = hvd.DistributedGradientTape(tape, compression=compression)
    expected = 2 * x.T @ (x @ np.zeros((3, 1), "float32") - y) / len(x)
    np.testing.assert_allclose(tape.gradient(loss, w), expected, rtol=2e-3)

assert float(hvd.allreduce(float(rank))) == (size - 1) / 2
assert float(hvd.allreduce(float(rank), op=hvd.Sum)) == sum(range(size))
assert hvd.broadcast_object({"rank": rank}, root_rank=1) == {"rank": 1}
assert hvd.allgather_object(rank) == [*range(size)]

model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
model.compile(optimizer, "mse")
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(0.1, warmup_epochs=2),
]
model.fit(x[own], y[own], batch_size=2, epochs=3, verbose=0, callbacks=callbacks)
everyone = hvd.allgather_object(model.get_weights()[0].tolist())
assert everyone == [everyone[0]] * size
assert abs(float(optimizer.learning_rate) - 0.1) < 0.05
print("done", rank, flush=True)
