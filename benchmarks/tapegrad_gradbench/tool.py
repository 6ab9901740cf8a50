"""Answer an evaluation of GradBench with tapegrad: `python -m tapegrad_gradbench.tool`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module

from tapegrad_gradbench.evaluations import NAMES
from tapegrad_gradbench.protocol import Entry, serve


def functions(name: str) -> Mapping[str, Entry]:
    """Return the functions of an evaluation by name.

    >>> sorted(functions("hello"))
    ['double', 'square']
    """
    if name not in NAMES:
        raise LookupError(f"tapegrad has no entry for {name!r}; there are {', '.join(NAMES)}.")
    # An evaluation is imported when it is asked for.
    module = import_module(f"tapegrad_gradbench.evaluations.{name}")
    found: Mapping[str, Entry] = module.FUNCTIONS
    return found


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout, functions)
