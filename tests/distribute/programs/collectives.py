"""Check collective functions against NumPy: values, derivatives, batching, dtypes, programs."""

import runpy
import sys
from functools import partial
from pathlib import Path

import numpy as np

import tapegrad as tf
from tapegrad import distribute

distribute.init(timeout=20)
rank, size = distribute.rank(), distribute.size()
assert distribute.local_rank() == rank


def operand(of, *shape, seed=0):
    """The operand of any rank, which every rank can compute."""
    return np.random.default_rng([of, seed]).normal(size=shape).astype(np.float64)


def check(result, expected):
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-12, atol=1e-12)


everyone = [operand(r, 2 * size, 3) for r in range(size)]
mine = everyone[rank]
seeds = [operand(r, 2 * size, 3, seed=1) for r in range(size)]
total = sum(everyone)
parts = [np.split(x, size) for x in everyone]
exchanged = [np.concatenate([parts[i][r] for i in range(size)]) for r in range(size)]

# Each row: the function, its result on this rank, and the expected gradient of the sum over ranks
# of `result * seed`, by hand.
ROWS = {
    "sum": (distribute.all_reduce, total, sum(seeds)),
    "mean": (lambda x: distribute.all_reduce(x, "mean"), total / size, sum(seeds) / size),
    "max": (
        lambda x: distribute.all_reduce(x, "max"),
        np.max(everyone, axis=0),
        sum(seeds) * (mine == np.max(everyone, axis=0)),
    ),
    "min": (
        lambda x: distribute.all_reduce(x, "min"),
        np.min(everyone, axis=0),
        sum(seeds) * (mine == np.min(everyone, axis=0)),
    ),
    "reduce_scatter": (
        distribute.reduce_scatter,
        np.split(total, size)[rank],
        np.concatenate([seed[:2] for seed in seeds]),
    ),
    "all_gather": (
        lambda x: distribute.all_gather(x, axis=1),
        np.concatenate(everyone, axis=1),
        None,
    ),
    "broadcast": (
        lambda x: distribute.broadcast(x, root=1),
        everyone[1],
        sum(seeds) * (rank == 1),
    ),
    "all_to_all": (
        distribute.all_to_all,
        exchanged[rank],
        np.concatenate([np.split(seed, size)[rank] for seed in seeds]),
    ),
}


def sent_around(x):
    """Give a tensor to the next rank; the gradient comes back."""
    receipt = distribute.send(x, (rank + 1) % size)
    return distribute.recv(x, (rank - 1) % size) + receipt


ROWS["send and recv"] = (sent_around, everyone[rank - 1], seeds[(rank + 1) % size])


def with_gradient(x, function, seed):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
        target = tf.reduce_sum(y * seed)
    return y, tape.gradient(target, x)


for name, (function, expected, gradient) in ROWS.items():
    x = tf.constant(mine)
    check(function(x), expected)
    seed = seeds[rank][: expected.shape[0], : expected.shape[1]]
    if gradient is None:
        seed = np.ones_like(expected)
        gradient = np.full_like(mine, size)
    eager = partial(with_gradient, function=function, seed=seed)
    recorded = tf.function(eager)
    for call in (eager, recorded, recorded):
        y, slope = call(x)
        check(y, expected)
        check(slope, gradient)

    # What this process knows while a function is recorded, others do not.
    of_constants = tf.function(lambda function=function: function(tf.constant(mine)))
    for _ in range(2):
        check(of_constants(), expected)

    # All functions but the extremes are linear, so their tangent is the function itself.
    if name not in ("max", "min"):
        with tf.autodiff.ForwardAccumulator(x, tf.constant(mine)) as accumulator:
            y = function(x)
        check(accumulator.jvp(y), expected)
    batch = tf.constant(np.stack([mine, 2 * mine, 3 * mine]))
    check(tf.vectorized_map(function, batch), np.stack([expected, 2 * expected, 3 * expected]))

# The second derivative of the sum of squares of a sum.
with tf.GradientTape() as outer:
    x = tf.constant(mine)
    outer.watch(x)
    with tf.GradientTape() as inner:
        inner.watch(x)
        y = tf.reduce_sum(distribute.all_reduce(x) ** 3)
    slope = inner.gradient(y, x)
check(slope, size * 3 * total**2)
check(outer.gradient(slope, x), size * size * 6 * total)

for dtype in ("float16", "bfloat16", "float32", "int8", "uint8", "int32", "int64", "complex64"):
    x = tf.cast(tf.constant([1, 2, rank]), dtype)
    found = distribute.all_reduce(x)
    assert found.dtype == x.dtype
    wide = "complex64" if dtype == "complex64" else "float32"
    check(tf.cast(found, wide), [size, 2 * size, sum(range(size))])
    gathered = distribute.all_gather(x)
    assert gathered.dtype == x.dtype
    check(tf.cast(gathered, wide), np.ravel([[1, 2, r] for r in range(size)]))
check(distribute.all_reduce(tf.constant([rank == 0, False]), "max"), [True, False])
check(distribute.all_reduce(tf.constant(1.0)), size)  # no axes
check(distribute.all_reduce(tf.zeros([0, 3])), np.zeros((0, 3)))  # no elements

try:
    distribute.reduce_scatter(tf.zeros([2 * size + 1]))
except tf.errors.InvalidArgumentError as error:
    assert f"{size} does not divide" in str(error), error
try:
    distribute.send(tf.zeros([2]), to=size)
except tf.errors.InvalidArgumentError as error:
    assert f"from 0 to {size - 1}" in str(error), error

distribute.barrier()
if sys.argv[1:] == ["fixed"]:  # in the same processes, because they take a second to start
    runpy.run_path(str(Path(__file__).with_name("fixed_order.py")))
print("done", rank, size, flush=True)
