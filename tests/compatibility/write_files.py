"""Write the files that later revisions must be able to read.

The files under `data/REVISION` were written by the named revision and never change. This script
made them. To add the files of another revision, check it out beside this one and run the script
with that copy first on the path:

    git worktree add ../old REVISION
    PYTHONPATH=../old:../old/backends:../old/benchmarks python tests/compatibility/write_files.py

The script imports the cases from this checkout and the library from the path. It refuses to write
a folder that exists. Run it on one thread (OMP_NUM_THREADS=1) and with an empty TAPEGRAD_CACHE.
A case that an old revision does not know is given by its name: `write_files.py model-recurrent`
writes only that one.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
MODULES = (
    *("models", "layers", "optimizers", "metrics", "training"),
    *("pipelines", "values", "pickles", "loop_cache"),
)


def revision_of(library: Path) -> str:
    """Return the short name of the revision that a checkout is at, which must have no changes."""
    git = ["git", "-C", str(library)]
    changes = subprocess.check_output([*git, "status", "--porcelain", "-uno"], text=True)
    if changes:
        raise SystemExit(f"{library} has changes, so no revision names what it would write.")
    return subprocess.check_output([*git, "rev-parse", "--short=7", "HEAD"], text=True).strip()


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the files of the library on the path.")
    parser.add_argument("names", nargs="*", help="cases to write; all of them if none is named")
    wanted = parser.parse_args().names
    sys.path.remove(str(FOLDER))
    sys.path.append(str(FOLDER.parent.parent))  # last: the library comes from the path
    library = importlib.import_module("tapegrad").__file__
    assert library is not None
    root = FOLDER / "data" / revision_of(Path(library).parent)
    cases = importlib.import_module("tests.compatibility.cases")
    for module in MODULES:
        found = importlib.import_module(f"tests.compatibility.{module}").CASES
        for name, case in found.items():
            if not wanted or name in wanted:
                (root / name).mkdir(parents=True)
                cases.save_outcome(case.write(root / name), root / name)
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    sys.stdout.write(f"{root}: {size:,} bytes\n")


if __name__ == "__main__":
    main()
