"""Time per step of `fit` with real Keras on one of its backends.

    python benchmarks/keras_fit.py --backend tapegrad             # all models, small
    python benchmarks/keras_fit.py --backend jax --models lstm
    python benchmarks/keras_fit.py --backend torch --size full --policy mixed_bfloat16

Each model is trained in a process of its own with data in NumPy arrays. One epoch warms up and
compiles; the figure is the fastest of the following epochs, divided by its steps. `cpu_ms_per_step`
is the time of all threads of the process on the CPU, which depends less on other programs of the
machine. The result is printed as one line of JSON. Devices are chosen by the environment:
TAPEGRAD_DEVICE, JAX_PLATFORMS, CUDA_VISIBLE_DEVICES. Compare runs of one machine only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
BACKENDS = ("tapegrad", "jax", "torch", "tensorflow")


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model and its batches; 0 where a model has no such size."""

    batch: int
    width: int = 0
    layers: int = 0
    length: int = 0
    vocabulary: int = 0
    pixels: int = 0
    classes: int = 0


SIZES = {
    ("gpt2", "small"): Sizes(batch=8, width=128, layers=2, length=64, vocabulary=1000),
    ("gpt2", "full"): Sizes(batch=8, width=768, layers=12, length=1024, vocabulary=50257),
    ("resnet50", "small"): Sizes(batch=4, pixels=64, classes=10),
    ("resnet50", "full"): Sizes(batch=64, pixels=224, classes=1000),
    ("lstm", "small"): Sizes(batch=32, width=64, layers=2, length=32, vocabulary=1000),
    ("lstm", "full"): Sizes(batch=64, width=512, layers=2, length=256, vocabulary=10000),
}
MODELS = ("gpt2", "resnet50", "lstm")


def gpt2(sizes: Sizes) -> Any:
    """Return a decoder with learned positions, 64 units per head and the head tied to nothing."""
    import keras
    from keras import layers, ops

    tokens = keras.Input((sizes.length,), dtype="int32")
    x = layers.Embedding(sizes.vocabulary, sizes.width)(tokens)
    x = x + layers.Embedding(sizes.length, sizes.width)(ops.arange(sizes.length))
    heads = sizes.width // 64
    for _ in range(sizes.layers):
        h = layers.LayerNormalization(epsilon=1e-5)(x)
        x = x + layers.MultiHeadAttention(heads, 64)(h, h, use_causal_mask=True)
        h = layers.LayerNormalization(epsilon=1e-5)(x)
        h = layers.Dense(4 * sizes.width, "gelu")(h)
        x = x + layers.Dense(sizes.width)(h)
    x = layers.LayerNormalization(epsilon=1e-5)(x)
    return keras.Model(tokens, layers.Dense(sizes.vocabulary, dtype="float32")(x))


def resnet50(sizes: Sizes) -> Any:
    """Return `keras.applications.ResNet50` with logits."""
    import keras

    return keras.applications.ResNet50(
        weights=None,
        input_shape=(sizes.pixels, sizes.pixels, 3),
        classes=sizes.classes,
        classifier_activation=None,
    )


def lstm(sizes: Sizes) -> Any:
    """Return a language model of stacked LSTM layers."""
    import keras
    from keras import layers

    tokens = keras.Input((sizes.length,), dtype="int32")
    x = layers.Embedding(sizes.vocabulary, sizes.width)(tokens)
    for _ in range(sizes.layers):
        x = layers.LSTM(sizes.width, return_sequences=True)(x)
    return keras.Model(tokens, layers.Dense(sizes.vocabulary, dtype="float32")(x))


def data_of(name: str, sizes: Sizes, steps: int) -> tuple[Any, Any]:
    """Return random inputs and targets for some steps."""
    rng = np.random.default_rng(0)
    count = sizes.batch * steps
    if name == "resnet50":
        x = rng.normal(size=(count, sizes.pixels, sizes.pixels, 3)).astype("float32")
        return x, rng.integers(0, sizes.classes, count).astype("int32")
    text = rng.integers(0, sizes.vocabulary, (count, sizes.length + 1)).astype("int32")
    return text[:, :-1], text[:, 1:]


def measure(name: str, size: str, steps: int, epochs: int) -> dict[str, Any]:
    """Train a model with the backend of this process, and return milliseconds per step."""
    import keras

    keras.utils.set_random_seed(0)
    sizes = SIZES[name, size]
    model = {"gpt2": gpt2, "resnet50": resnet50, "lstm": lstm}[name](sizes)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-4), loss)
    x, y = data_of(name, sizes, steps)

    def epoch() -> tuple[float, float]:
        began = time.perf_counter(), time.process_time()
        model.fit(x, y, batch_size=sizes.batch, shuffle=False, verbose=0)
        return time.perf_counter() - began[0], time.process_time() - began[1]

    first, _ = epoch()
    times, cpu_times = zip(*[epoch() for _ in range(epochs)], strict=True)
    return {
        "first_epoch_s": round(first, 2),
        "ms_per_step": round(min(times) / steps * 1e3, 3),
        "ms_per_step_all": [round(t / steps * 1e3, 3) for t in times],
        "cpu_ms_per_step": round(min(cpu_times) / steps * 1e3, 3),
        "loss": float(model.history.history["loss"][-1]),
        "weights": model.count_params(),
        "sizes": {key: value for key, value in asdict(sizes).items() if value},
    }


def child(given: argparse.Namespace) -> int:
    """Measure one model in this process."""
    if given.backend == "tapegrad":
        import keras_tapegrad  # noqa: F401  # lets Keras find the backend
    import keras

    keras.config.set_dtype_policy(given.policy)
    print(json.dumps(measure(given.models[0], given.size, given.steps, given.epochs)))
    return 0


def main(arguments: list[str]) -> int:
    """Measure each model in a process of its own, and print the results."""
    parser = argparse.ArgumentParser(description="Time `fit` of real Keras.")
    parser.add_argument("--backend", choices=BACKENDS, required=True)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=[*MODELS])
    parser.add_argument("--size", choices=("small", "full"), default="small")
    parser.add_argument("--policy", default="float32", help="a dtype policy of Keras")
    parser.add_argument("--steps", type=int, default=20, help="steps per epoch")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        return child(given)
    environment = {
        **os.environ,
        "KERAS_BACKEND": given.backend,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "backends")]),
    }
    environment.setdefault("TAPEGRAD_WAIT", "1")  # time compiled programs only
    found: dict[str, Any] = {}
    for name in given.models:
        command = [sys.executable, __file__, *arguments, "--child", "--models", name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        failed = {"error": done.stderr.strip().splitlines()[-1:]}
        found[name] = json.loads(lines[-1]) if done.returncode == 0 and lines else failed
        print(name, found[name].get("ms_per_step", found[name]), file=sys.stderr)
    result = {"backend": given.backend, "keras": version("keras"), "size": given.size}
    print(json.dumps({**result, "policy": given.policy, "models": found}))
    return int(any("error" in entry for entry in found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
