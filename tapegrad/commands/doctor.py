"""`tapegrad doctor`: check that this installation computes what it should, on every device.

Each check is small and compares with something that it does not share code with: numeric
differences, a closed form, or the values that were saved. All of them take seconds.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.autodiff.transforms import grad, hessian
from tapegrad.core.backend.registry import describe_backends
from tapegrad.core.values.device import default_device, device, list_devices
from tapegrad.core.values.variable import Variable
from tapegrad.errors import TapegradError
from tapegrad.ops.creation import constant
from tapegrad.ops.elementwise.trigonometric import tanh
from tapegrad.ops.reduction.functions import reduce_sum
from tapegrad.program.building import wait_for_programs
from tapegrad.program.function_decorator import function


@dataclass(frozen=True)
class Finding:
    """The result of one check: "ok", "failed" or "skipped", and why."""

    check: str
    device: str
    state: str
    seconds: float
    message: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def findings() -> Iterator[Finding]:
    """Run all checks, one after the other."""
    try:
        default_device()
    except TapegradError as error:
        yield Finding("TAPEGRAD_DEVICE", "", "failed", 0.0, str(error))
    for name in list_devices():
        for check, run in CHECKS.items():
            yield _run(check, name, run)
    for name, status in describe_backends():
        if status.startswith("unavailable"):
            yield Finding(f"backend {name}", "", "skipped", 0.0, status)


def checked(found: Iterable[Finding], stream: TextIO) -> Iterator[Finding]:
    """Yield findings; on a terminal that rich can draw on, a sign shows that a check runs.

    >>> import sys
    >>> list(checked([], sys.stderr))
    []
    """
    if not stream.isatty() or importlib.util.find_spec("rich") is None:
        yield from found
        return
    from rich.console import Console

    with Console(file=stream).status("Checking") as sign:
        for finding in found:
            sign.stop()
            yield finding
            sign.start()


def _run(check: str, name: str, run: Callable[[], None]) -> Finding:
    start = time.perf_counter()
    try:
        with device(name):
            run()
    except Exception as error:  # whatever is wrong with the installation is a finding
        return Finding(check, name, "failed", _since(start), f"{type(error).__name__}: {error}")
    return Finding(check, name, "ok", _since(start))


def _since(start: float) -> float:
    return round(time.perf_counter() - start, 3)


def _expect_close(found: Any, expected: Any, tolerance: float) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    error = float(np.max(np.abs(found - expected))) if found.size else 0.0
    if not error <= tolerance:  # also for NaN
        raise ArithmeticError(f"a result is off by {error:.3g}, more than {tolerance:.3g}")


_WEIGHTS = np.linspace(-0.5, 0.5, 12).reshape(4, 3)
_INPUT = np.linspace(-1.0, 1.0, 8).reshape(2, 4)


def _loss(w: Any) -> Any:
    return reduce_sum(tanh(constant(_INPUT) @ w) ** 2)


def _numeric_gradient() -> np.ndarray:
    """Return the gradient of the loss by central differences of NumPy's functions."""
    steps = 1e-6 * np.eye(_WEIGHTS.size).reshape(-1, *_WEIGHTS.shape)

    def loss(w: np.ndarray) -> float:
        return float(np.sum(np.tanh(_INPUT @ w) ** 2))

    slopes = [(loss(_WEIGHTS + h) - loss(_WEIGHTS - h)) / 2e-6 for h in steps]
    return np.reshape(slopes, _WEIGHTS.shape)


def _check_gradient() -> None:
    w = Variable(_WEIGHTS)
    with GradientTape() as tape:
        loss = _loss(w)
    _expect_close(tape.gradient(loss, w).numpy(), _numeric_gradient(), 1e-8)


def _check_second_order() -> None:
    found = hessian(lambda x: reduce_sum(x**4))(constant([1.0, 2.0], "float64"))
    _expect_close(found.numpy(), [[12.0, 0.0], [0.0, 48.0]], 1e-9)


def _check_function() -> None:
    step = function(grad(_loss))
    for _ in range(2):  # recorded, then replayed
        _expect_close(step(constant(_WEIGHTS)).numpy(), _numeric_gradient(), 1e-8)
        wait_for_programs()


def _line() -> tuple[np.ndarray, np.ndarray]:
    x = np.linspace(-1.0, 1.0, 64, dtype="float32").reshape(-1, 1)
    return x, 3.0 * x + 1.0


def _model() -> Any:
    from tapegrad import keras  # imports most of the package

    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.3), "mse")
    return model


def _check_training() -> None:
    model, (x, y) = _model(), _line()
    model.fit(x, y, epochs=30, verbose=0)
    kernel, bias = [w.numpy() for w in model.trainable_variables]
    _expect_close([kernel.item(), bias.item()], [3.0, 1.0], 1e-2)


def _check_saving() -> None:
    from tapegrad.keras.models import load_model  # as above

    model, (x, y) = _model(), _line()
    model.fit(x, y, verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        loaded = load_model(path)
    _expect_close(loaded.predict(x, verbose=0), model.predict(x, verbose=0), 0.0)


CHECKS: dict[str, Callable[[], None]] = {
    "gradient of a tape": _check_gradient,
    "second derivatives": _check_second_order,
    "compiled function": _check_function,
    "training with fit": _check_training,
    "model files": _check_saving,
}
"""What is checked on each device."""
