"""Solve Burgers' equation with a network that never sees its solution.

The equation is u_t + u u_x = v u_xx for x in [-1, 1] and t in [0, 1], with u(x, 0) = -sin(pi x) and
u = 0 at both ends: a wave that steepens until viscosity stops it. The network learns from the
residual of the equation alone, at random points; its derivatives in x and t come from nested tapes.
The exact solution, by the Cole-Hopf formula, is only used to measure the error.

The error is that of the whole solution, relative to its size: 0.70 before training, 0.0007 after
6000 steps, and 0.026 in the short form.
"""

import argparse

import numpy as np

import tapegrad as tf

VISCOSITY = 0.1 / np.pi


def make_network(seed):
    layers = [
        tf.keras.layers.Dense(
            32, "tanh", kernel_initializer=tf.keras.initializers.GlorotNormal(seed + i)
        )
        for i in range(3)
    ]
    last = tf.keras.initializers.GlorotNormal(seed + 3)
    return tf.keras.Sequential([*layers, tf.keras.layers.Dense(1, kernel_initializer=last)])


def solution(network, x, t):
    # This form has the right values at t = 0 and at both ends, whatever the network says.
    return t * (1 - x * x) * network(tf.concat([x, t], axis=1)) - tf.sin(np.pi * x)


def residual(network, x, t):
    """u_t + u u_x - v u_xx, which is zero where the equation holds."""
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch([x, t])
            u = solution(network, x, t)
        # Each row of u depends on its own row of x and t only, so the gradient of the sum of all
        # rows holds the derivative of each row.
        u_x, u_t = inner.gradient(u, [x, t])
    u_xx = outer.gradient(u_x, x)
    return u_t + u * u_x - VISCOSITY * u_xx


def exact(x, t):
    """The Cole-Hopf solution; its two integrals by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite.hermgauss(100)
    y = x - np.sqrt(4 * VISCOSITY * t) * nodes
    heat = weights * np.exp(-np.cos(np.pi * y) / (2 * np.pi * VISCOSITY))
    return -(np.sin(np.pi * y) * heat).sum(-1, keepdims=True) / heat.sum(-1, keepdims=True)


def error(network):
    """The distance to the exact solution on a grid, relative to the size of the solution."""
    x, t = np.meshgrid(np.linspace(-1, 1, 101), np.linspace(0, 1, 21))
    x, t = x.reshape(-1, 1), t.reshape(-1, 1)
    found = solution(network, tf.constant(x, tf.float32), tf.constant(t, tf.float32)).numpy()
    expected = exact(x, t)
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def main(short: bool = False):
    steps, points = (800, 256) if short else (6000, 1024)
    network = make_network(seed=1)
    schedule = tf.keras.optimizers.schedules.CosineDecay(0.01, steps)
    optimizer = tf.keras.optimizers.Adam(schedule)
    generator = tf.random.Generator.from_seed(2)

    @tf.function
    def train_step(x, t):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(residual(network, x, t)))
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables))
        return loss

    network(tf.zeros([1, 2]))  # makes the weights
    start = error(network)
    for step in range(steps):
        x = generator.uniform((points, 1), -1, 1)
        t = generator.uniform((points, 1), 0, 1)
        loss = train_step(x, t)
        if (step + 1) % (steps // 4) == 0:
            print(f"step {step + 1:5}   residual {float(loss):.2e}   error {error(network):.4f}")

    result = {"error at the start": start, "relative error": error(network)}
    print(f"relative error {result['relative error']:.4f}, at the start {start:.2f}")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="learn for a shorter time, and less")
    main(short=parser.parse_args().short)
