"""What the step that is timed computed, at the size at which it is timed, and whether it is right.

Results at that size are too large to pass between processes, so a worker sends a digest of each
array: its shape, its norm and a linear sketch. The distance of two sketches estimates the distance
of the arrays, and sketches of arrays with few elements are the arrays themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import hypot, inf
from typing import Any

import numpy as np

from tapegrad_bench.adapters.library import Prepared
from tapegrad_bench.judge import LOSS_TOLERANCE, UPDATE_TOLERANCE, Judgement
from tapegrad_bench.precision import ITEM_SIZE
from tapegrad_bench.reference import CHECKED_STEPS, outputs_of, reference
from tapegrad_bench.workload import Arrays, Kind, Problem

Tolerance = Mapping[str, float]
"""The relative error of the arrays that a step returns which is allowed, by dtype."""

WIDTH = 4096
"""Numbers in a sketch. The estimate of a distance is off by about 1 / sqrt(WIDTH / 2) of it."""

LARGEST_BYTES, LARGEST_OPERATIONS = 4e9, 1e11
"""What a step in float64 may need at most to be computed by NumPy for comparison."""

NEGLIGIBLE = {"float64": 1e-12, "float32": 1e-6, "bfloat16": 1e-3, "float16": 1e-3}
"""An array is compared in relation to its norm, or to this part of the norm of all if that is
larger: a gradient that is zero up to rounding has no digits to compare."""

SUM_TOLERANCE = {**LOSS_TOLERANCE, "float32": 1e-3}
"""For losses at the timed size: sums of millions of elements cancel."""

GRADIENT_TOLERANCE = {"float64": 1e-3, "float32": 0.05, "bfloat16": 0.7, "float16": 0.3}
"""For what is linear in the gradients of several steps. Updates in between are not the same to the
last digit, and one activation that rounding moves to the other side of zero changes a gradient by
a percent. Without the gradient the error is 1."""

NOISIEST = 0.5
"""The largest relative error that the rounding of the parameters excuses in an output. An output
that is missing, zero or stale is off by 1 or more."""

LONGEST = 2.0
"""How many times as far, or as short, a parameter may move as it should. Adam moves those whose
gradients are almost zero in a random direction, but as far as the others."""


@dataclass(frozen=True)
class Digest:
    """An array in few numbers."""

    shape: tuple[int, ...]
    norm: float
    """Infinite if an element is not finite."""
    sketch: np.ndarray


def digest(array: np.ndarray) -> Digest:
    """Return the digest of an array.

    >>> digest(np.array([3.0, 4.0])).norm
    5.0
    """
    flat = np.asarray(array, np.float64).ravel()
    norm = float(np.linalg.norm(flat))
    if not np.isfinite(norm):
        return Digest(array.shape, inf, np.zeros(0))
    if flat.size <= WIDTH:
        return Digest(array.shape, norm, flat.copy())
    whole = flat.size // WIDTH * WIDTH
    # Each column of the rows below each other is summed with random signs.
    *signs, last = np.random.default_rng(whole).choice([-1.0, 1.0], whole // WIDTH + 1)
    sketch = np.array(signs) @ flat[:whole].reshape(-1, WIDTH)
    sketch[: flat.size - whole] += last * flat[whole:]
    return Digest(array.shape, norm, sketch)


def distance(found: Digest, expected: Digest) -> float:
    """Return the estimated norm of the difference; infinite if there is none.

    >>> distance(digest(np.array([3.0, 4.0])), digest(np.array([3.0, 3.0])))
    1.0
    """
    if found.shape != expected.shape or inf in (found.norm, expected.norm):
        return inf
    return float(np.linalg.norm(found.sketch - expected.sketch))


@dataclass(frozen=True)
class Evidence:
    """Digests of the first steps of a problem."""

    outputs: tuple[Mapping[str, Digest], ...] = ()
    """Of each set of inputs, for a step without an update: by name."""
    losses: tuple[float, ...] = ()
    """Of each training step."""
    movements: tuple[Digest, ...] = ()
    """How far the steps moved each parameter."""
    moments: tuple[Digest, ...] = ()
    """Adam's running mean of each gradient."""
    movement_noise: tuple[float, ...] = ()
    """How far each movement changes if the first parameters have errors of the size of rounding;
    nothing if that was not measured."""
    moment_noise: tuple[float, ...] = ()
    """Likewise, each running mean."""
    output_noise: tuple[Mapping[str, float], ...] = ()
    """Likewise, each output of each set of inputs."""


def evidence_of(prepared: Prepared, problem: Problem, results: Sequence[Any]) -> Evidence:
    """Return the digests of what the first steps gave; no step may have run after them."""
    if prepared.gradients is None:
        return Evidence(tuple(_named(problem, prepared.fetch(result)) for result in results))
    losses = tuple(float(prepared.fetch((loss, []))[0]) for loss, _ in results)
    parameters = prepared.parameters() if prepared.parameters else []
    moments = prepared.moments() if prepared.moments else []
    return Evidence(
        losses=losses,
        movements=tuple(_movements(_one_by_one(prepared, parameters), problem.params)),
        moments=tuple(digest(moment) for moment in _one_by_one(prepared, moments)),
    )


def again(prepared: Prepared, problem: Problem) -> Evidence:
    """Run the first steps once more, by the same step as before."""
    prepared.restart()
    return evidence_of(prepared, problem, [prepared.step() for _ in range(CHECKED_STEPS)])


def _one_by_one(prepared: Prepared, arrays: Sequence[Any]) -> Iterator[np.ndarray]:
    """Yield the arrays on the host: together and in float64 they may be too large for it."""
    for array in arrays:
        yield prepared.fetch((None, [array]))[1]


def _movements(parameters: Iterator[np.ndarray], start: Arrays) -> Iterator[Digest]:
    starts = iter(start)
    for parameter in parameters:
        before = next(starts, None)
        known = before is not None and before.shape == parameter.shape
        yield digest(parameter - before if known else parameter)


def has_reference(problem: Problem) -> bool:
    """Say whether a step is small enough to be computed by NumPy in float64."""
    bytes_needed = (problem.cost.bytes or 0) * 8 / ITEM_SIZE[problem.dtype]
    return bytes_needed <= LARGEST_BYTES and (problem.cost.flops or 0) <= LARGEST_OPERATIONS


def reference_evidence(problem: Problem) -> Evidence | None:
    """Return what NumPy computes in float64, or None if that would take too long."""
    if not has_reference(problem):
        return None
    if problem.workload.kind is not Kind.TRAINING:
        return Evidence(tuple(_named(problem, outputs) for outputs in outputs_of(problem)))
    known = reference(problem)
    return Evidence(
        losses=known.losses,
        movements=tuple(_movements(iter(known.parameters), problem.params)),
        moments=tuple(digest(moment) for moment in known.moments),
    )


def _named(problem: Problem, outputs: Arrays) -> dict[str, Digest]:
    only_derivative = problem.workload.kind in (Kind.HVP, Kind.JACOBIAN)
    names = ["the output", *(f"gradient {i}" for i in range(1, len(outputs)))]
    return {
        name: digest(array)
        for name, array in zip(names, outputs)
        if not (only_derivative and name == "the output")
    }


def compare(tolerance: Tolerance, dtype: str, found: Evidence, known: Evidence) -> Judgement:
    """Compare the results of the step that is timed with those of another one.

    The error of the judgement is that of outputs and losses.
    """
    if _counts(found) != _counts(known):
        return Judgement(inf, "It gave other results than expected, or left one out.")
    results = [*_result_errors(tolerance[dtype], dtype, found, known)]
    for name, error, allowed in (*results, *_update_errors(dtype, found, known)):
        if not error <= allowed:
            return Judgement(error, f"{name} is off by {error:.2g}; {allowed:.2g} is allowed.")
    return Judgement(max([error for _, error, _ in results], default=0.0))


def _result_errors(
    of_arrays: float, dtype: str, found: Evidence, known: Evidence
) -> Iterator[tuple[str, float, float]]:
    """Yield what is compared, its relative error, and how large that may be."""
    of_loss = max(SUM_TOLERANCE[dtype], of_arrays)
    for number, (outputs, expected) in enumerate(zip(found.outputs, known.outputs), start=1):
        for name, right in expected.items():
            wrong = distance(outputs[name], right)
            allowed = of_arrays if right.shape else of_loss
            noise = _ratio(_output_noise(found, known, number - 1, name), right.norm)
            label = f"With set {number} of the inputs, {name}"
            # Both sides have rounded in their own way.
            yield label, _ratio(wrong, right.norm), max(allowed, min(2.0 * noise, NOISIEST))
    for number, (loss, right_loss) in enumerate(zip(found.losses, known.losses), start=1):
        wrong = abs(loss - right_loss) if np.isfinite(loss) else inf
        yield f"The loss of step {number}", _ratio(wrong, abs(right_loss)), of_loss


def _counts(evidence: Evidence) -> tuple[object, ...]:
    names = tuple(tuple(outputs) for outputs in evidence.outputs)
    return names, len(evidence.losses), len(evidence.movements), len(evidence.moments)


def _update_errors(
    dtype: str, found: Evidence, known: Evidence
) -> Iterator[tuple[str, float, float]]:
    allowed = UPDATE_TOLERANCE[dtype]
    pairs = [*zip(found.movements, known.movements)]
    noise = _noise(found.movement_noise, known.movement_noise, len(pairs))
    sure = [(a, b) for (a, b), own in zip(pairs, noise) if not _is_noise(own, b, allowed)]
    if sure:
        wrong, moved = hypot(*(distance(a, b) for a, b in sure)), hypot(*(b.norm for _, b in sure))
        yield "The update of the parameters", _ratio(wrong, moved), allowed
    least = _negligible(dtype, known.movements)
    for number, ((a, b), own) in enumerate(zip(pairs, noise), start=1):
        error = _stretch(a, b, least, own)
        yield f"The length of the update of parameter {number}", error, LONGEST
    if known.moments:
        pairs = [*zip(found.moments, known.moments)]
        noise = _noise(found.moment_noise, known.moment_noise, len(pairs))
        least = _negligible(dtype, known.moments)
    allowed = GRADIENT_TOLERANCE[dtype]
    for number, ((a, b), own) in enumerate(zip(pairs, noise), start=1):
        if _is_noise(own, b, allowed):
            error = _stretch(a, b, least, own)
            yield f"The length of the gradient of parameter {number}", error, LONGEST
        else:
            error = _ratio(distance(a, b), max(b.norm, least))
            yield f"The gradient of parameter {number}", error, allowed


def _noise(found: Sequence[float], known: Sequence[float], count: int) -> list[float]:
    """Return the noise that both sides measured: none can excuse a difference by its own alone."""
    if not (len(found) == len(known) == count):
        return [0.0] * count
    return [min(a, b) for a, b in zip(found, known)]


def _output_noise(found: Evidence, known: Evidence, place: int, name: str) -> float:
    """Return the noise of an output that both sides measured, of one set of inputs."""
    sides = [side.output_noise for side in (found, known)]
    return min([side[place].get(name, 0.0) if side else 0.0 for side in sides])


def _is_noise(noise: float, right: Digest, allowed: float) -> bool:
    """Say whether rounding alone changes an array by half of what is allowed between two, or more.

    The direction of such an array says nothing about who is right: a contender would be off by
    about as much from itself. Adam turns gradients that are almost zero into updates of the usual
    length. Gradients of a deep network with normalisation can be noise themselves: those of the
    zoo's resnet in bfloat16 are off by 0.8 from float64 in each library, in the first step. Their
    lengths and the losses remain to be compared. A step that moves nothing has no noise either, so
    that it is still compared.
    """
    return not noise <= 0.5 * allowed * right.norm


def _stretch(found: Digest, known: Digest, least: float, noise: float) -> float:
    """Return how many times as long the longer of two arrays is, beyond what is noise.

    None is shorter than `least`.
    """
    short, long = sorted([max(found.norm, least), max(known.norm, least)])
    return _ratio(max(long - noise, short), short)


def _negligible(dtype: str, digests: Sequence[Digest]) -> float:
    return NEGLIGIBLE[dtype] * hypot(*(each.norm for each in digests))


def _ratio(wrong: float, right: float) -> float:
    return wrong / max(right, float(np.finfo(np.float64).tiny)) if wrong else 0.0


def verdicts(
    tolerance: Tolerance, dtype: str, found: Mapping[str, tuple[str, Evidence]]
) -> dict[str, Judgement]:
    """Compare contenders with each other: by name, a library and its evidence.

    A contender is wrong if most other libraries disagree with it, each in all of its modes; other
    modes of its own library count only where there is no other one. One that is alone is not
    judged.
    """
    judged = {}
    for name, (library, mine) in found.items():
        others = {n: voter for n, (voter, _) in found.items() if voter != library}
        others = others or {n: n for n in found if n != name}
        against = {n: compare(tolerance, dtype, mine, found[n][1]) for n in others}
        agreeing = {voter for n, voter in others.items() if not against[n].complaint}
        judged[name] = Judgement(min([each.error for each in against.values()], default=0.0))
        if 2 * len(agreeing) < len(set(others.values())):
            wrong = {n: each for n, each in against.items() if each.complaint}
            first, judgement = next(iter(wrong.items()))
            text = f"It disagrees with {', '.join(wrong)}. Against {first}: {judgement.complaint}"
            judged[name] = Judgement(judgement.error, text)
    return judged
