"""Train the models of `keras.applications` for one step with Keras on tapegrad and a peer.

    python ci/keras_applications.py                    # all models, one line each
    python ci/keras_applications.py ResNet50 VGG16     # some of them
    python ci/keras_applications.py --record           # and write ci/keras-applications.json
    python ci/keras_applications.py --peer torch       # compare with Keras on PyTorch

Keras 3.15.1 and JAX or PyTorch must be installed. PyTorch takes less time, because it compiles
nothing. Both backends start from the same random weights, take the same batch of small images and
one step of SGD, in float64, so that differences of rounding stay small however deep the model is.
Rates of dropout and stochastic depth are zero, because the backends draw different numbers. The
peer runs eagerly; tapegrad runs the recorded step, as `fit` does.
With TAPEGRAD_WAIT=1 its loops are compiled first, which takes longer.

The loss and all weights after the step must agree. The error of a weight is the largest difference
relative to the largest change of that weight, or to 1e-6 of the largest change of all weights: some
weights, such as biases before batch normalization, have gradients of zero up to rounding.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "ci" / "keras-applications.json"
BATCH, CLASSES = 4, 10
SIZES = {"InceptionV3": 75, "InceptionResNetV2": 75, "Xception": 71}
USUAL_SIZE = 64
SINGLE = {"ConvNeXtLarge", "ConvNeXtXLarge"}
"""Models of 200 million weights and more: in float32, to need less memory."""
LIMITS = {"float64": 1e-7, "float32": 2e-2}
"""The allowed relative error of weights; of the loss, a hundredth of it."""
JAX_ONLY = {"NASNetLarge", "NASNetMobile"}
"""Models that Keras refuses to build on PyTorch."""


def names() -> list[str]:
    """Return the names of all models."""
    import inspect

    import keras

    found = vars(keras.applications)
    return sorted(name for name, value in found.items() if inspect.isfunction(value))


def train(name: str, folder: Path, backend: str) -> dict[str, Any]:
    """Take one step with the backend of this process, and write the weights before and after."""
    import keras
    from keras.src.backend.common import dtypes

    # Keras would narrow float64 to float32 in some functions of some backends.
    dtypes.BIT64_TO_BIT32_DTYPE.pop("float64")
    keras.config.set_floatx("float32" if name in SINGLE else "float64")
    keras.utils.set_random_seed(0)
    size = SIZES.get(name, USUAL_SIZE)
    model = getattr(keras.applications, name)(
        weights=None, input_shape=(size, size, 3), classes=CLASSES
    )
    for layer in model._flatten_layers():
        for rate in ("rate", "drop_path_rate"):
            if isinstance(getattr(layer, rate, None), float):
                setattr(layer, rate, 0.0)
    start = folder / "start.npz"
    if start.exists():
        with np.load(start) as kept:
            model.set_weights([kept[key] for key in kept.files])
    else:
        np.savez(start, *model.get_weights())
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 255, (BATCH, size, size, 3)).astype(keras.config.floatx())
    y = np.arange(BATCH) % CLASSES
    model.compile(
        keras.optimizers.SGD(0.01),
        "sparse_categorical_crossentropy",
        run_eagerly=backend != "tapegrad",
    )
    began = time.perf_counter()
    loss = float(model.train_on_batch(x, y))
    seconds = time.perf_counter() - began
    np.savez(folder / f"{backend}.npz", *model.get_weights())
    return {"loss": loss, "seconds": round(seconds, 1), "weights": model.count_params()}


def compare(folder: Path, peer: str) -> float:
    """Return the largest error of a weight after the step, relative to the changes by the step."""
    with (
        np.load(folder / "start.npz") as start,
        np.load(folder / f"{peer}.npz") as expected,
        np.load(folder / "tapegrad.npz") as found,
    ):
        changes, errors = [], []
        for key in start.files:
            right = expected[key]
            changes.append(float(np.max(np.abs(right - start[key]), initial=0)))
            errors.append(float(np.max(np.abs(right - found[key]), initial=0)))
    least = 1e-6 * max(changes)
    return max(error / max(change, least) for error, change in zip(errors, changes, strict=True))


def run_child(name: str, folder: Path, backend: str) -> dict[str, Any]:
    """Train in a process with the backend, because Keras has one backend per process."""
    paths = [str(ROOT), str(ROOT / "backends")]
    environment = {
        **os.environ,
        "KERAS_BACKEND": backend,
        "JAX_ENABLE_X64": "1",
        "PYTHONPATH": os.pathsep.join(paths),
    }
    command = [sys.executable, __file__, "--child", backend, str(folder), name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1][:300] if done.stderr else "stopped"}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def check(name: str, peer: str) -> dict[str, Any]:
    """Train a model with both backends, and return what the record says about it."""
    dtype = "float32" if name in SINGLE else "float64"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        expected, found = (run_child(name, folder, backend) for backend in (peer, "tapegrad"))
        if "error" in expected or "error" in found:
            return {"agrees": False, peer: expected, "tapegrad": found}
        error = compare(folder, peer)
    loss_error = abs(found["loss"] - expected["loss"]) / abs(expected["loss"])
    limit = LIMITS[dtype]
    return {
        "agrees": bool(error <= limit and loss_error <= limit / 100),
        "weights": expected["weights"],
        "dtype": dtype,
        "compiled": os.environ.get("TAPEGRAD_WAIT") == "1",
        "peer": f"{peer} {version(peer)}",
        "loss": expected["loss"],
        "loss_error": float(f"{loss_error:.1e}"),
        "weight_error": float(f"{error:.1e}"),
    }


def main(arguments: list[str]) -> int:
    """Check the models; 1 if one differs."""
    parser = argparse.ArgumentParser(description="Compare keras.applications with JAX.")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--peer", choices=("jax", "torch"), default="jax")
    parser.add_argument("--child", nargs=2, metavar=("BACKEND", "FOLDER"))
    parser.add_argument("names", nargs="*")
    given = parser.parse_args(arguments)
    if given.child:
        if given.child[0] == "tapegrad":
            import keras_tapegrad  # noqa: F401  # lets Keras find the backend
        print(json.dumps(train(given.names[0], Path(given.child[1]), given.child[0])))
        return 0
    os.environ["KERAS_BACKEND"] = given.peer  # only for the names
    models: dict[str, Any] = {}
    if RECORD.exists():
        models = json.loads(RECORD.read_text(encoding="utf-8"))["models"]
    chosen = given.names or names()
    for name in chosen:
        models[name] = check(name, "jax" if name in JAX_ONLY else given.peer)
        print(name, json.dumps(models[name]), flush=True)
        if given.record:
            record = {"keras": version("keras"), "names": names(), "models": models}
            text = json.dumps(dict(sorted(record.items())), indent=1, sort_keys=True)
            RECORD.write_text(text + "\n", encoding="utf-8")
    return 0 if all(models[name]["agrees"] for name in chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
