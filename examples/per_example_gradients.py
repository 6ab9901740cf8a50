"""Learn digits so that no single image has much influence: private training by clipping.

Each step takes the gradient of each image by itself, shortens it to a norm of at most 1, adds the
shortened gradients up, and hides the sum under noise (DP-SGD). `tf.vectorized_map` of a function
with a tape gives all these gradients at once; `tape.jacobian` of the losses gives the same, and the
program checks both against a loop over images.

All images take part in each step, so a short formula bounds what all steps together tell of whether
one image was there. T steps with noise of s norms have rho = T / (2 s ** 2) in the sense of
zero-concentrated differential privacy, and so (epsilon, delta) privacy with
epsilon = rho + 2 sqrt(rho log(1 / delta)). Here rho is fixed: more steps get more noise. (For real
secrets, take noise from a cryptographic source, and count the runs that chose the settings.)

Data: the bundled digits of 8 x 8 pixels, 1442 to learn from, 355 held out.
Reached: 94.1 % of the held-out digits right with epsilon = 2.27 for delta = 0.0001; 94.9 % without
noise. Short: 91.8 % and 92.7 %. Both ways agree with the loop to 1e-7.
"""

import argparse
import math

import numpy as np

import tapegrad as tf
from tapegrad.demo.digits import load_digits

HIDDEN = 32
NORM = 1.0
RHO = 0.125
DELTA = 1e-4


def first_weights():
    initial = tf.keras.initializers.GlorotUniform()
    return [
        tf.Variable(initial([64, HIDDEN])),
        tf.Variable(tf.zeros([HIDDEN])),
        tf.Variable(initial([HIDDEN, 10])),
        tf.Variable(tf.zeros([10])),
    ]


def network(weights, images):
    w1, b1, w2, b2 = weights
    return tf.tanh(images @ w1 + b1) @ w2 + b2


def losses_of(weights, images, labels):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=network(weights, images)
    )


def by_vectorized_map(weights, images, labels):
    """Return per variable the gradients of all images, with the images along the first axis."""

    def gradient_of_one(example):
        image, label = example
        with tf.GradientTape() as tape:
            loss = losses_of(weights, image[tf.newaxis], label[tf.newaxis])
        return tape.gradient(loss, weights)

    return tf.vectorized_map(gradient_of_one, (images, labels))


def by_jacobian(weights, images, labels):
    with tf.GradientTape() as tape:
        losses = losses_of(weights, images, labels)
    return tape.jacobian(losses, weights)


def by_loop(weights, images, labels):
    each = []
    for i in range(len(images)):
        with tf.GradientTape() as tape:
            loss = losses_of(weights, images[i : i + 1], labels[i : i + 1])
        each.append(tape.gradient(loss, weights))
    return [tf.stack(gradients) for gradients in zip(*each)]


def norms_of(gradients):
    """Return the norm of each image's gradient, over all variables together."""
    squares = [tf.reduce_sum(tf.reshape(g, [g.shape[0], -1]) ** 2, axis=1) for g in gradients]
    return tf.sqrt(tf.add_n(squares))


def clipped_sum(gradients):
    """Add the gradients up, each shortened to at most NORM."""
    factors = NORM / tf.maximum(norms_of(gradients), NORM)
    return [tf.tensordot(factors, g, axes=1) for g in gradients]


def train(weights, images, labels, steps, noise):
    rate = tf.keras.optimizers.schedules.CosineDecay(50 / steps, steps)
    optimizer = tf.keras.optimizers.SGD(rate, momentum=0.9)

    @tf.function
    def train_step(images, labels):
        gradients = by_vectorized_map(weights, images, labels)
        noisy = [
            (total + noise * NORM * tf.random.normal(total.shape)) / len(images)
            for total in clipped_sum(gradients)
        ]
        optimizer.apply_gradients(zip(noisy, weights))
        return tf.reduce_mean(tf.cast(norms_of(gradients) > NORM, "float32"))

    for step in range(1, steps + 1):
        clipped = train_step(images, labels)
        if step % (steps // 5) == 0:
            print(f"step {step:4}   gradients that were clipped {float(clipped):.0%}")


def accuracy_of(weights, images, labels):
    predicted = tf.argmax(network(weights, images), axis=1).numpy()
    return float(np.mean(predicted == labels))


def largest_difference(one, other):
    return max(float(tf.reduce_max(tf.abs(a - b))) for a, b in zip(one, other))


def main(short: bool = False) -> dict[str, float]:
    tf.random.set_seed(0)
    train_images, train_labels, test_images, test_labels = load_digits()

    weights = first_weights()
    few = train_images[:50], train_labels[:50]
    looped = by_loop(weights, *few)
    results = {
        "vectorized_map_error": largest_difference(by_vectorized_map(weights, *few), looped),
        "jacobian_error": largest_difference(by_jacobian(weights, *few), looped),
        "epsilon": RHO + 2 * math.sqrt(RHO * math.log(1 / DELTA)),
    }
    print(f"vectorized_map against a loop  {results['vectorized_map_error']:.1e}")
    print(f"jacobian against a loop        {results['jacobian_error']:.1e}")

    steps = 25 if short else 100
    for name, noise in (("no_noise", 0.0), ("private", math.sqrt(steps / (2 * RHO)))):
        print(f"training with noise of {noise:.0f} times the norm")
        weights = first_weights()
        train(weights, train_images, train_labels, steps, noise)
        results[f"{name}_accuracy"] = accuracy_of(weights, test_images, test_labels)
        print(f"held-out accuracy {results[f'{name}_accuracy']:.1%}")
    print(f"privacy with noise: epsilon {results['epsilon']:.2f}, delta {DELTA}")
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="learn for a shorter time, and less")
    main(short=parser.parse_args().short)
