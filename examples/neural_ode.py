"""Learn the law of motion behind a spiral, through a Runge-Kutta integrator.

The data are the places of one particle at 201 equally spaced times; it follows y' = A y^3 with a
matrix A that the network does not know. The network is the vector field: it is integrated over a
few steps from places of the track, and the gradient of the distance to the data goes back through
every stage of the integrator.

Integrated from the first place alone, the trained field stays within 0.013 of the track on average,
over all 200 steps; an untrained one is 2.28 away. The short form reaches 0.058.
"""

import argparse

import numpy as np

import tapegrad as tf

A = np.array([[-0.1, 2.0], [-2.0, -0.1]], dtype="float32")
START = np.array([[2.0, 0.0]], dtype="float32")
STEP = 0.025
TIMES = 200


def true_field(y):
    return tf.matmul(y**3, A, transpose_b=True)


def runge_kutta(field, y):
    """One step of the classical method of order four."""
    k1 = field(y)
    k2 = field(y + STEP / 2 * k1)
    k3 = field(y + STEP / 2 * k2)
    k4 = field(y + STEP * k3)
    return y + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def integrate(field, y, steps):
    """The places after each step, the first one included: [steps + 1, batch, 2]."""
    track = [y]
    for _ in range(steps):
        track.append(runge_kutta(field, track[-1]))
    return tf.stack(track)


class Field(tf.keras.Model):
    """A network for y'."""

    def __init__(self, seed):
        super().__init__()
        draws = [tf.keras.initializers.GlorotNormal(seed + i) for i in range(3)]
        self.first = tf.keras.layers.Dense(64, "tanh", kernel_initializer=draws[0])
        self.second = tf.keras.layers.Dense(64, "tanh", kernel_initializer=draws[1])
        self.last = tf.keras.layers.Dense(2, kernel_initializer=draws[2])

    def call(self, y):
        return self.last(self.second(self.first(y)))


def main(short: bool = False):
    steps, ahead = (1500, 2) if short else (4000, 10)
    track = integrate(true_field, tf.constant(START), TIMES)[:, 0]
    field = Field(seed=1)
    field(tf.constant(START))  # makes the weights
    optimizer = tf.keras.optimizers.Adam(tf.keras.optimizers.schedules.CosineDecay(0.01, steps))

    @tf.function
    def train_step(rows):
        target = tf.stack([tf.gather(track, rows + i) for i in range(ahead + 1)])
        with tf.GradientTape() as tape:
            found = integrate(field, target[0], ahead)
            loss = tf.reduce_mean(tf.square(found - target))
        gradients = tape.gradient(loss, field.trainable_variables)
        optimizer.apply_gradients(zip(gradients, field.trainable_variables))
        return loss

    def whole_track_error():
        """The mean distance to the track when only its first place is given."""
        found = integrate(tf.function(field), tf.constant(START), TIMES)[:, 0]
        return float(tf.reduce_mean(tf.norm(found - track, axis=1)))

    start = whole_track_error()
    rng = np.random.default_rng(2)
    for step in range(steps):
        loss = train_step(tf.constant(rng.integers(0, TIMES + 1 - ahead, 64)))
        if (step + 1) % (steps // 4) == 0:
            print(f"step {step + 1:5}   loss {float(loss):.1e}")

    result = {"error at the start": start, "error": whole_track_error()}
    print(f"mean distance over the whole track {result['error']:.4f}, untrained {start:.2f}")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="learn for a shorter time, and less")
    main(short=parser.parse_args().short)
