"""Train with strategies and write the weights; any number of ranks must reach the same ones."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np

import tapegrad as tf
from tapegrad import keras

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank, size = tf.distribute.rank(), tf.distribute.size()
assert strategy.num_replicas_in_sync == size

ROWS, BATCH = 26, 8  # a last batch of two rows
rng = np.random.default_rng(0)
x = rng.normal(size=(ROWS, 4)).astype("float32")
y = x @ rng.normal(size=(4, 1)).astype("float32") + 1
weights = rng.normal(size=(4, 3)).astype("float32"), rng.normal(size=(3, 1)).astype("float32")


def make_model():
    first, second = (keras.initializers.Constant(value) for value in weights)
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(3, "tanh", kernel_initializer=first),
            keras.layers.Dense(1, kernel_initializer=second),
        ]
    )


def flat(model):
    return np.concatenate([w.ravel() for w in model.get_weights()]).tolist()


found = {}
with strategy.scope():
    model = make_model()
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse", metrics=["mae"])
history = model.fit(x, y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0).history
found["fit"] = flat(model)
found["history"] = [history["loss"], history["mae"]]

# TensorFlow's custom loop: losses are divided by the global batch size, and gradients are added.
with strategy.scope():
    model = make_model()
    optimizer = keras.optimizers.Adam(0.01)
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)


def step(inputs, targets):
    with tf.GradientTape() as tape:
        each = tf.reduce_sum((model(inputs, training=True) - targets) ** 2, axis=1)
        loss = tf.nn.compute_average_loss(each, global_batch_size=BATCH)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


@tf.function
def distributed(inputs, targets):
    each = strategy.run(step, args=(inputs, targets))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, each, axis=None)


parts = strategy.experimental_distribute_dataset(data)
found["losses"] = [float(distributed(*batch)) for batch in parts]
found["custom"] = flat(model)

# Random weights are those of the first rank.
with strategy.scope():
    random = tf.Variable(np.random.default_rng(rank).normal(size=3))
everyone = strategy.gather(tf.reshape(random, [1, 3]), axis=0).numpy()
assert (everyone == everyone[0]).all()


def of_worker(context):
    assert (context.num_input_pipelines, context.input_pipeline_id) == (size, rank)
    local = context.get_per_replica_batch_size(2 * size)
    shards = tf.data.Dataset.range(4 * size).shard(size, context.input_pipeline_id)
    return shards.batch(local)


batches = [one.tolist() for one in strategy.distribute_datasets_from_function(of_worker)]
assert batches == [[rank, rank + size], [rank + 2 * size, rank + 3 * size]], batches

# Without automatic sharding, each process computes all data that it has chosen.
off = tf.data.Options()
off.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
chosen = tf.data.Dataset.range(4 * size * size).shard(size, rank).batch(2 * size).with_options(off)
own = [one.tolist() for one in strategy.experimental_distribute_dataset(chosen)]
assert [k for batch in own for k in batch] == [*range(rank, 4 * size * size, size)], own
assert {len(one) for one in own} == {2}, own
with strategy.scope():
    mean = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
    mean.compile(keras.optimizers.SGD(0.0), "mse")
pairs = chosen.map(lambda k: (tf.cast(k[:, None], "float32"), tf.zeros((2 * size, 1))))
history = mean.fit(pairs, verbose=0).history["loss"][0]
np.testing.assert_allclose(history, np.mean(np.arange(4 * size * size) ** 2.0), rtol=1e-5)


def replica():
    context = tf.distribute.get_replica_context()
    assert context.replica_id_in_sync_group == rank
    return context.all_reduce("MEAN", tf.constant(float(context.replica_id_in_sync_group)))


assert float(strategy.run(replica)) == (size - 1) / 2
uneven = strategy.gather(tf.fill([rank + 1, 2], rank), axis=0).numpy()
assert uneven[:, 0].tolist() == [r for r in range(size) for _ in range(r + 1)]
mean = strategy.reduce("MEAN", tf.fill([rank + 1], float(rank)), axis=0)
np.testing.assert_allclose(float(mean), np.mean(uneven[:, 0]), rtol=1e-6)

all_found = strategy.gather(tf.constant([found["fit"] + found["custom"]]), axis=0).numpy()
assert (all_found == all_found[0]).all()  # the same bits in all processes

if rank == 0:
    print(json.dumps(found), flush=True)
if sys.argv[1:]:  # in the same processes, because they take a second to start
    for program in ("accumulation.py", "horovod.py"):
        runpy.run_path(str(Path(__file__).with_name(program)))
    with strategy.scope():
        head = keras.layers.Dense(3 + rank, name="head")
        head.build((None, 4))
