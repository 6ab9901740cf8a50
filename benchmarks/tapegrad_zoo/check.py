"""Whether the versions of a program agree: python -m tapegrad_zoo.check [names]"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from tapegrad_zoo.program import LIBRARIES, Entry, Program, entries
from tapegrad_zoo.steps import Results, results_of


def disagreement(program: Program, found: Results, expected: Results) -> str:
    """Return what differs between the results of two libraries, or ""."""
    if set(found) != set(expected):
        return f"the results are {sorted(found)} and {sorted(expected)}"
    for name, value in found.items():
        other = expected[name]
        if value.shape != other.shape:
            return f"{name} has the shapes {value.shape} and {other.shape}"
        if not np.all(np.isfinite(other)):
            return f"{name} is not finite"
        scale = np.max(np.abs(other), initial=0.0)
        error = np.max(np.abs(value - other), initial=0.0) / (scale or 1.0)
        if not error <= program.tolerance:
            return f"{name} differs by {error:.1e} of its size"
    return ""


def check(entry: Entry, libraries: tuple[str, ...] = LIBRARIES) -> list[str]:
    """Compare all libraries with the last one at the smallest size; return the complaints."""
    program = entry.program
    results = {library: results_of(library, program, "check") for library in libraries}
    expected = results[libraries[-1]]
    moving = any(np.any(value) for name, value in expected.items() if name != "loss")
    complaints = [] if moving else ["all gradients or results are zero"]
    for library in libraries[:-1]:
        different = disagreement(program, results[library], expected)
        if different:
            complaints.append(f"{library} and {libraries[-1]}: {different}")
    return complaints


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="programs or families (default: all)")
    names = set(parser.parse_args().names)
    failed = 0
    for entry in entries():
        if names and not names & {entry.name, entry.family}:
            continue
        started = time.perf_counter()
        try:
            complaints = check(entry)
        except Exception as error:
            complaints = [f"{type(error).__name__}: {error}"]
        failed += bool(complaints)
        seconds = time.perf_counter() - started
        print(f"{entry.family}/{entry.name}: {'; '.join(complaints) or 'agrees'} ({seconds:.1f} s)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
