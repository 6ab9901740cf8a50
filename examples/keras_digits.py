"""Classify handwritten digits with real Keras on tapegrad: `pip install '.[keras]'`.

With KERAS_BACKEND=tapegrad, `tf.keras` is real Keras. A program that imports Keras only needs no
change where tapegrad is installed from a wheel: KERAS_BACKEND=tapegrad python program.py
"""

import argparse
import os

import tapegrad as tf
from tapegrad.demo.digits import load_digits

os.environ["KERAS_BACKEND"] = "tapegrad"
keras = tf.keras
layers = keras.layers


def build_model():
    inputs = keras.Input((8, 8, 1))
    x = layers.Conv2D(16, 3, padding="same", use_bias=False)(inputs)
    x = layers.BatchNormalization()(x)
    x = layers.ReLU()(x)
    x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(32, 3, padding="same", activation="relu")(x)
    x = layers.Flatten()(x)
    x = layers.Dropout(0.3)(x)
    return keras.Model(inputs, layers.Dense(10)(x))


def main(epochs: int = 10) -> float:
    """Train, and return the accuracy on the test images."""
    keras.utils.set_random_seed(0)
    train_images, train_labels, test_images, test_labels = load_digits()
    train_images = train_images.reshape(-1, 8, 8, 1)
    test_images = test_images.reshape(-1, 8, 8, 1)
    model = build_model()
    model.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(train_images, train_labels, batch_size=64, epochs=epochs, verbose=2)
    _, accuracy = model.evaluate(test_images, test_labels, verbose=0)
    print(f"accuracy on {len(test_images)} test images: {accuracy:.3f}")
    return float(accuracy)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
