"""Run a tool of the suite that is written with JAX, and wait for each result before its time ends.

JAX returns before a result is computed, and the tool of the suite would time the call alone. This
file runs in the interpreter of JAX, where tapegrad need not be installed: `awaited.py RUN.PY`.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def awaited(decorate: Callable[..., Any], wait: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a decorator of timed functions that wait for their results.

    >>> apply = awaited(lambda **options: lambda f: f, abs)
    >>> apply(pre=None)(lambda x: x)(-3)
    3
    """

    def with_options(**options: Any) -> Callable[..., Any]:
        return lambda f: decorate(**options)(lambda *args: wait(f(*args)))

    return with_options


if __name__ == "__main__":
    script = sys.argv.pop(1)
    wrap, wait = import_module("gradbench.wrap"), import_module("jax").block_until_ready
    for name in ("function", "multiple_runs"):
        setattr(wrap, name, awaited(getattr(wrap, name), wait))
    sys.path[0] = str(Path(script).parent)
    runpy.run_path(script, run_name="__main__")
