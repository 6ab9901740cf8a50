"""Compare a sample's values and gradients with those of another library."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad.errors import TapegradError
from tapegrad.program.forward_backward import recording_call
from tapegrad.program.graph.graph import Graph
from tapegrad.program.passes.pipeline import tidied
from tapegrad.testing.sample import Sample
from tapegrad.testing.variants import complex_form
from tapegrad_bench.translation import Peer, translated
from tests.oracles.arbiter import gradients_are_right, inner, values_are_right
from tests.oracles.peers import MOST_CALLS, values_and_gradients

Array = np.ndarray
TOLERANCE = 1e-8
"""Of the largest number of an array, in double precision."""

KINDS = ("float64", "complex128")


@dataclass(frozen=True)
class Outcome:
    """What one library says about one sample: `text` is "" if it agrees."""

    sample: str
    dtype: str
    library: str
    verdict: str
    """"agrees", "differs" or "not compared"."""
    text: str = ""
    right: str = ""
    """Where they differ, which of them NumPy, SciPy or differences support."""
    has_own_rule: bool = False
    """Whether the program stops gradients, because the function has a derivative of its own."""
    numbers: int = 0
    """How many arrays were compared."""

    def row(self) -> list[Any]:
        """Return it as a row of a record."""
        return [self.library, self.dtype, self.sample, self.verdict, self.text, self.right,
                self.has_own_rule]  # fmt: skip

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Outcome:
        """Return the outcome that a row of a record describes."""
        library, dtype, sample, verdict, text, right, has_own_rule = row
        return cls(sample, dtype, library, verdict, text, right, has_own_rule)


@dataclass(frozen=True)
class Ours:
    """A sample's program, arguments, results, seeds and gradients in tapegrad."""

    graph: Graph
    arrays: list[Array]
    results: list[Array]
    seeds: list[Array | None]
    gradients: list[Array | None]
    variables: list[Array]


def forms(sample: Sample) -> dict[str, Sample]:
    """Return a sample by the dtypes it is compared in: as it is, and with complex arguments."""
    kinds = {array.dtype.kind for array in sample.make()}
    found = {"complex128" if "c" in kinds else "float64": sample}
    return {**found, "complex128": complex_form(sample)} if kinds & {"f", "c"} == {"f"} else found


def ours(sample: Sample) -> Ours:
    """Record a sample and compute its results and gradients in eager mode."""
    arrays = sample.make()
    with recording_call([tf.constant(array) for array in arrays]) as (recording, inside):
        found = _as_list(sample.function(*inside))
        # A number that does not depend on the arguments is no array of the recording.
        outputs = [tf.identity(y).array for y in found]
    graph = tidied(recording.graph(outputs, *recording.finish()))
    variables = [np.array(recording.variables[n].numpy()) for n in graph.variables]
    recording.let_go()
    tensors = [tf.constant(array) for array in arrays]
    sources = [x for x in tensors if x.dtype.is_differentiable]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        results = _as_list(sample.function(*tensors))
    seeds = _seeds(sample, results)
    targets = [(y, tf.constant(s)) for y, s in zip(results, seeds, strict=True) if s is not None]
    pulled: list[Any] = [None] * len(sources)
    if targets and sources:
        pulled = tape.gradient([y for y, _ in targets], sources, [s for _, s in targets])
    at = iter(pulled)
    gradients = [next(at) if x.dtype.is_differentiable else None for x in tensors]
    hosts = [None if g is None else np.array(g.numpy()) for g in gradients]
    return Ours(graph, arrays, [np.array(y.numpy()) for y in results], seeds, hosts, variables)


def _as_list(results: Any) -> list[Any]:
    return [*results] if isinstance(results, list | tuple) else [results]


def _seeds(sample: Sample, results: Sequence[Any]) -> list[Array | None]:
    rng = np.random.default_rng(11)
    seeds: list[Array | None] = []
    for y in results:
        seed = rng.normal(size=tuple(y.shape))
        if y.dtype.name.startswith("complex"):
            seed = seed + 1j * rng.normal(size=seed.shape)
        is_followed = sample.differentiable and y.dtype.is_differentiable
        seeds.append(np.asarray(seed, y.dtype.name) if is_followed else None)
    return seeds


def compare(sample: Sample, dtype: str, library: str) -> Outcome:
    """Return whether a library agrees about a sample."""
    outcome = Outcome(sample.name, dtype, library, "not compared")
    with warnings.catch_warnings(), np.errstate(all="ignore"), tf.device("cpu"):
        warnings.simplefilter("ignore")
        try:
            mine = ours(sample)
        except (TapegradError, TypeError, ValueError) as error:
            return replace(outcome, text=f"tapegrad refuses: {_line(error)}")
        calls = len(mine.graph.calls)
        if calls > MOST_CALLS[library]:
            return replace(outcome, text=f"the program has {calls} calls")
        peer = Peer(library)
        try:
            run = translated(mine.graph, peer)
            variables = [peer.array(v) for v in mine.variables]
            values, gradients = values_and_gradients(
                peer, lambda inputs: run(inputs, variables)[0], mine.arrays, mine.seeds, calls < 30
            )
        except Exception as error:
            return replace(outcome, text=f"{library}: {type(error).__name__}: {_line(error)}")
        count = len(values) + sum(g is not None for g in gradients)
        outcome = replace(outcome, verdict="agrees", numbers=count)
        return _judged(outcome, sample, mine, values, gradients)


def _judged(
    outcome: Outcome,
    sample: Sample,
    mine: Ours,
    values: list[Array],
    gradients: list[Array | None],
) -> Outcome:
    """Return the outcome with the first difference, and who is right."""
    stops = any(call.primitive.name == "stop_gradient" for call in mine.graph.calls)
    outcome = replace(outcome, has_own_rule=stops)
    text = difference("value", mine.results, values)
    if text:
        sides = [values_are_right(sample, mine.arrays, y) for y in (mine.results, values)]
        return replace(outcome, verdict="differs", text=text, right=_side(*sides))
    text = difference("gradient", mine.gradients, gradients)
    if text:
        sides = [
            gradients_are_right(lambda x: _weighted(sample, x, mine.seeds), mine.arrays, g)
            for g in (mine.gradients, gradients)
        ]
        return replace(outcome, verdict="differs", text=text, right=_side(*sides))
    return outcome


def _side(is_mine: bool, is_theirs: bool) -> str:
    if is_mine and is_theirs:
        return "both"
    return "tapegrad" if is_mine else "the library" if is_theirs else "neither"


def _weighted(sample: Sample, arrays: Sequence[Array], seeds: Sequence[Array | None]) -> float:
    results = _as_list(sample.function(*[tf.constant(array) for array in arrays]))
    pairs = zip(seeds, results, strict=True)
    return sum(inner(seed, y.numpy()) for seed, y in pairs if seed is not None)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:160]


def difference(what: str, found: Sequence[Array | None], wanted: Sequence[Array | None]) -> str:
    """Return a sentence about the first arrays that differ, or ""."""
    for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if one is None and other is None:
            continue
        # No gradient is a gradient of zeros.
        one = np.zeros_like(other) if one is None else one
        other = np.zeros_like(one) if other is None else other
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return f"{what} {place} is {one.dtype}{one.shape}, theirs {other.dtype}{other.shape}"
        if one.dtype.kind not in "fc":
            if not np.array_equal(one, other):
                return f"{what} {place} differs at {np.sum(one != other)} of {one.size} places"
            continue
        if not np.array_equal(np.isfinite(one), np.isfinite(other)):
            finite = [int(np.isfinite(x).sum()) for x in (one, other)]
            return f"{what} {place} is finite at {finite[0]} places, theirs at {finite[1]}"
        is_finite = np.isfinite(other)
        error = np.max(np.abs(one - other), initial=0.0, where=is_finite)
        scale = max(1.0, float(np.max(np.abs(other), initial=0.0, where=is_finite)))
        if error > TOLERANCE * scale:
            return f"{what} {place} differs by {error / scale:.1e} of the largest number"
    return ""
