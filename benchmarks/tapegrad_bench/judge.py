"""Whether what a library computed is right: its time counts only then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tapegrad_bench.adapters.library import Prepared
from tapegrad_bench.precision import is_half
from tapegrad_bench.reference import CHECKED_STEPS, Reference
from tapegrad_bench.workload import Arrays, Kind, Workload

LOSS_TOLERANCE = {"float64": 1e-5, "float32": 1e-4, "bfloat16": 3e-2, "float16": 1e-2}
"""For losses after updates: Adam's epsilon stands at one of two places, as the library likes."""


@dataclass(frozen=True)
class Judgement:
    """The largest relative error, and a sentence if it is too large."""

    error: float
    complaint: str = ""


UPDATE_TOLERANCE = {"float64": 1e-4, "float32": 0.05, "bfloat16": 0.7, "float16": 0.7}
"""For the updates of all parameters together. Adam divides a gradient by its own size, so rounding
turns the updates of those that are almost zero around. Without any update the error is 1."""


@dataclass(frozen=True)
class Checked:
    """What a library computed at the small size."""

    outputs: list[Arrays]
    """Of the first set of inputs; of several if the step makes no update."""
    losses: tuple[float, ...] = ()
    """Of the first training steps."""
    parameters: Arrays = field(default_factory=list)
    """After these steps."""


def checked(prepared: Prepared) -> Checked:
    """Run the first steps. Their results are read after the last one: they must be left alone."""
    if prepared.gradients is None:
        results = [prepared.step() for _ in range(CHECKED_STEPS)]
        return Checked([prepared.fetch(result) for result in results])
    outputs = prepared.fetch(prepared.gradients())
    results = [prepared.step() for _ in range(CHECKED_STEPS)]
    losses = tuple(float(prepared.fetch((loss, []))[0]) for loss, _ in results)
    return Checked([outputs], losses, prepared.fetch_parameters())


def judge(workload: Workload, dtype: str, found: Checked, known: Reference) -> Judgement:
    """Compare the outputs of a step, and the first losses and updates, with the reference."""
    if len(found.outputs) != len(known.outputs):
        return Judgement(np.inf, f"It gave {len(found.outputs)} results, not {len(known.outputs)}.")
    worst = 0.0
    for number, (outputs, expected) in enumerate(zip(found.outputs, known.outputs)):
        judgement = _judge_outputs(workload, dtype, outputs, expected)
        worst = max(worst, judgement.error)
        if judgement.complaint:
            where = f"With set {number + 1} of the inputs: " if number else ""
            return Judgement(judgement.error, where + judgement.complaint)
    judgement = _judge_losses(dtype, found.losses, known.losses, worst)
    if judgement.complaint:
        return judgement
    return _judge_updates(dtype, found.parameters, known, judgement)


def _judge_outputs(workload: Workload, dtype: str, outputs: Arrays, known: Arrays) -> Judgement:
    if len(outputs) != len(known):
        return Judgement(np.inf, f"It gave {len(outputs)} arrays where {len(known)} are expected.")
    names = ["the output", *(f"gradient {i}" for i in range(1, len(outputs)))]
    allowed = workload.tolerance[dtype]
    gives_loss = workload.kind not in (Kind.HVP, Kind.JACOBIAN)
    worst = 0.0
    for name, found, expected in zip(names, outputs, known):
        if name == "the output" and not gives_loss and not found.size:
            continue  # these steps give the derivative only
        if found.shape != expected.shape:
            return Judgement(
                np.inf, f"{name} has shape {found.shape} where {expected.shape} is expected."
            )
        error = relative_error(found, expected, dtype)
        worst = max(worst, error)
        if not error <= allowed:
            return Judgement(error, complaint(name, error, allowed))
    return Judgement(worst)


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


def _judge_updates(
    dtype: str, parameters: Arrays, known: Reference, judgement: Judgement
) -> Judgement:
    """Compare how far the parameters have moved, since a step is small beside them."""
    if [p.shape for p in parameters] != [p.shape for p in known.parameters]:
        return Judgement(
            np.inf, f"It updates {len(parameters)} parameters, not {len(known.parameters)}."
        )
    moved = [np.ravel(p - start) for p, start in zip(known.parameters, known.start)]
    wrong = [np.ravel(p - right) for p, right in zip(parameters, known.parameters)]
    if not moved:
        return judgement
    error = float(np.linalg.norm(np.concatenate(wrong)) / np.linalg.norm(np.concatenate(moved)))
    allowed = UPDATE_TOLERANCE[dtype]
    if not error <= allowed:
        return Judgement(error, complaint("the update of the parameters", error, allowed))
    return judgement


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
