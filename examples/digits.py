"""Classify handwritten digits with a plain GradientTape loop, as in TensorFlow."""

import argparse

import numpy as np

import tapegrad as tf
from tapegrad.demo.digits import load_digits

argparse.ArgumentParser(description=__doc__).parse_args()  # knows --help alone

EPOCHS = 30
BATCH = 64

train_images, train_labels, test_images, test_labels = load_digits()
generator = tf.random.Generator.from_seed(0)

w1 = tf.Variable(generator.normal(shape=(64, 256)) * (2 / 64) ** 0.5)
b1 = tf.Variable(tf.zeros(256))
w2 = tf.Variable(generator.normal(shape=(256, 10)) * (2 / 256) ** 0.5)
b2 = tf.Variable(tf.zeros(10))
variables = [w1, b1, w2, b2]
optimizer = tf.optimizers.Adam(learning_rate=0.01)


def network(images):
    hidden = tf.nn.relu(tf.matmul(images, w1) + b1)
    return tf.matmul(hidden, w2) + b2


def train_step(images, labels):
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=network(images)
        )
        loss = tf.reduce_mean(losses)
    gradients = tape.gradient(loss, variables)
    optimizer.apply_gradients(zip(gradients, variables))
    return loss


for epoch in range(EPOCHS):
    optimizer.learning_rate = 0.01 * 0.9**epoch
    order = np.random.default_rng(epoch).permutation(len(train_images))
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        # A little noise keeps the network from learning the few images by heart.
        noise = 0.3 * generator.normal(shape=(len(rows), 64))
        loss = train_step(train_images[rows] + noise, train_labels[rows])
    if (epoch + 1) % 10 == 0:
        print(f"epoch {epoch + 1:3}   loss {float(loss):.4f}")

predicted = tf.argmax(network(test_images), axis=1).numpy()
print(f"held-out accuracy {np.mean(predicted == test_labels):.1%}")
