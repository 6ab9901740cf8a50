"""Measure a training step for the cost model: bytes of collective calls, memory and seconds.

Argument: "whole", "states" or "weights", which says what is sharded. Rank 0 prints JSON.
"""

import gc
import json
import sys
import time
import tracemalloc

import numpy as np

import tapegrad as tf
from tapegrad import distribute, keras
from tapegrad.core import world as worlds
from tapegrad.ops.collective import replicas

LAYERS, WIDTH, ROWS, STEPS = 12, 448, 64, 15
# Each kernel fills a bucket, as in models that are large beside the usual buckets.
replicas.buckets.__defaults__ = (500_000,)
mode = sys.argv[1]
strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank, size = distribute.rank(), distribute.size()
x = tf.constant(np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype("float32"))


class Recorder:
    """A communicator that notes each call and the bytes of its operand."""

    def __init__(self, inner):
        self.inner, self.calls = inner, []

    def __getattr__(self, name):
        method = getattr(self.inner, name)

        def call(array, *rest, **options):
            if name != "wait":
                self.calls.append((name.removeprefix("start_"), array.nbytes))
            return method(array, *rest, **options)

        return call


def seconds_of(call, repeats):
    times = []
    for _ in range(repeats):
        distribute.barrier()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)  # others use the machine, too


with strategy.scope():
    layers = [keras.layers.Dense(WIDTH, "tanh") for _ in range(LAYERS)]
    model = keras.Sequential([keras.Input((WIDTH,)), *layers])
    optimizer = keras.optimizers.Adam(1e-3)
if mode == "states":
    optimizer = distribute.shard_states(keras.optimizers.Adam(1e-3))
if mode == "weights":
    distribute.fully_shard(model)


def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x) ** 2) / size
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


run = tf.function(step)
run()
run()
found = {"mode": mode, "size": size, "layers": LAYERS, "width": WIDTH, "rows": ROWS}
found["seconds"] = seconds_of(run, STEPS)
if size > 1:
    sums = {count: tf.zeros([count]) for count in (256, 1_000_000)}
    times = [seconds_of(lambda x=x: distribute.all_reduce(x).numpy(), STEPS) for x in sums.values()]
    found["sums"] = {4 * count: seconds for count, seconds in zip(sums, times)}
    state = worlds._state
    recorder = Recorder(state.communicators["numpy"])
    state.communicators["numpy"] = recorder
    run()
    state.communicators["numpy"] = recorder.inner
    found["calls"] = recorder.calls

tracemalloc.start()  # arrays that lived before are counted by their sizes
run()
gc.collect()
parts = getattr(optimizer, "_parts", {}).values()
arrays = sum(v.array.nbytes for v in [*model.variables, *optimizer.variables, *parts])
before = tracemalloc.get_traced_memory()[0]
tracemalloc.reset_peak()
run()
found["held"] = arrays
found["peak"] = arrays + tracemalloc.get_traced_memory()[1] - before
if rank == 0:
    print(json.dumps(found), flush=True)
