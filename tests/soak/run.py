"""Soak: train for long while everything around the steps changes, and check that nothing grows.

    python -m tests.soak.run --steps 200000 --seed 1

A segment is a few hundred steps from one checkpoint to the next. Its batches have changing sizes,
some steps are eager, some raise an exception half-way, some leave references in cycles, tapes that
are never used and data pipelines that are read in part. At its end the trainer is dropped and a new
one reads the checkpoint; one segment in ten is run twice and must give the same bits. After every
segment the memory of the process, the blocks that Python holds, the open files and the threads are
measured; the last third of the measurements is compared with the third before.

`tracemalloc` watches the last tenth of the segments, in pairs: what the first of a pair leaves
behind may not grow in the second. It makes steps four times as slow, and its tables divide the
memory of the process into small pieces, so that it grows. Nothing is measured while it runs.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import threading
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import tapegrad as tf
from tests.soak.measures import Measures, growth, measured, traced_growth, wait_for_threads
from tests.soak.trainer import StepError, Trainer, batches

SEGMENT = 250
TRACED = 20
"""One in so many pairs of segments is traced, the last ones."""

MOST_GROWTH = 0.01
"""Of the memory, between two thirds of the measurements."""


def segment(trainer: Trainer, seed: int, first: int, count: int) -> Counter[str]:
    """Train for some steps with all that may go wrong around them."""
    counts: Counter[str] = Counter()
    for step, (x, labels) in zip(
        range(first, first + count), batches(seed, first, count), strict=True
    ):
        rng = np.random.default_rng([seed, step, 1])
        chance = rng.random()
        if chance < 0.05:
            counts["exceptions"] += _failing(trainer, x, labels, is_compiled=chance < 0.02)
        if chance > 0.9:
            _drop_references(trainer, x)
            counts["dropped references"] += 1
        is_eager = 0.2 < chance < 0.3
        trainer.eager(x, labels) if is_eager else trainer.compiled(x, labels)
        counts["eager steps"] += is_eager
        counts["steps"] += 1
    return counts


def _failing(trainer: Trainer, x: Any, labels: Any, is_compiled: bool) -> int:
    """Make a step that raises: eagerly, or while a new function records it."""
    draws = trainer.generator.state.numpy()
    call = tf.function(trainer.eager) if is_compiled else trainer.eager
    try:
        call(x, labels, is_failing=True)
    except StepError:
        # An eager step has drawn its mask before it failed, a recorded one has not.
        trainer.generator.state.assign(draws)
        return 1
    raise AssertionError("A step that raises an exception returned.")


def _drop_references(trainer: Trainer, x: Any) -> None:
    """Leave behind what a careless program does."""
    tape = tf.GradientTape(persistent=True)
    with tape:
        tape.watch(x)
        y = tf.reduce_sum((x @ trainer.variables[0]) ** 2)
    cycle: list[Any] = [tape, x, y]
    cycle.append(cycle)
    partly = iter(tf.data.Dataset.range(100).batch(7).prefetch(2))
    next(partly)
    square = tf.function(lambda z: z * z + 1.0)
    square(x)
    cycle.append((partly, square))


class Soak:
    """A training over many segments."""

    def __init__(self, seed: int, folder: Path, length: int = SEGMENT) -> None:
        self.seed, self.folder, self.length = seed, folder, length
        self.counts: Counter[str] = Counter()
        self.measures: list[Measures] = []
        self.traced: list[int] = []
        self.threads = threading.active_count()
        self.faults: list[str] = []
        self.trainer = Trainer(seed)

    def run(self, steps: int) -> None:
        """Train for so many steps, in whole segments."""
        starts = range(0, steps, self.length)
        untraced = len(starts) - 2 * (len(starts) // TRACED)
        for first in starts[:untraced]:
            self.one_segment(first)
            self.measures.append(measured())
        for at, first in enumerate(starts[untraced:]):
            if at % 2 == 0:
                tracemalloc.start(1)
            self.one_segment(first)
            self.traced.append(tracemalloc.get_traced_memory()[0])
            if at % 2 == 1:
                tracemalloc.stop()
        self.faults += growth(self.measures, MOST_GROWTH) + traced_growth(self.traced)

    def one_segment(self, first: int) -> None:
        """Train, compare with a repetition where it is its turn, and begin anew from a file."""
        name = self.trainer.save(self.folder / f"checkpoint{first // self.length % 2}")
        self.counts.update(segment(self.trainer, self.seed, first, self.length))
        after = self.trainer.digest()
        if first // self.length % 10 == 1:
            self._repeat(name, first, after)
        name = self.trainer.save(self.folder / "next")
        self.trainer = Trainer.loaded(name, self.seed)
        self.counts["reloads"] += 1
        if self.trainer.digest() != after:
            self.faults.append(f"the checkpoint after step {first + self.length} lost something")
        gc.collect()
        wait_for_threads(self.threads)

    def _repeat(self, name: str, first: int, after: str) -> None:
        """Train once more from a checkpoint; the trainer is garbage when this returns."""
        again = Trainer.loaded(name, self.seed)
        segment(again, self.seed, first, self.length)
        self.counts["segments repeated"] += 1
        if again.digest() != after:
            self.faults.append(f"steps from {first} on gave other weights the second time")

    def summary(self) -> dict[str, Any]:
        """Return the counts, and sentences about the measurements."""
        early, last = self.measures[len(self.measures) // 3], self.measures[-1]
        sizes = [f"{m.resident / 2**20:.1f} MiB" for m in (early, last)]
        note = (
            f"After a third of the steps the process held {sizes[0]}, {early.blocks:,} blocks of "
            f"Python, {early.files} open files and {early.threads} threads; at the end {sizes[1]}, "
            f"{last.blocks:,} blocks, {last.files} files and {last.threads} threads. "
            f"The last {len(self.traced)} segments of {self.length} steps were traced and not "
            f"measured. The weights at the end have the digest `{self.trainer.digest()[:16]}`."
        )
        return {**dict(sorted(self.counts.items())), "faults": len(self.faults), "notes": [note]}


def main(arguments: list[str] | None = None) -> int:
    """Soak as the arguments say; return 1 if something grew or differed."""
    parser = argparse.ArgumentParser(description="Train for long and check that nothing grows.")
    parser.add_argument("--steps", type=int, default=200_000, help="how many steps")
    parser.add_argument("--seed", type=int, default=1, help="of weights, batches and failures")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(given.seed, Path(folder))
        soak.run(given.steps)
    for fault in soak.faults:
        sys.stdout.write(f"--- {fault}\n")
    sys.stdout.write(json.dumps(soak.summary()) + "\n")
    return 1 if soak.faults else 0


if __name__ == "__main__":
    sys.exit(main())
