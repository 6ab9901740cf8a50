"""Balance a pole on a cart with deep Q-learning.

The simulator is in this file: a cart is pushed left or right 50 times a second, and an episode ends
when the pole leans by more than 12 degrees, when the cart leaves its track, or after 500 steps.
Many carts run side by side. A network learns the value of both pushes from stored transitions, with
a slowly following copy for the targets; the better push is chosen by the network that learns and
valued by the copy (double Q-learning).

The first 50 episodes, of random pushes, last for 18 steps on average. The last 50 last for 500, the
most there is, after 64,000 steps (16 carts, 4000 times); in the short form, of 16,000 steps, for
204. Deep Q-learning depends on its luck: of six seeds four reach more than 420 steps, and two stay
at 113 and 145 because the cart drifts off its track. The seed here is one of the good ones.
"""

import argparse

import numpy as np

import tapegrad as tf

LIMIT = 500
CARTS = 16
SCALE = np.array([2.4, 2.0, 0.2, 2.0])  # brings the four numbers of a state to similar sizes
DISCOUNT = 0.98
FOLLOW = 0.1  # how far the copy moves towards the network at each step


class Carts:
    """Simulates carts side by side; the state is place, speed, angle and turning speed."""

    def __init__(self, count, rng):
        self.rng = rng
        self.state = rng.uniform(-0.05, 0.05, (count, 4))
        self.age = np.zeros(count, dtype=int)

    def step(self, push_right):
        """Return the states reached, which of them are falls, and the lengths of ended episodes."""
        _, speed, angle, turning = self.state.T
        force = np.where(push_right, 10.0, -10.0)
        sin, cos = np.sin(angle), np.cos(angle)
        # A pole of 0.1 kg and half length 0.5 m on a cart of 1 kg.
        drive = (force + 0.05 * turning**2 * sin) / 1.1
        turn = (9.8 * sin - cos * drive) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        push = drive - 0.05 * turn * cos / 1.1
        change = np.stack([speed, push, turning, turn], axis=1)
        reached = self.state + 0.02 * change
        self.age += 1

        fallen = (np.abs(reached[:, 0]) > 2.4) | (np.abs(reached[:, 2]) > np.radians(12))
        ended = fallen | (self.age >= LIMIT)
        lengths = self.age[ended]
        fresh = self.rng.uniform(-0.05, 0.05, reached.shape)
        self.state = np.where(ended[:, np.newaxis], fresh, reached)
        self.age[ended] = 0
        return reached, fallen, lengths


class Memory:
    """Keeps the latest transitions: state, push, state reached, and whether that was a fall."""

    def __init__(self, size):
        self.columns = [np.zeros((size, width), "float32") for width in (4, 1, 4, 1)]
        self.size, self.written = size, 0

    def add(self, *rows):
        where = (self.written + np.arange(len(rows[0]))) % self.size
        for column, row in zip(self.columns, rows):
            column[where] = row.reshape(len(where), -1)
        self.written += len(where)

    def sample(self, count, rng):
        where = rng.integers(0, min(self.written, self.size), count)
        return [tf.constant(column[where]) for column in self.columns]


def make_network(seed):
    draws = [tf.keras.initializers.HeNormal(seed + i) for i in range(3)]
    network = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(64, "relu", kernel_initializer=draws[0]),
            tf.keras.layers.Dense(64, "relu", kernel_initializer=draws[1]),
            tf.keras.layers.Dense(2, kernel_initializer=draws[2]),
        ]
    )
    network(tf.zeros([1, 4]))  # makes the weights
    return network


def main(short: bool = False):
    ticks = 1000 if short else 4000
    rng = np.random.default_rng(2)
    carts, memory, lengths = Carts(CARTS, rng), Memory(100_000), []
    network, copy = make_network(seed=20), make_network(seed=20)
    optimizer = tf.keras.optimizers.Adam(tf.keras.optimizers.schedules.CosineDecay(2e-3, ticks))
    values_of = tf.function(network)

    @tf.function
    def train_step(states, pushes, reached, fallen):
        best = tf.one_hot(tf.argmax(network(reached), axis=1), 2)
        future = tf.reduce_sum(best * copy(reached), axis=1)
        target = 1 + DISCOUNT * (1 - fallen[:, 0]) * future
        chosen = tf.one_hot(tf.cast(pushes[:, 0], tf.int32), 2)
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(chosen * network(states), axis=1)
            loss = tf.reduce_mean(tf.square(target - value))
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables))
        for slow, fast in zip(copy.variables, network.variables):
            slow.assign_add(FOLLOW * (fast - slow))
        return loss

    for tick in range(ticks):
        states = carts.state / SCALE
        better = values_of(tf.constant(states, tf.float32)).numpy().argmax(axis=1)
        # All pushes are random at first, and few of them after a third of the time.
        random = rng.uniform(size=CARTS) < max(0.02, 1 - 3 * tick / ticks)
        pushes = np.where(random, rng.integers(0, 2, CARTS), better)
        reached, fallen, ended = carts.step(pushes)
        memory.add(states, pushes, reached / SCALE, fallen)
        lengths.extend(ended.tolist())
        if tick >= 50:
            for _ in range(2):
                train_step(*memory.sample(128, rng))
        if (tick + 1) % (ticks // 5) == 0:
            print(f"tick {tick + 1:6}   last 50 episodes {np.mean(lengths[-50:]):.0f} steps")

    result = {
        "first episodes": float(np.mean(lengths[:50])),
        "last episodes": float(np.mean(lengths[-50:])),
    }
    print(
        f"mean length: first 50 episodes {result['first episodes']:.0f}, "
        f"last 50 episodes {result['last episodes']:.0f} of {LIMIT}"
    )
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="learn for a shorter time, and less")
    main(short=parser.parse_args().short)
