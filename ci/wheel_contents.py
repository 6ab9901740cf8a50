"""Say what is wrong with the list of files in a wheel: `python ci/wheel_contents.py FILE.whl`.

Whatever lands in site-packages is shared with every other project there, so the wheel may hold
these top-level names and no others.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterable

PACKAGES = {
    "keras_tapegrad",
    "keras_tapegrad.pth",
    "tapegrad",
    "tapegrad_bench",
    "tapegrad_cupy",
    "tapegrad_numpy",
}
DATA = {
    "keras_tapegrad/py.typed",
    "tapegrad/py.typed",
    "tapegrad/debug/reports/page.css",
    "tapegrad/debug/reports/page.js",
    "tapegrad/demo/digits.npz",
    "tapegrad/demo/DIGITS.md",
    "tapegrad_bench/page.css",
    "tapegrad_bench/page.js",
    "tapegrad_bench/py.typed",
    "tapegrad_cupy/py.typed",
    "tapegrad_numpy/py.typed",
}


def problems(names: Iterable[str]) -> list[str]:
    """Return one sentence for each thing that should, or should not, be in the wheel.

    >>> problems(["tapegrad/py.typed", "stray.py"])[0]
    "'stray.py' lies at the top level and should not."
    """
    files = set(names)
    top = {name.partition("/")[0] for name in files}
    metadata = {name for name in top if name.endswith(".dist-info")}
    found = [
        f"{name!r} lies at the top level and should not." for name in top - PACKAGES - metadata
    ]
    found += [f"The package {name!r} is missing." for name in PACKAGES - top]
    found += [f"The data file {name!r} is missing." for name in DATA - files]
    if len(metadata) != 1:
        found.append(f"One .dist-info folder is expected, not {len(metadata)}.")
    return sorted(found)


def main(argv: list[str]) -> int:
    """Print the problems of the wheel named on the command line; 1 if there are any."""
    if len(argv) != 1:
        print("Usage: python ci/wheel_contents.py FILE.whl", file=sys.stderr)
        return 2
    with zipfile.ZipFile(argv[0]) as wheel:
        found = problems(wheel.namelist())
    for sentence in found:
        print(sentence, file=sys.stderr)
    if not found:
        print("The wheel holds what it should and nothing else.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
