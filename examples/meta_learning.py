"""Learn weights from which a gradient step or a few suffice for a new task (MAML).

A task is a sine of unknown amplitude and phase; ten of its points are shown. The network takes one
gradient step on these points, and the loss that counts is that of the network after the step, at
other points. So the gradient of training passes through a gradient step: a tape around a tape.
All tasks of a batch adapt at once, each on its own, by `tf.vectorized_map`. For comparison, the
same network is trained in the ordinary way, without the step inside.

Data: sines with amplitudes of 0.1 to 5 and phases of 0 to pi, drawn as they are needed.
Reached: a mean squared error on new tasks of 0.39 to 0.44 after one step and 0.17 to 0.29 after
five, depending on roundings (six runs whose first weights differ in the last bit); the ordinary way
2.03 and 1.56. Short: 1.39 and 1.05, the ordinary way 2.93 and 2.57.
"""

import argparse
import math
from itertools import pairwise

import tapegrad as tf

SHOTS = 10
TASKS = 25
HIDDEN = 40
STEP = 0.01


def draw_tasks(count):
    """Return points to adapt to and points to be judged by: x and y, one row per task."""
    amplitude = tf.random.uniform([count, 1, 1], 0.1, 5.0)
    phase = tf.random.uniform([count, 1, 1], 0.0, math.pi)
    x = tf.random.uniform([count, 2 * SHOTS, 1], -5.0, 5.0)
    y = amplitude * tf.sin(x - phase)
    return x[:, :SHOTS], y[:, :SHOTS], x[:, SHOTS:], y[:, SHOTS:]


def first_weights():
    initial = tf.keras.initializers.GlorotUniform()
    sizes = [1, HIDDEN, HIDDEN, 1]
    weights = []
    for inputs, outputs in pairwise(sizes):
        weights.append(tf.Variable(initial([inputs, outputs])))
        weights.append(tf.Variable(tf.zeros([outputs])))
    return weights


def network(weights, x):
    """A function of its weights, so that it can run with those after a step."""
    w1, b1, w2, b2, w3, b3 = weights
    hidden = tf.nn.relu(x @ w1 + b1)
    hidden = tf.nn.relu(hidden @ w2 + b2)
    return hidden @ w3 + b3


def error(weights, x, y):
    return tf.reduce_mean(tf.square(network(weights, x) - y))


def adapt(weights, x, y, steps):
    """Return the weights after gradient steps on the points of one task."""
    for _ in range(steps):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = error(weights, x, y)
        gradients = tape.gradient(loss, weights)
        weights = [w - STEP * g for w, g in zip(weights, gradients)]
    return weights


def error_after(steps, weights, tasks):
    """Return the mean error on the points not shown, after so many steps on those shown."""

    def error_of_one(task):
        x, y, other_x, other_y = task
        return error(adapt(weights, x, y, steps), other_x, other_y)

    return tf.reduce_mean(tf.vectorized_map(error_of_one, tasks))


def train(weights, iterations, inner_steps):
    rate = tf.keras.optimizers.schedules.CosineDecay(3e-3, iterations)
    optimizer = tf.keras.optimizers.Adam(rate)

    @tf.function
    def train_step():
        tasks = draw_tasks(TASKS)
        with tf.GradientTape() as tape:
            loss = error_after(inner_steps, weights, tasks)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    for iteration in range(1, iterations + 1):
        loss = train_step()
        if iteration % (iterations // 5) == 0:
            print(f"iteration {iteration:5}   inner steps {inner_steps}   error {float(loss):.3f}")


def main(short: bool = False) -> dict[str, float]:
    tf.random.set_seed(0)
    new_tasks = draw_tasks(500)
    results = {}
    for name, inner_steps in (("ordinary", 0), ("meta", 1)):
        weights = first_weights()
        train(weights, 600 if short else 8000, inner_steps)
        for steps in (0, 1, 5):
            results[f"{name}_{steps}"] = float(error_after(steps, weights, new_tasks))
    print("mean squared error on new tasks, after 0, 1 and 5 gradient steps")
    for name in ("ordinary", "meta"):
        errors = [results[f"{name}_{steps}"] for steps in (0, 1, 5)]
        print(f"{name + ' training':18}", *[f"{value:.3f}" for value in errors])
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="learn for a shorter time, and less")
    main(short=parser.parse_args().short)
