"""Writes through views: tensors behave as NumPy's arrays do, recorded or not, with gradients.

    python -m tests.fuzz.views --seconds 600 --seed 1

A random script of views and writes runs on NumPy's arrays, on tensors, inside a function and under
a tape. The values of all arrays agree after it, and the gradient agrees with a difference quotient.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from typing import Any

import numpy as np

os.environ.setdefault("TAPEGRAD_WAIT", "1")
os.environ.setdefault("TAPEGRAD_CFLAGS", "-O0")

import tapegrad as tf
import tapegrad.numpy as tnp
from tests.fuzz import view_steps
from tests.fuzz.command import FaultError, main
from tests.fuzz.comparison import difference, host

SHAPES = ((3, 4), (2, 6), (4,), (2, 2, 3))
MOST_AXES = 4

Script = list[tuple[str, view_steps.Step]]


def script_of(seed: int, arrays: list[np.ndarray]) -> Script:
    """Draw a script, running it on NumPy's arrays."""
    rng = np.random.default_rng([seed, 1])
    values, is_view, script = [x.copy() for x in arrays], [False] * len(arrays), Script()
    for _ in range(int(rng.integers(4, 14))):
        kind = int(rng.integers(8))
        step: Any
        if kind < 3:
            step = view_steps.new_view(rng, values)
        elif kind == 3:
            step = view_steps.new_array(rng, values)
        elif kind == 4:
            step = view_steps.augmented(rng, values, is_view)
        else:
            step = view_steps.write(rng, values, is_view)
        if step is None:
            continue
        before = [x.copy() for x in values]
        made = step[1](np, values)
        if made is not None and (made.size == 0 or made.ndim > MOST_AXES):
            continue
        if any(np.max(np.abs(x)) > 1e3 for x in values):
            for x, old in zip(values, before):
                x[...] = old
            continue
        script.append(step)
        if made is not None:
            values.append(made)
            is_view.append(any(np.shares_memory(made, x) for x in values[:-1]))
    return script


def run(script: Script, xp: Any, arrays: list[Any]) -> list[Any]:
    """Run a script on copies; return all arrays."""
    values = [x * 1.0 for x in arrays]
    for _, step in script:
        made = step(xp, values)
        if made is not None:
            values.append(made)
    return values


def loss(values: list[Any]) -> Any:
    """Return a sum of all elements with weights."""
    total: Any = 0.0
    for k, x in enumerate(values):
        weights = np.cos(np.arange(x.size) + k).reshape(x.shape)
        total = total + (x * weights).sum()
    return total


def slope(script: Script, arrays: list[np.ndarray], directions: list[np.ndarray]) -> float:
    """Return the derivative of the loss in a direction, by a central difference."""
    h = 1e-6
    ends = [
        float(loss(run(script, np, [x + s * h * d for x, d in zip(arrays, directions)])))
        for s in (1, -1)
    ]
    return (ends[0] - ends[1]) / (2 * h)


def fault_of(script: Script, arrays: list[np.ndarray]) -> str | None:
    """Return a sentence about a difference, or None."""
    wanted = run(script, np, arrays)
    found = run(script, tnp, [tf.constant(x) for x in arrays])
    text = difference(found, wanted)
    if text:
        return f"eager: {text}"
    recorded = tf.function(lambda *xs: run(script, tnp, list(xs)))
    for _ in range(2):
        text = difference(recorded(*[tf.constant(x) for x in arrays]), wanted)
        if text:
            return f"function: {text}"
    return _wrong_gradient(script, arrays)


def _wrong_gradient(script: Script, arrays: list[np.ndarray]) -> str | None:
    directions = [np.sin(np.arange(x.size) + 1.0).reshape(x.shape) for x in arrays]
    wanted = slope(script, arrays, directions)

    def gradients(*xs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(xs)
            y = loss(run(script, tnp, list(xs)))
        return tape.gradient(y, list(xs), unconnected_gradients="zero")

    for name, function in (("tape", gradients), ("tape inside", tf.function(gradients))):
        found = function(*[tf.constant(x) for x in arrays])
        product = sum(float(np.sum(host(g) * d)) for g, d in zip(found, directions))
        if abs(product - wanted) > 1e-4 * max(1.0, abs(wanted)):
            return f"{name}: gradient {product} instead of {wanted}"
    return None


def smallest(script: Script, arrays: list[np.ndarray]) -> Script:
    """Remove writes as long as there is a fault."""
    for k in reversed(range(len(script))):
        shorter = [*script[:k], *script[k + 1 :]]
        if script[k][1](np, run(script[:k], np, arrays)) is None and _has_fault(shorter, arrays):
            script = shorter
    return script


def _has_fault(script: Script, arrays: list[np.ndarray]) -> bool:
    try:
        return fault_of(script, arrays) is not None
    except Exception:
        return True


def check(seed: int) -> Counter[str]:
    """Run one script in all ways."""
    rng = np.random.default_rng([seed, 0])
    arrays = [rng.normal(size=shape) for shape in SHAPES]
    script = script_of(seed, arrays)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            text = fault_of(script, arrays)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        if text:
            script = smallest(script, arrays)
            lines = "\n".join(name for name, _ in script)
            raise FaultError(f"{text}\n{lines}")
    return Counter(scripts=1, steps=len(script))


if __name__ == "__main__":
    sys.exit(main(check, __doc__.partition("\n")[0]))
