"""Tell ten shapes apart in small colour pictures, with a convolutional network.

The pictures, 32 x 32 pixels in three colours, are drawn in this program: a shape in any place, size
and direction, in a random colour on a striped ground of another, under noise. Colours say nothing
about the shape, and single pixels little. A pipeline shuffles the pictures and brings the next
batches to the device while the network, which mirrors and turns them first, learns.

Data: 6000 pictures to learn from, 2000 held out. Reached: 95.1 % of the held-out pictures; a linear
classifier of the pixels reaches 22.7 %, and guessing 10 %. Short, from 3000 pictures: 74.9 %, and
20.9 % for the linear classifier.
"""

import argparse

import numpy as np

import tapegrad as tf

layers = tf.keras.layers
SIZE = 32
BATCH = 32


# Each says where the shape is, in coordinates that have it upright between -1 and 1.
SHAPES = {
    "disc": lambda u, v: np.hypot(u, v) < 0.8,
    "ring": lambda u, v: abs(np.hypot(u, v) - 0.65) < 0.2,
    "square": lambda u, v: np.maximum(abs(u), abs(v)) < 0.7,
    "frame": lambda u, v: abs(np.maximum(abs(u), abs(v)) - 0.6) < 0.18,
    "triangle": lambda u, v: (v > -0.45) & (1.73 * abs(u) + v < 0.9),
    "cross": lambda u, v: (np.minimum(abs(u), abs(v)) < 0.25) & (abs(u) + abs(v) < 1.1),
    "star": lambda u, v: np.hypot(u, v) < 0.6 + 0.3 * np.cos(5 * np.arctan2(v, u)),
    "crescent": lambda u, v: (np.hypot(u, v) < 0.9) & (np.hypot(u - 0.5, v) > 0.65),
    "half disc": lambda u, v: (np.hypot(u, v - 0.4) < 0.95) & (v < 0.4),
    "bars": lambda u, v: (abs(abs(u) - 0.5) < 0.25) & (abs(v) < 0.75),
}


def draw_pictures(count, seed):
    """Return pictures with colours from about 0 to 1, and the numbers of their shapes."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % len(SHAPES)

    def draw(low, high):
        return rng.uniform(low, high, (count, 1, 1))

    y, x = np.mgrid[:SIZE, :SIZE] - (SIZE - 1) / 2
    angle, radius = draw(0, 2 * np.pi), draw(8, 13)
    # The shape stays whole: the larger it is, the less it may leave the middle.
    x0, y0 = (draw(-1, 1) * (SIZE / 2 - radius) for _ in range(2))
    u = (np.cos(angle) * (x - x0) + np.sin(angle) * (y - y0)) / radius
    v = (np.cos(angle) * (y - y0) - np.sin(angle) * (x - x0)) / radius
    inside = np.empty((count, SIZE, SIZE), bool)
    for number, is_inside in enumerate(SHAPES.values()):
        inside[labels == number] = is_inside(u[labels == number], v[labels == number])

    direction, pace = draw(0, np.pi), draw(0.3, 1.2)
    stripes = np.sin(pace * (np.cos(direction) * x + np.sin(direction) * y) + draw(0, 6))
    ground = rng.uniform(0, 0.5, (count, 1, 1, 3)) + 0.1 * stripes[..., np.newaxis]
    images = ground + inside[..., np.newaxis] * rng.uniform(0.1, 0.6, (count, 1, 1, 3))
    images += 0.1 * rng.normal(size=images.shape)
    return images.astype("float32"), labels


class Turn(layers.Layer):
    """Lays each picture down in one of the eight ways that a square has, while it is learned from.

    It is part of the network, so that a GPU does it: the pipeline could not keep up.
    """

    def call(self, images, training=False):
        if not training:
            return images
        draws = tf.random.uniform([3, images.shape[0], 1, 1, 1])
        images = tf.where(draws[0] < 0.5, images, images[:, ::-1])
        images = tf.where(draws[1] < 0.5, images, images[:, :, ::-1])
        return tf.where(draws[2] < 0.5, images, tf.transpose(images, [0, 2, 1, 3]))


def make_pipeline(images, labels):
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    return dataset.shuffle(len(images), seed=4).batch(BATCH, drop_remainder=True).prefetch(2)


def build_convnet():
    network = tf.keras.Sequential([Turn()])
    for filters in (24, 48, 96, 96):
        network.add(layers.Conv2D(filters, 3, strides=2, padding="same", use_bias=False))
        network.add(layers.BatchNormalization(momentum=0.9))
        network.add(layers.ReLU())
    network.add(layers.Flatten())
    network.add(layers.Dense(len(SHAPES)))
    return network


def train(network, dataset, held_out, epochs, rate):
    """Train a network, and return its accuracy on pictures that it has not seen."""
    schedule = tf.keras.optimizers.schedules.CosineDecay(rate, epochs * len(dataset))
    network.compile(
        optimizer=tf.keras.optimizers.AdamW(schedule, weight_decay=0.01),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    network.fit(dataset, epochs=epochs, verbose=2)
    return network.evaluate(*held_out, verbose=0, return_dict=True)["accuracy"]


def main(short: bool = False) -> dict[str, float]:
    tf.random.set_seed(0)
    count, epochs = (3000, 8) if short else (6000, 15)
    dataset, held_out = make_pipeline(*draw_pictures(count, seed=1)), draw_pictures(2000, seed=2)

    linear = tf.keras.Sequential([Turn(), layers.Flatten(), layers.Dense(len(SHAPES))])
    results = {
        "linear_accuracy": train(linear, dataset, held_out, epochs, 1e-3),
        "accuracy": train(build_convnet(), dataset, held_out, epochs, 5e-3),
    }
    print(f"held-out accuracy      {results['accuracy']:.1%}")
    print(f"of a linear classifier {results['linear_accuracy']:.1%}")
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="learn for a shorter time, and less")
    main(short=parser.parse_args().short)
