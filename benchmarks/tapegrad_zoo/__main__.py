"""tapegrad bench --zoo [names] [--device cpu]: check, time and report programs of the zoo."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tapegrad_zoo.contenders import MODES
from tapegrad_zoo.program import LIBRARIES, entries
from tapegrad_zoo.report import summary, table
from tapegrad_zoo.runner import Zoo


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser("tapegrad bench --zoo", description=__doc__)
    parser.add_argument("names", nargs="*", help="programs or families (default: the workbench)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--peers", default="jax,torch", help="libraries, separated by commas")
    parser.add_argument("--budget", type=float, default=480.0, help="seconds; a later run goes on")
    parser.add_argument("--seconds", type=float, default=1.0, help="for the steps of one contender")
    parser.add_argument("--examination", action="store_true", help="the other half, to report it")
    parser.add_argument("--output", type=Path, default=Path("zoo.json"))
    options = parser.parse_args(arguments)
    peers = [name for name in options.peers.split(",") if name]
    unknown = sorted(set(peers) - set(LIBRARIES))
    if unknown:
        parser.error(f"--peers takes {', '.join(LIBRARIES[1:])}. Got {', '.join(unknown)}.")
    wanted = [
        entry
        for entry in entries()
        if (
            {entry.name, entry.family} & set(options.names)
            if options.names
            else entry.is_on_workbench is not options.examination
        )
    ]
    zoo = Zoo(options.output, options.device, ["tapegrad", *peers])
    zoo.run(wanted, options.budget, options.seconds)
    rows = {entry.name: zoo.rows[entry.name] for entry in wanted if entry.name in zoo.rows}
    columns = tuple(f"{library}:{mode}" for library in peers for mode in MODES[library])
    if columns:
        print(table(rows, columns))
        print(summary(rows, columns))
    print(f"{len(rows)} of {len(wanted)} programs have a row; {options.output} keeps them.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
