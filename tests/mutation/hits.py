"""Notes which tests run which probes; a copy of this file is `sitecustomize` of all processes.

As a plug-in of pytest it writes a line per test into the folder MUTATION_HITS: the test, its
seconds, its outcome and the numbers of the probes. A process that a test starts writes the line at
its end. Nothing but the standard library is imported.

PYTEST_DONT_REWRITE: the module has been imported before pytest could change it.
"""

from __future__ import annotations

import atexit
import builtins
import json
import os
from pathlib import Path
from typing import Any

PROBE = "__mutation_probe__"
FOLDER = os.environ.get("MUTATION_HITS", "")
found: set[int] = set()
setattr(builtins, PROBE, found.add)

seconds: dict[str, float] = {}
failed: set[str] = set()


def write(test: str, time: float, is_passed: bool) -> None:
    """Write what a test has run, and forget it."""
    numbers, line = sorted(found), {"test": test, "seconds": round(time, 4), "passed": is_passed}
    found.clear()
    if FOLDER and numbers:
        with (Path(FOLDER) / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "hits": numbers}) + "\n")


def pytest_collection_finish() -> None:
    """Forget what the import of modules has run."""
    found.clear()


def pytest_runtest_logreport(report: Any) -> None:
    """Add up the seconds of a test, and write it after its last part."""
    test = report.nodeid
    seconds[test] = seconds.get(test, 0.0) + report.duration
    if report.outcome != "passed":
        failed.add(test)
    if report.when == "teardown":
        write(test, seconds.pop(test), test not in failed)


_parent = os.environ.get("PYTEST_CURRENT_TEST", "")
if _parent:
    # The test's own line has its seconds; this one adds its probes.
    atexit.register(write, _parent.rpartition(" ")[0], 0.0, True)
