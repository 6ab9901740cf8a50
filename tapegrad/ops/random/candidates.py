"""Candidate sampling: classes drawn by given probabilities, for losses over many classes.

Distinct classes are drawn one after the other and repetitions are left out. Eager code does so on
the host. A recorded function draws with the same probabilities from the times at which the classes
would first occur: the earliest ones are the distinct classes. That takes time for every class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values import host
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops import creation
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.control.loops import is_recording
from tapegrad.ops.elementwise.comparison import equal
from tapegrad.ops.elementwise.exponential import exp, expm1, log1p
from tapegrad.ops.elementwise.selection import maximum, minimum, where
from tapegrad.ops.indexing.gather import gather
from tapegrad.ops.indexing.sorting import searchsorted, top_k
from tapegrad.ops.random import functions as random_functions
from tapegrad.ops.random.generator import get_global_generator
from tapegrad.ops.reduction.primitives import sum as sum_of

Sample = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class _Classes:
    """Classes 0 to `count - 1`: the probability of each, and the class of a number in [0, 1)."""

    count: int
    chance: Callable[[Any], Any]
    class_at: Callable[[Any], Any]
    class_on_host: Callable[[np.ndarray], np.ndarray]


def log_uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Sample:
    """Draw classes below `range_max`, small ones more often, as words in the order of frequency.

    Class k has the probability log(1 + 1 / (k + 1)) / log(range_max + 1). Returns the drawn
    classes, and how often the true and the drawn classes are expected among them. Draws depend on
    the global generator, or on `seed`.

    >>> drawn, _, expected = log_uniform_candidate_sampler([[3]], 1, 4, True, 100, seed=1)
    >>> len(set(drawn.tolist())), expected.shape
    (4, (4,))
    """
    whole = float(np.log1p(range_max))
    classes = _Classes(
        range_max,
        lambda ids: log1p(1.0 / (cast(ids, "float64") + 1.0)) / whole,
        lambda u: cast(exp(u * whole) - 1.0, "int64"),
        lambda u: np.exp(u * whole).astype(np.int64) - 1,
    )
    return _sample(
        "log_uniform_candidate_sampler", classes, true_classes, num_true, num_sampled, unique, seed
    )


def uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Sample:
    """Draw classes below `range_max`, all with the same probability.

    Returns the drawn classes, and how often the true and the drawn classes are expected among them.

    >>> drawn, _, expected = uniform_candidate_sampler([[3]], 1, 4, False, 100, seed=1)
    >>> expected.numpy()
    array([0.04, 0.04, 0.04, 0.04], dtype=float32)
    """
    classes = _Classes(
        range_max,
        lambda ids: 0.0 * cast(ids, "float64") + 1.0 / range_max,
        lambda u: cast(u * range_max, "int64"),
        lambda u: (u * range_max).astype(np.int64),
    )
    return _sample(
        "uniform_candidate_sampler", classes, true_classes, num_true, num_sampled, unique, seed
    )


def fixed_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    vocab_file: str = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Any = (),
    seed: int | None = None,
    name: str | None = None,
) -> Sample:
    """Draw classes with probabilities that are powers of given counts, with `distortion` as power.

    The counts are `unigrams`, or the last entries of the lines of `vocab_file`, which are separated
    by commas. The first `num_reserved_ids` classes have no count and are not drawn.

    >>> drawn, _, _ = fixed_unigram_candidate_sampler([[1]], 1, 3, False, 3, unigrams=[0, 5, 0])
    >>> drawn.tolist()
    [1, 1, 1]
    """
    if (num_shards, shard) != (1, 0):
        raise ArgumentError("fixed_unigram_candidate_sampler does not support shards. Omit them.")
    if bool(vocab_file) == bool(len(unigrams)):
        raise ArgumentError("fixed_unigram_candidate_sampler takes unigrams or a vocab_file.")
    counts = _counts_in(vocab_file) if vocab_file else np.asarray(unigrams, np.float64)
    counts = counts ** np.asarray(distortion, np.float64)
    weights = np.concatenate([np.zeros(num_reserved_ids), counts])
    if weights.shape != (range_max,) or (weights < 0).any() or not weights.sum():
        raise ArgumentError(
            f"fixed_unigram_candidate_sampler needs {range_max - num_reserved_ids} counts of 0 or "
            f"more, for range_max={range_max} without the reserved classes. Got {len(counts)}."
        )
    if unique and np.count_nonzero(weights) < num_sampled:
        raise ArgumentError(
            f"{num_sampled} distinct classes cannot be drawn from {np.count_nonzero(weights)} "
            "classes with a count."
        )
    chances = weights / weights.sum()
    bounds = np.cumsum(chances)
    bounds[np.flatnonzero(weights)[-1] :] = 1.0  # sums are rounded
    classes = _Classes(
        range_max,
        lambda ids: gather(creation.as_constant(chances), ids),
        lambda u: cast(searchsorted(creation.as_constant(bounds), u, side="right"), "int64"),
        lambda u: np.searchsorted(bounds, u, side="right"),
    )
    return _sample(
        "fixed_unigram_candidate_sampler",
        classes,
        true_classes,
        num_true,
        num_sampled,
        unique,
        seed,
    )


def _counts_in(path: str) -> np.ndarray:
    lines = Path(path).read_text("utf-8").splitlines()
    return np.array([float(line.rpartition(",")[2]) for line in lines if line.strip()])


def all_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    seed: int | None = None,
    name: str | None = None,
) -> Sample:
    """Return the classes 0 to `num_sampled - 1`, each of which is expected once.

    >>> all_candidate_sampler([[1]], 1, 3, True)[0].tolist()
    [0, 1, 2]
    """
    given = _true_classes("all_candidate_sampler", true_classes, num_true)
    drawn = creation.range(num_sampled, dtype="int64")
    return drawn, creation.ones(given.shape), creation.ones([num_sampled])


def _true_classes(name: str, true_classes: Any, num_true: int) -> Any:
    given = cast(as_operand(true_classes), "int64")
    if len(given.shape) != 2 or given.shape[1] != num_true:
        raise ShapeError(
            f"{name} needs true_classes of shape (batch, {num_true}). Got {given.shape}."
        )
    return given


def _sample(
    name: str,
    classes: _Classes,
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    seed: int | None,
) -> Sample:
    if classes.count < 1 or num_sampled < 1 or (unique and num_sampled > classes.count):
        raise ArgumentError(
            f"{name} needs num_sampled of at least 1, and of at most range_max if unique. "
            f"Got num_sampled={num_sampled} and range_max={classes.count}."
        )
    given = _true_classes(name, true_classes, num_true)
    draw = _draw_recorded if is_recording() else _draw_on_host
    drawn, tries = draw(classes, num_sampled, unique, seed)
    first, second = [_expected(classes, ids, num_sampled, tries) for ids in (given, drawn)]
    return drawn, first, second


def _expected(classes: _Classes, ids: Any, count: int, tries: Any) -> Any:
    """Return how often a class is expected among `count` drawn ones, which took so many tries."""
    chance = classes.chance(ids)
    once = -expm1(cast(tries, "float64") * log1p(-minimum(chance, 1.0 - 1e-16)))
    return cast(where(equal(tries, count), chance * count, once), "float32")


def _draw_on_host(classes: _Classes, count: int, unique: bool, seed: int | None) -> tuple[Any, Any]:
    """Return drawn classes and the number of draws that they took."""
    if seed is None:
        seed = int(get_global_generator().uniform((), 0, 2**31 - 1, dtype="int64"))
    generator = np.random.default_rng(seed)

    def draws() -> np.ndarray:
        found: np.ndarray = classes.class_on_host(generator.random(count))
        return found.clip(0, classes.count - 1)

    if not unique:
        return wrap(host.place(draws())), count
    kept: dict[int, None] = {}
    tries = 0
    while len(kept) < count:
        for one in draws().tolist():
            tries += 1
            kept[one] = None
            if len(kept) == count:
                break
    return wrap(host.place(np.array(list(kept), np.int64))), tries


def _draw_recorded(
    classes: _Classes, count: int, unique: bool, seed: int | None
) -> tuple[Any, Any]:
    if not unique:
        numbers = random_functions.uniform([count], dtype="float64", seed=seed)
        return minimum(classes.class_at(numbers), classes.count - 1), count
    # Each class occurs at random times, as often per unit of time as its probability. The times
    # here are negative, so that the largest is the first.
    chances = classes.chance(creation.range(classes.count, dtype="int64"))
    numbers = random_functions.uniform([classes.count], dtype="float64", seed=seed)
    times = where(chances > 0.0, log1p(-numbers) / maximum(chances, 1e-300), -np.inf)
    firsts, drawn = top_k(times, count, index_type="int64")
    # Between its first time and the last one, a class occurs again by chance.
    waits = firsts - firsts[-1]
    more = sum_of(waits * gather(chances, drawn))
    repeated = random_functions.poisson([], more, dtype="float64", seed=seed)
    return drawn, repeated + count
