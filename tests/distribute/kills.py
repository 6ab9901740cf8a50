"""Kill training at random moments, resume it in another number of processes, compare the weights.

`python -m tests.distribute.kills --kills 50` is the long form of a test.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import tempfile
import time
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
    with tempfile.TemporaryDirectory() as folder:
        expected, target = Path(folder, "expected"), Path(folder, "found")
        _train(1, f"{folder}/alone", expected, steps, steps, 0.0, "whole")
        done = survived = 0
        while survived < kills:
            killed = min(done + rng.randrange(1, 2 * max(1, steps // (kills + 1)) + 1), steps - 1)
            delay = rng.choice((0.0, rng.random() * 0.02))
            count, mode = counts[survived % len(counts)], MODES[survived % 2]
            finished = _train(count, f"{folder}/saved", target, steps, killed, delay, mode)
            assert finished.status != 0, (killed, finished.out, finished.err)
            survived += 1
            done = _latest(Path(folder, "saved"))
        count = counts[survived % len(counts)]
        finished = _train(count, f"{folder}/saved", target, steps, steps, 0.0, MODES[survived % 2])
        assert finished.status == 0, finished.err
        assert target.read_bytes() == expected.read_bytes()
        digest = hashlib.sha256(target.read_bytes()).hexdigest()
    seconds = round(time.monotonic() - started)
    return {"kills": survived, "steps": steps, "seconds": seconds, "weights_sha256": digest}


def _latest(folder: Path) -> int:
    """Return the step of the last complete checkpoint."""
    found = [int(one.parent.name.removeprefix("ckpt-")) for one in folder.glob("*/manifest.json")]
    return max(found, default=0)


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
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    record = kill_and_resume(options.kills, 6 * options.kills, [2, 3, 1], options.seed)
    sys.stdout.write(f"{json.dumps(record)}\n")
