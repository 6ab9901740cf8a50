"""Learn to draw points like those of a ring of Gaussians, by a game of two networks.

The generator makes points of noise; the discriminator tells made points from real ones. One step
plays both: each network has a tape of its own, and its gradients go to its own optimizer. Such
games often end with a generator that makes only some of the kinds of points there are; so the
program counts how many of the eight Gaussians are covered.

Data: eight Gaussians with a deviation of 0.1 on a circle of radius 2, drawn as they are needed.
Reached: all eight modes, and 95 % of the points within four deviations of one. The game never
comes to rest, so roundings decide the last figure: on a GPU it was 84 % and 93 %. Short: all eight
modes, and 69 % of the points.
"""

import argparse
import math

import numpy as np

import tapegrad as tf

MODES = 8
RADIUS = 2.0
DEVIATION = 0.1
NOISE = 8
BATCH = 256

angles = 2 * math.pi / MODES * tf.range(MODES, dtype="float32")
centres = RADIUS * tf.stack([tf.cos(angles), tf.sin(angles)], axis=1)


def draw_real(count):
    chosen = tf.random.uniform([count], maxval=MODES, dtype="int32")
    return tf.gather(centres, chosen) + DEVIATION * tf.random.normal([count, 2])


def build_network(outputs):
    return tf.keras.Sequential(
        [
            tf.keras.layers.Dense(64, activation="leaky_relu"),
            tf.keras.layers.Dense(64, activation="leaky_relu"),
            tf.keras.layers.Dense(outputs),
        ]
    )


def train(generator, discriminator, steps):
    cross_entropy = tf.keras.losses.BinaryCrossentropy(from_logits=True)
    generator_optimizer = tf.keras.optimizers.Adam(1e-3, beta_1=0.5)
    discriminator_optimizer = tf.keras.optimizers.Adam(1e-3, beta_1=0.5)

    @tf.function
    def train_step():
        real = draw_real(BATCH)
        noise = tf.random.normal([BATCH, NOISE])
        with tf.GradientTape() as generator_tape, tf.GradientTape() as discriminator_tape:
            made = generator(noise)
            real_logits, made_logits = discriminator(real), discriminator(made)
            generator_loss = cross_entropy(tf.ones_like(made_logits), made_logits)
            discriminator_loss = cross_entropy(
                tf.ones_like(real_logits), real_logits
            ) + cross_entropy(tf.zeros_like(made_logits), made_logits)
        for tape, loss, network, optimizer in (
            (generator_tape, generator_loss, generator, generator_optimizer),
            (discriminator_tape, discriminator_loss, discriminator, discriminator_optimizer),
        ):
            variables = network.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return generator_loss, discriminator_loss

    for step in range(1, steps + 1):
        generator_loss, discriminator_loss = train_step()
        if step % (steps // 5) == 0:
            covered, good = measure(generator)
            losses = f"{float(generator_loss):.3f} {float(discriminator_loss):.3f}"
            print(f"step {step:5}   losses {losses}   modes {covered}   good points {good:.1%}")


def measure(generator, count=4000):
    """Return how many modes are covered, and the share of points that lie near one.

    Near is within four deviations, and a mode is covered if it has a quarter of its fair share.
    """
    noise = np.random.default_rng(1).normal(size=(count, NOISE)).astype("float32")
    points = generator(noise).numpy()
    distances = np.linalg.norm(points[:, None] - centres.numpy(), axis=2)
    is_near = distances.min(axis=1) < 4 * DEVIATION
    shares = np.bincount(distances.argmin(axis=1)[is_near], minlength=MODES) / count
    return int(np.sum(shares > 0.25 / MODES)), float(is_near.mean())


def main(short: bool = False) -> dict[str, float]:
    tf.random.set_seed(0)
    generator, discriminator = build_network(outputs=2), build_network(outputs=1)
    train(generator, discriminator, steps=1000 if short else 10000)
    covered, good = measure(generator)
    print(f"modes covered {covered} of {MODES}")
    print(f"good points   {good:.1%}")
    return {"modes_covered": covered, "good_points": good}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="learn for a shorter time, and less")
    main(short=parser.parse_args().short)
