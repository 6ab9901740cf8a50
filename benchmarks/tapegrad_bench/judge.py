"""Whether what a library computed is right: its time counts only then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tapegrad_bench.precision import is_half
from tapegrad_bench.reference import Reference
from tapegrad_bench.workload import Arrays, Workload

LOSS_TOLERANCE = {"float64": 1e-5, "float32": 1e-4, "bfloat16": 3e-2, "float16": 1e-2}
"""For losses after updates: Adam's epsilon stands at one of two places, as the library likes."""


@dataclass(frozen=True)
class Judgement:
    """The largest relative error, and a sentence if it is too large."""

    error: float
    complaint: str = ""


def judge(
    workload: Workload, dtype: str, outputs: Arrays, losses: Sequence[float], known: Reference
) -> Judgement:
    """Compare the outputs of a step, and the first losses of training, with the reference."""
    if len(outputs) != len(known.outputs):
        return Judgement(
            np.inf, f"It gave {len(outputs)} arrays where {len(known.outputs)} are expected."
        )
    names = ["the output", *(f"gradient {i}" for i in range(1, len(outputs)))]
    allowed = workload.tolerance[dtype]
    worst = 0.0
    for name, found, expected in zip(names, outputs, known.outputs):
        if not found.size and expected.size:
            continue  # some steps give the derivative only
        if found.shape != expected.shape:
            return Judgement(
                np.inf, f"{name} has shape {found.shape} where {expected.shape} is expected."
            )
        error = relative_error(found, expected, dtype)
        worst = max(worst, error)
        if not error <= allowed:
            return Judgement(error, complaint(name, error, allowed))
    return _judge_losses(dtype, losses, known.losses, worst)


def _judge_losses(
    dtype: str, losses: Sequence[float], expected: Sequence[float], worst: float
) -> Judgement:
    if len(losses) != len(expected):
        return Judgement(np.inf, f"It gave {len(losses)} losses, not {len(expected)}.")
    for step, (found, right) in enumerate(zip(losses, expected), start=1):
        error = relative_error(np.array(found), np.array(right), dtype)
        worst = max(worst, error)
        if not error <= LOSS_TOLERANCE[dtype]:
            name = f"the loss of step {step}"
            return Judgement(error, complaint(name, error, LOSS_TOLERANCE[dtype]))
    return Judgement(worst)


def judge_loss(dtype: str, found: float, expected: float, size: str) -> Judgement:
    """Compare the first loss at the size that is timed."""
    error = relative_error(np.array(found), np.array(expected), dtype)
    allowed = max(LOSS_TOLERANCE[dtype], 1e-3)  # the expected one is computed in single precision
    return Judgement(
        error, "" if error <= allowed else complaint(f"the loss at size {size}", error, allowed)
    )


def complaint(name: str, error: float, allowed: float) -> str:
    """Say what differs and by how much."""
    return f"{name} differs from the reference by {error:.2g}; {allowed:.2g} is allowed."


def relative_error(found: np.ndarray, expected: np.ndarray, dtype: str) -> float:
    """Return the difference of two arrays in relation to the second; NaN counts as infinite.

    In half precision it is that of the norms. Else the largest single difference counts as well.

    >>> relative_error(np.array([1.0, 2.0]), np.array([1.0, 1.0]), "float32")
    1.0
    """
    if not np.all(np.isfinite(found)):
        return float("inf")
    difference = np.ravel(found - expected)
    expected = np.ravel(expected)
    if not expected.size:
        return 0.0
    tiny = np.finfo(np.float64).tiny
    error = np.linalg.norm(difference) / max(np.linalg.norm(expected), tiny)
    if not is_half(dtype):
        error = max(error, np.abs(difference).max() / max(np.abs(expected).max(), tiny))
    return float(error)
