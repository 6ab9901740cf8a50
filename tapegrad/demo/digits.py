"""Train a classifier of handwritten digits (`tapegrad demo`).

`examples/digits.py` has the same loop in the form that a TensorFlow user would write.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any, TextIO

import numpy as np

from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.values.device import current_device, device
from tapegrad.core.values.host import Later
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.demo.progress import track
from tapegrad.math import argmax, reduce_mean
from tapegrad.nn import relu, sparse_softmax_cross_entropy_with_logits
from tapegrad.optimizers import Adam
from tapegrad.random import Generator

Array = np.ndarray[Any, np.dtype[Any]]

HIDDEN = 256
LEARNING_RATE = 0.01
# Decay of the learning rate per epoch.
DECAY = 0.9
# Noise on the pixels, so that the network does not memorize the few images.
NOISE = 0.3


def load_digits() -> tuple[Array, Array, Array, Array]:
    """Return (train_images, train_labels, test_images, test_labels).

    Images are float32 of shape (count, 64) in 0 to 1; labels are int64. Every fifth image of each
    digit belongs to the test set, always the same ones.

    >>> train_images, train_labels, test_images, test_labels = load_digits()
    >>> train_images.shape, test_images.shape
    ((1442, 64), (355, 64))
    """
    with files("tapegrad.demo").joinpath("digits.npz").open("rb") as file, np.load(file) as data:
        labels = data["labels"].astype(np.int64)
        # The file stores the images sorted by digit, because it then compresses better.
        images = np.empty((len(labels), 64), np.float32)
        images[np.argsort(labels, kind="stable")] = data["pixels"].T / 16
    held_out = np.zeros(len(labels), dtype=bool)
    for digit in range(10):
        held_out[np.flatnonzero(labels == digit)[4::5]] = True
    return images[~held_out], labels[~held_out], images[held_out], labels[held_out]


class Network:
    """Two dense layers with a relu between them."""

    def __init__(self, generator: Generator) -> None:
        # He initialization: the variance 2 / inputs preserves the scale of activations.
        self.w1 = Variable(generator.normal(shape=(64, HIDDEN), stddev=(2 / 64) ** 0.5))
        self.b1 = Variable(np.zeros(HIDDEN, np.float32))
        self.w2 = Variable(generator.normal(shape=(HIDDEN, 10), stddev=(2 / HIDDEN) ** 0.5))
        self.b2 = Variable(np.zeros(10, np.float32))
        self.variables = [self.w1, self.b1, self.w2, self.b2]

    def __call__(self, images: Array | Tensor) -> Tensor:
        """Return one logit per image and digit."""
        hidden = relu(images @ self.w1 + self.b1)
        logits: Tensor = hidden @ self.w2 + self.b2
        return logits


@dataclass(frozen=True)
class Result:
    """The results of a training run."""

    device: str
    loss: float
    accuracy: float
    milliseconds_per_step: float
    steps: int


class Losses:
    """Losses that are copied to the host asynchronously; the bar shows the latest one."""

    def __init__(self) -> None:
        self._waiting: deque[Later] = deque()
        self._last: float | None = None

    def add(self, loss: Tensor) -> None:
        self._waiting.append(loss.numpy_later())

    def __str__(self) -> str:
        while self._waiting and self._waiting[0].done():
            self._last = float(self._waiting.popleft().result())
        return "" if self._last is None else f"loss {self._last:.3f}"

    def wait(self) -> float:
        """Wait for the last loss and return it."""
        return float(self._waiting[-1].result()) if self._waiting else self._last or 0.0


def train(epochs: int, batch: int, seed: int, stream: TextIO | None = None) -> Result:
    """Train on the current device and evaluate on the test set; `stream` shows the progress."""
    train_images, train_labels, test_images, test_labels = load_digits()
    generator = Generator.from_seed(seed)
    network = Network(generator)
    optimizer = Adam(learning_rate=LEARNING_RATE)
    shuffler = np.random.default_rng(seed)
    losses = Losses()
    steps = 0
    start = time.perf_counter()
    for epoch in track(range(epochs), "Training", stream, losses.__str__):
        optimizer.learning_rate = LEARNING_RATE * DECAY**epoch
        for rows in _batches(len(train_images), batch, shuffler):
            images = train_images[rows] + generator.normal(shape=(len(rows), 64), stddev=NOISE)
            with GradientTape() as tape:
                loss = reduce_mean(
                    sparse_softmax_cross_entropy_with_logits(
                        labels=train_labels[rows], logits=network(images)
                    )
                )
            gradients = tape.gradient(loss, network.variables)
            optimizer.apply_gradients(zip(gradients, network.variables))
            steps += 1
        losses.add(loss)
    # The last value arrives after all work on the device, so the clock stops after it.
    network.b2.numpy_later().result()
    seconds = time.perf_counter() - start
    predicted = argmax(network(test_images), axis=1).numpy_later().result()
    accuracy = float(np.mean(predicted == test_labels))
    return Result(network.w1.device, losses.wait(), accuracy, 1000 * seconds / max(steps, 1), steps)


def _batches(count: int, batch: int, shuffler: np.random.Generator) -> Iterator[Array]:
    order = shuffler.permutation(count)
    for start in range(0, count, batch):
        yield order[start : start + batch]


def main(argv: Sequence[str]) -> int:
    """Train with the given options and print device, accuracy and time per step."""
    options = _parser().parse_args(argv)
    with device(options.device):
        if not options.json:
            print(f"Training on {current_device()}: 1442 digits, {options.epochs} epochs.")
        result = train(options.epochs, options.batch, options.seed, sys.stderr)
    if options.json:
        print(json.dumps(asdict(result), indent=2))
        return 0
    print(f"device            {result.device}")
    print(f"last batch's loss {result.loss:.4f}")
    print(f"held-out accuracy {result.accuracy:.1%}")
    print(f"time per step     {result.milliseconds_per_step:.2f} ms")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tapegrad demo",
        description="Train a classifier of handwritten digits with a GradientTape.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  tapegrad demo\n  tapegrad demo --epochs 5 --device cpu --json",
    )
    add, default = parser.add_argument, "(default: %(default)s)"
    add("--epochs", type=_positive, default=30, help=f"passes over the digits {default}")
    add("--batch", type=_positive, default=64, help=f"digits per step {default}")
    add("--seed", type=int, default=0, help=f"seed of all random numbers {default}")
    add("--device", help="where to train, e.g. cpu or cuda:0 (default: see tapegrad info)")
    add("--json", action="store_true", help="print JSON for other programs")
    return parser


def _positive(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 1, got {text!r}")
    return value
