"""The command line that all fuzzers share: seeds one after the other, for some seconds."""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable

Check = Callable[[int], Counter[str]]
"""A check of one seed: raises an error for a fault, and returns what it counted."""


class FaultError(AssertionError):
    """What a fuzzer found; the message says how to see it again."""


def hunt(check: Check, first: int, seconds: float, most: int | None = None) -> Counter[str]:
    """Check seeds from `first` on until the time is over; print each fault and count them."""
    counts: Counter[str] = Counter()
    end, seed = time.monotonic() + seconds, first
    while time.monotonic() < end and (most is None or seed < first + most):
        try:
            counts.update(check(seed))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            counts["faults"] += 1
            say(f"--- seed {seed}: {type(error).__name__}: {error}")
            if not isinstance(error, FaultError):
                say("".join(traceback.format_exception(error)[-6:]))
        counts["seeds"] += 1
        seed += 1
    return counts


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(check: Check, purpose: str) -> int:
    """Hunt as the arguments of the command say; return 1 if there are faults."""
    parser = argparse.ArgumentParser(description=purpose)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to hunt")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the first seed")
    parser.add_argument("--most", type=int, default=None, help="the most seeds")
    given = parser.parse_args()
    say(f"first seed: {given.seed}")
    counts = hunt(check, given.seed, given.seconds, given.most)
    say(json.dumps(dict(sorted(counts.items()))))
    return 1 if counts["faults"] else 0
