"""Wrong arguments: public functions return or refuse them in words.

    python -m tests.fuzz.calls --seconds 600 --seed 1

Each seed takes the next public function of a random order, with the wrong values of
`tests/api/wrong_calls.py` for each of its parameters.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections import Counter
from functools import cache

import numpy as np

import tapegrad as tf
from tests.api.wrong_calls import all_names, examine
from tests.fuzz.command import FaultError, main

_ORDER = 20_261_118
"""The seed of the order, so that seeds one after the other are different functions."""


@cache
def names() -> list[str]:
    """Return the names of public functions and classes in a random order."""
    found = sorted(all_names())
    return [found[k] for k in np.random.default_rng(_ORDER).permutation(len(found))]


def check(seed: int) -> Counter[str]:
    """Make all wrong calls of one function."""
    name = names()[seed % len(names())]
    face, _, short = name.rpartition(".")
    folder = os.getcwd()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)  # some functions write files
        try:
            found = examine(name, getattr(importlib.import_module(face), short))
        finally:
            os.chdir(folder)
            tf.debug.check_indices(False)  # a call that was right has switched it on
    bad = [one for one in found if one.result not in ("good", "returned")]
    if bad:
        lines = [f"{one.call} {one.argument}={one.value}: {one.result} {one.error}" for one in bad]
        raise FaultError("\n".join(lines[:5]))
    return Counter({"functions": 1, "calls": len(found),
                    "refused": sum(one.result == "good" for one in found)})  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(check, __doc__.partition("\n")[0]))
