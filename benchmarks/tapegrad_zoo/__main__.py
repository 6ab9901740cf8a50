"""tapegrad bench --zoo [names]: check, time and report programs of the zoo."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from tapegrad.errors import ArgumentError
from tapegrad_bench.report_terminal import write_tables
from tapegrad_zoo.contenders import BATCHES
from tapegrad_zoo.page import write_page
from tapegrad_zoo.program import Entry, entries
from tapegrad_zoo.record import Half, place_of
from tapegrad_zoo.report import tables_of
from tapegrad_zoo.row import Contest, contenders
from tapegrad_zoo.runner import Zoo, shard


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    options = _parser().parse_args(arguments)
    wanted = shard(chosen(options.names, options.half), *_shard(options.shard))
    modes = contenders([word for word in options.peers.split(",") if word], options.device)
    contest = Contest(
        options.device,
        options.threads,
        modes,
        options.seconds,
        max(1, options.side_by_side),
        options.batches,
        _patience("--patience", options.patience),
        _patience("--compile-patience", options.compile_patience),
    )
    folder = Path("tapegrad-bench")
    path = options.record or folder / f"zoo-{options.device}.json"
    zoo = Zoo(path, contest, options.remark)
    for other in options.merge:
        zoo.add(other)
    if not options.merge:
        zoo.run(wanted, options.budget, lambda words: print(words, flush=True))
    write_tables(tables_of(zoo.record), sys.stdout)
    page = options.page or folder / f"{path.stem}.html"
    write_page(zoo.record, page)
    done = len(wanted) - len(zoo.missing(wanted))
    again = "" if done == len(wanted) else " Run the command again to go on."
    print(f"{done} of {len(wanted)} programs have a row.{again}\nRecord: {path}\nPage:   {page}")
    return 0


def chosen(names: Sequence[str], half: str) -> list[Entry]:
    """Return the programs with these names, files or families, or all of a half.

    >>> [entry.name for entry in chosen(["resnet"], "workbench")]
    ['resnet']
    """
    known = [(entry, place_of(entry)) for entry in entries()]
    if not names:
        return [entry for entry, place in known if place.half.value == half]
    words = [(entry, {entry.name, place.file, place.family}) for entry, place in known]
    unknown = set(names).difference(*[of_entry for _, of_entry in words])
    if unknown:
        raise ArgumentError(f"The zoo has no program or family {', '.join(sorted(unknown))}.")
    return [entry for entry, of_entry in words if of_entry & set(names)]


def _shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    index, count = map(int, found.groups()) if found else (0, 0)
    if not 1 <= index <= count:
        raise ArgumentError(f"--shard must be like 1/4, 2/4, 3/4 or 4/4. Got {text!r}.")
    return index, count


def _patience(name: str, seconds: float | None) -> float | None:
    if seconds is not None and not seconds > 0:
        raise ArgumentError(f"{name} must be a positive number of seconds. Got {seconds:g}.")
    return seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "tapegrad bench --zoo",
        description="Check, time and report programs of the zoo. A command that runs again with "
        "the same record goes on where it ended.",
    )
    add = parser.add_argument
    add("names", nargs="*", help="programs or families (default: those of --half)")
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--half", choices=[*Half], default=Half.WORKBENCH, help="examination: only to report")
    add("--shard", default="1/1", metavar="I/N", help="each N-th program, from the I-th on")
    add("--peers", default="jax,torch", metavar="LIST", help="jax, torch:eager, ... (jax,torch)")
    add("--budget", type=float, default=480.0, metavar="SECONDS", help="of this command (480)")
    add("--seconds", type=float, default=1.0, help="for the steps of one contender (1)")
    add("--patience", type=float, metavar="SECONDS", help="for a request (a share of --budget)")
    add("--compile-patience", type=float, metavar="SECONDS", help="for torch.compile (--patience)")
    add("--batches", choices=BATCHES, default="device", help="host: arrays of NumPy at each step")
    add("--side-by-side", type=int, default=1, metavar="N", help="programs in first calls (1)")
    add("--threads", type=int, default=1, metavar="N", help="for each library on the CPU (1)")
    add("--record", type=Path, metavar="FILE", help="(tapegrad-bench/zoo-DEVICE.json)")
    add("--merge", type=Path, nargs="+", default=[], metavar="FILE", help="take rows over instead")
    add("--remark", default="", help="what readers of the record have to know")
    add("--page", type=Path, metavar="FILE", help="(tapegrad-bench/RECORD.html)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
