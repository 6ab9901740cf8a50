"""Write docs/reliability.md: what fuzzers and other long checks have tried, from recorded runs.

    python ci/reliability_page.py                               # write the page
    python ci/reliability_page.py --check                       # fail if it differs from the record
    python ci/reliability_page.py --record programs --seconds 600 --seed 1   # run and record one
    python ci/reliability_page.py --record soak --steps 200000               # likewise

The record is `ci/reliability.json`. Each run is stored with a digest of the sources that it ran on;
`--check` names the runs of other sources than these, which fails nothing.
"""

from __future__ import annotations

import argparse
import datetime as dt
import functools
import hashlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reliability.md"
RECORD = ROOT / "ci" / "reliability.json"
SOURCES = ("tapegrad", "backends/tapegrad_numpy")
"""The folders that every run depends on, beside that of its command."""

PURPOSES = {
    "programs": "random programs: eager code, compiled functions, gradients inside and outside, "
    "forward mode, little memory and NumPy agree",
    "sizes": "random programs on arrays of changing lengths: one function serves them all",
    "exact": "random programs on whole numbers of twelve dtypes: the same bits in all forms",
    "views": "random views and writes: tensors behave as NumPy's arrays, gradients as differences",
    "special_values": "NaN, infinities, zeros and denormal numbers: compiled code gives what eager "
    "code does",
    "failures": "KeyboardInterrupt or MemoryError at a random line: nothing half-done is left",
    "files": "damaged files: they are read, or refused in words, and values stay",
    "calls": "wrong arguments of public functions: a result, or an error in words",
    "derivatives": "all samples in other layouts and shapes, in all modes: values against NumPy, "
    "derivatives against differences, batches against loops, functions against eager code",
    "oracles": "all samples in JAX and PyTorch, which differentiate the recorded programs by their "
    "own rules; [oracles](oracles.md) has the reasons of all disagreements",
    "soak": "long training with changing batch sizes, dropped references, exceptions in steps and "
    "reloaded checkpoints: memory, files and threads stay, and the results repeat",
    "kills": "training that is killed at random moments, also while it writes a checkpoint, and "
    "resumed by another number of processes: the same bits as without kills",
    "mutants": "small faults, one at a time, in all packages but `backends/tapegrad_cupy`: a test "
    "that runs the line must fail; `ci/mutants.json` has all verdicts",
}
"""What each run checks, in the order of the page."""

UNITS = {
    "programs": ("programs", "steps", "comparisons"),
    "sizes": ("programs", "steps", "lengths"),
    "exact": ("programs", "steps", "comparisons"),
    "views": ("scripts", "steps"),
    "special_values": ("calls", "refused"),
    "failures": ("failures", "KeyboardInterrupt", "MemoryError"),
    "files": ("files", "refused", "loaded"),
    "calls": ("functions", "calls", "refused"),
    "derivatives": ("samples", "variants", "checks", "derivative checks", "refused"),
    "oracles": ("samples", "comparisons", "arrays", "agrees", "differs", "not compared"),
    "soak": ("steps", "eager steps", "exceptions", "dropped references", "reloads",
             "segments repeated"),
    "kills": ("kills", "steps", "repeated steps", "checkpoints cut off"),
    "mutants": ("mutants", "caught", "caught by time", "equivalent", "survived", "run by no test",
                "left"),
}  # fmt: skip

FOLDERS = {
    "derivatives": "derivatives",
    "oracles": "oracles",
    "soak": "soak",
    "mutants": "mutation",
}
MODULES = {
    **{name: f"tests.{folder}.run" for name, folder in FOLDERS.items()},
    "kills": "tests.distribute.kills",
}
"""The commands of runs that are no fuzzers."""

OPTIONS = {
    "derivatives": ("part",),
    "oracles": ("part",),
    "soak": ("steps", "seed"),
    "kills": ("kills", "seed"),
    "mutants": ("seed", "count"),
}
"""The options of their commands; a fuzzer has `FUZZING`."""

FUZZING = ("seconds", "seed")

HEAD = """# Reliability

`ci/reliability_page.py` writes this page from recorded runs; the figures are not edited by hand.
The fuzzers are in `tests/fuzz`. Each takes `--seconds` and `--seed` and prints the seed of a fault,
and `tests/fuzz/test_short.py` runs all of them for a few seconds with a new seed for each commit.
A fault that was found and mended has a test in `tests/fuzz/test_found_faults.py` or next to the
code.
The other checks have a short form among the tests as well.
"""


def module_of(name: str) -> str:
    """Return the module whose command makes a run."""
    return MODULES.get(name, f"tests.fuzz.{name}")


def digest(name: str, root: Path = ROOT) -> str:
    """Return a hash of the sources that a run depends on."""
    own = module_of(name).rpartition(".")[0].replace(".", "/")
    parts = [folder_digest(root / folder) for folder in (*SOURCES, own)]
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


@functools.cache
def folder_digest(folder: Path) -> str:
    """Return a hash of the Python files below a folder."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        found.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def command_of(name: str, run: dict[str, Any]) -> str:
    """Return the command that repeats a run."""
    return f"python -m {module_of(name)} {' '.join(arguments_of(name, run))}"


def arguments_of(name: str, values: dict[str, Any]) -> list[str]:
    """Return the arguments of a run's command."""
    options = OPTIONS.get(name, FUZZING)
    return [part for option in options for part in (f"--{option}", str(values[option]))]


def row(name: str, run: dict[str, Any]) -> str:
    """Return the lines about one run."""
    counts = run["counts"]
    figures = ", ".join(f"{counts.get(unit, 0):,} {unit.replace('_', ' ')}" for unit in UNITS[name])
    faults = counts.get("faults", 0)
    where = f"Recorded on {run['date']}, {run['machine']}, sources `{run['digest']}`."
    lines = [
        f"## {name.replace('_', ' ').capitalize()}",
        "",
        f"{PURPOSES[name][0].upper()}{PURPOSES[name][1:]}.",
        "",
        f"{figures}; {faults} faults. {where}",
        "",
        "```bash",
        command_of(name, run),
        "```",
    ]
    crashes = counts.get("crashed in HDF5")
    if crashes:
        lines += ["", f"HDF5's own library crashed or did not return for {crashes} damaged files."]
    for note in run.get("notes", ()):
        lines += ["", note]
    return "\n".join(lines)


def page(record: dict[str, Any]) -> str:
    """Return the text of the page."""
    parts = [row(name, record[name]) for name in PURPOSES if name in record]
    missing = [name for name in PURPOSES if name not in record]
    if missing:
        parts.append(f"Not recorded yet: {', '.join(missing)}.")
    return "\n\n".join([HEAD.rstrip(), *parts]) + "\n"


def machine() -> str:
    """Return the interpreter and the processor of this machine, in words."""
    cores = os.cpu_count()
    return f"Python {platform.python_version()}, {platform.machine()}, {cores} cores shared"


def recorded(name: str, values: dict[str, Any]) -> dict[str, Any]:
    """Make a run and return its record; the last line of its output has the counts and notes."""
    now = digest(name)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", module_of(name), *arguments_of(name, values)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    sys.stdout.write(run.stdout)
    counts = json.loads(run.stdout.splitlines()[-1])
    today = dt.datetime.now(dt.UTC).date().isoformat()
    more = {key: counts.pop(key) for key in ("notes", "details") if counts.get(key)}
    chosen = {option: values[option] for option in OPTIONS.get(name, FUZZING)}
    return {"counts": counts, "date": today, "digest": now, "machine": machine(), **chosen,
            **more}  # fmt: skip


def main(arguments: list[str], path: Path = PAGE, record_path: Path = RECORD) -> int:
    """Write the page, compare it with the record, or record a run."""
    parser = argparse.ArgumentParser(description="Write docs/reliability.md.")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--record", choices=list(PURPOSES))
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--part", type=int, default=1)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    record = json.loads(record_path.read_text(encoding="utf-8")) if record_path.exists() else {}
    if given.record:
        made = recorded(given.record, vars(given))
        # Another run may have been recorded meanwhile.
        record = json.loads(record_path.read_text(encoding="utf-8")) if record_path.exists() else {}
        record[given.record] = made
        text = json.dumps(record, indent=1, sort_keys=True) + "\n"
        record_path.write_text(text, encoding="utf-8")
    text = page(record)
    if not given.check:
        path.write_text(text, encoding="utf-8")
        return 0
    older = [name for name, run in record.items() if run["digest"] != digest(name)]
    if older:
        print(f"Recorded on other sources than these: {', '.join(sorted(older))}.")
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return 0
    print(f"{path} differs from the record. Run: python ci/reliability_page.py")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
