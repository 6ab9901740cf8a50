"""Every optimizer: its configuration, and its slots, counters and averages in a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad.keras import optimizers
from tests.compatibility.cases import Case, Outcome, fingerprint, load_configs, save_configs
from tests.compatibility.models import SignMomentum

_rng = np.random.default_rng(6)
START = {"w": _rng.normal(size=(3, 2)).astype("float32"), "b": np.array([0.5, -1.5], "float32")}

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "Adadelta": lambda: optimizers.Adadelta(0.5),
    "Adafactor": lambda: optimizers.Adafactor(0.1, relative_step=False),
    "Adagrad": lambda: optimizers.Adagrad(0.1),
    "Adam": lambda: optimizers.Adam(0.1, amsgrad=True, weight_decay=0.1),
    "AdamW": lambda: optimizers.AdamW(optimizers.schedules.CosineDecay(0.1, 10)),
    "Adamax": lambda: optimizers.Adamax(0.1, clipnorm=0.5),
    "Ftrl": lambda: optimizers.Ftrl(0.1, l1_regularization_strength=0.1),
    "Lamb": lambda: optimizers.Lamb(0.1, use_ema=True, ema_overwrite_frequency=2),
    "Lion": lambda: optimizers.Lion(0.1, clipvalue=0.5),
    "LossScaleOptimizer": lambda: optimizers.LossScaleOptimizer(
        optimizers.Adagrad(0.1), initial_scale=8.0, dynamic_growth_steps=2
    ),
    "Muon": lambda: optimizers.Muon(0.1),
    "Nadam": lambda: optimizers.Nadam(0.1, global_clipnorm=1.0),
    "RMSprop": lambda: optimizers.RMSprop(0.1, momentum=0.5, centered=True),
    "SGD": lambda: optimizers.SGD(0.1, momentum=0.5, nesterov=True),
    "SignMomentum": lambda: SignMomentum(0.1),
    "summed gradients": lambda: optimizers.SGD(0.1, gradient_accumulation_steps=3),
}
PLAIN: dict[str, Callable[[], Any]] = {
    "SGD": lambda: tf.optimizers.SGD(0.1, momentum=0.5),
    "Adagrad": lambda: tf.optimizers.Adagrad(0.1),
    "Adam": lambda: tf.optimizers.Adam(0.1, amsgrad=True, use_ema=True),
    "AdamW": lambda: tf.optimizers.AdamW(0.1, global_clipnorm=1.0),
    "RMSprop": lambda: tf.optimizers.RMSprop(0.1, centered=True),
}
"""The optimizers of `tapegrad.optimizers`, which have no configuration."""


def write(folder: Path) -> Outcome:
    _refuse_missing()
    made = {name: make() for name, make in OPTIMIZERS.items()}
    save_configs(made, folder)
    run = _Run(made)
    run.step(2)
    run.checkpoint.write(folder / "optimizers")
    return run.observe()


def read(folder: Path) -> Outcome:
    run = _Run(load_configs(folder))
    run.checkpoint.read(folder / "optimizers").assert_consumed()
    return run.observe()


class _Run:
    """Optimizers, each with a set of variables."""

    def __init__(self, made: dict[str, Any]) -> None:
        plain = {f"plain {name}": make() for name, make in PLAIN.items()}
        self.optimizers = {**made, **plain}
        self.variables = {
            name: {key: tf.Variable(value, name=key) for key, value in START.items()}
            for name in self.optimizers
        }
        self.checkpoint = tf.train.Checkpoint(optimizers=self.optimizers, variables=self.variables)

    def step(self, count: int) -> None:
        """Move all variables by gradients that depend on where they are."""
        for name, optimizer in self.optimizers.items():
            variables = list(self.variables[name].values())
            for number in range(count):
                gradients = [tf.cos(v * (2.0 + number)) for v in variables]
                optimizer.apply_gradients(zip(gradients, variables))

    def observe(self) -> Outcome:
        stored = {
            name: fingerprint([*self.variables[name].values(), *optimizer.variables])
            for name, optimizer in self.optimizers.items()
        }
        self.step(2)
        return Outcome(stored, dict(self.variables))


def _refuse_missing() -> None:
    public = [getattr(optimizers, name) for name in optimizers.__all__]
    names = {one.__name__ for one in public if isinstance(one, type)} - {"Optimizer"}
    assert names <= OPTIMIZERS.keys(), f"No row for: {sorted(names - OPTIMIZERS.keys())}"
    plain = set(tf.optimizers.__all__) - {"Optimizer"}
    assert plain == PLAIN.keys(), f"No row for: {sorted(plain ^ PLAIN.keys())}"


CASES = {"optimizers": Case(write, read)}
