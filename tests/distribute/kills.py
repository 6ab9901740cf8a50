"""Kill training at random moments, resume it in another number of processes, compare the weights.

    python -m tests.distribute.kills --kills 50 --seed 1

is the long form of a test; `ci/reliability_page.py --record kills` records it. Training runs in 2,
3 and 1 processes in turns. The state of Adam is sharded in every other turn.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.distribute.processes import PROGRAMS, Finished, finish, run

MODES = ("whole", "states")


def kill_and_resume(kills: int, steps: int, counts: list[int], seed: int) -> dict[str, Any]:
    """Train with kills, and fail unless the weights are those of training without any.

    `counts` are the numbers of processes, in turns. The steps until a kill are few, so that the run
    with this many kills does not end before.
    """
    rng = random.Random(seed)
    started = time.monotonic()
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        expected, target, saved = (Path(folder, name) for name in ("expected", "found", "saved"))
        _train(1, f"{folder}/alone", expected, steps, steps, 0.0, "whole")
        done = 0
        for turn in range(kills):
            killed = min(done + rng.randrange(1, 2 * max(1, steps // (kills + 1)) + 1), steps - 1)
            delay = rng.choice((0.0, rng.random() * 0.02))
            count = counts[turn % len(counts)]
            finished = _train(count, str(saved), target, steps, killed, delay, MODES[turn % 2])
            assert finished.status != 0, (killed, finished.out, finished.err)
            found["kills"] += 1
            found[f"kills in {count}"] += 1
            found["checkpoints cut off"] += _latest(saved, complete=False) > _latest(saved)
            done = _latest(saved)
            found["repeated steps"] += killed - done
        count = counts[kills % len(counts)]
        finished = _train(count, str(saved), target, steps, steps, 0.0, MODES[kills % 2])
        assert finished.status == 0, finished.err
        assert target.read_bytes() == expected.read_bytes()
        digest = hashlib.sha256(target.read_bytes()).hexdigest()[:16]
    by_count = ", ".join(f"{found.pop(f'kills in {n}', 0)} among {n}" for n in sorted({*counts}))
    seconds = round(time.monotonic() - started)
    note = (
        f"Kills by the number of processes: {by_count}. It took {seconds} s. The weights at the "
        f"end have the digest `{digest}`, as those of one process without kills."
    )
    return {"steps": steps, **found, "faults": 0, "notes": [note]}


def _latest(folder: Path, complete: bool = True) -> int:
    """Return the step of the last checkpoint, by default of the last complete one."""
    files = folder.glob("*/manifest.json" if complete else "*/*")
    return max([int(one.parent.name.removeprefix("ckpt-")) for one in files], default=0)


def _train(
    count: int, folder: str, target: Path, steps: int, killed: int, delay: float, mode: str
) -> Finished:
    arguments = [folder, str(target), str(steps), str(killed), str(delay), mode]
    if count == 1:
        return finish([sys.executable, str(PROGRAMS / "resumed.py"), *arguments])
    return run("resumed.py", count, *arguments)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    record = kill_and_resume(options.kills, 6 * options.kills, [2, 3, 1], options.seed)
    sys.stdout.write(f"{json.dumps(record)}\n")
