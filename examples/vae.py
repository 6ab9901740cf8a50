"""Learn to draw handwritten digits with a variational autoencoder.

An encoder says which codes of eight numbers an image may have (a mean and a variance each), and a
decoder draws an image from a code. Both are trained to make the evidence lower bound large: the
logarithm of the probability that the decoder gives to the image, less the price of the code, which
is its Kullback-Leibler divergence from the standard normal distribution. The gradient passes
through the drawn code because that is written as mean + deviation * noise.

Data: the bundled digits of 8 x 8 pixels, each black or white, 1442 to learn from, 355 held out.
Reached: a bound of -17.8 nats per held-out image (pixels that knew nothing of each other would give
-25.1), and 4.5 % of the pixels wrong after a round through the code. Short: -19.0 nats and 6.6 %.
"""

import argparse

import numpy as np

import tapegrad as tf
from tapegrad.demo.digits import load_digits

CODE = 8
BATCH = 128


def load_binary_digits():
    train_images, _, test_images, _ = load_digits()
    return [(images >= 0.5).astype("float32") for images in (train_images, test_images)]


def build_models():
    encoder = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(256, activation="relu"),
            tf.keras.layers.Dense(2 * CODE),  # means, and logarithms of variances
        ]
    )
    decoder = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(256, activation="relu"),
            tf.keras.layers.Dense(64),  # logits of white pixels
        ]
    )
    return encoder, decoder


def bound(encoder, decoder, images, noise):
    """Return a lower bound of log p(image) in nats, for each image."""
    mean, log_variance = tf.split(encoder(images), 2, axis=1)
    code = mean + tf.exp(0.5 * log_variance) * noise
    log_likelihood = -tf.reduce_sum(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=images, logits=decoder(code)), axis=1
    )
    divergence = 0.5 * tf.reduce_sum(
        tf.square(mean) + tf.exp(log_variance) - log_variance - 1.0, axis=1
    )
    return log_likelihood - divergence


def train(encoder, decoder, images, epochs):
    rate = tf.keras.optimizers.schedules.CosineDecay(3e-3, epochs * (len(images) // BATCH))
    optimizer = tf.keras.optimizers.Adam(rate)

    @tf.function
    def train_step(batch):
        noise = tf.random.normal([BATCH, CODE])
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(bound(encoder, decoder, batch, noise))
        variables = encoder.trainable_variables + decoder.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    batches = tf.data.Dataset.from_tensor_slices(images).shuffle(len(images), seed=0)
    batches = batches.batch(BATCH, drop_remainder=True)
    for epoch in range(epochs):
        for batch in batches:
            loss = train_step(batch)
        if (epoch + 1) % max(1, epochs // 5) == 0:
            print(f"epoch {epoch + 1:3}   last batch's bound {-float(loss):.2f} nats")


def independent_pixels(train_images, test_images):
    """Return the log probability per image if pixels knew nothing of each other."""
    white = (train_images.sum(axis=0) + 1) / (len(train_images) + 2)
    return np.mean(np.sum(np.where(test_images > 0, np.log(white), np.log(1 - white)), axis=1))


def main(short: bool = False) -> dict[str, float]:
    tf.random.set_seed(0)
    train_images, test_images = load_binary_digits()
    encoder, decoder = build_models()
    train(encoder, decoder, train_images, epochs=40 if short else 300)

    draws = [
        tf.reduce_mean(bound(encoder, decoder, test_images, tf.random.normal([355, CODE])))
        for _ in range(20)
    ]
    mean, _ = tf.split(encoder(test_images), 2, axis=1)
    drawn = decoder(mean).numpy() > 0
    results = {
        "bound": float(np.mean(draws)),
        "independent_pixels": float(independent_pixels(train_images, test_images)),
        "wrong_pixels": float(np.mean(drawn != (test_images > 0))),
    }
    print(f"held-out bound            {results['bound']:.2f} nats per image")
    print(f"if pixels were unrelated  {results['independent_pixels']:.2f} nats per image")
    print(f"pixels redrawn wrongly    {results['wrong_pixels']:.1%}")
    print("digits drawn from random codes:")
    new = decoder(tf.random.normal([6, CODE])).numpy().reshape(6, 8, 8) > 0
    for row in range(8):
        print("   ".join("".join("#" if pixel else "." for pixel in image[row]) for image in new))
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="learn for a shorter time, and less")
    main(short=parser.parse_args().short)
