"""`tapegrad bench`: reads the options, runs the plan, writes the reports."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from tapegrad.errors import ArgumentError
from tapegrad_bench.adapters import CONTENDERS, LIBRARIES
from tapegrad_bench.compare import compare_files
from tapegrad_bench.options import DEVICES, SIZE_WORDS, Options, plan
from tapegrad_bench.progress import progress_on, terminal
from tapegrad_bench.report_html import write_page
from tapegrad_bench.report_terminal import write_report
from tapegrad_bench.results import Run, save, to_json
from tapegrad_bench.runner import Runner
from tapegrad_bench.workloads import WORKLOADS

INTERRUPTED = 130
"""The exit status that shells give a program which Ctrl-C ended."""


def main(argv: Sequence[str]) -> int:
    """Run the benchmark and return the exit status.

    >>> main(["--list"])  # doctest: +ELLIPSIS
    scalar_chain ...
    0
    """
    if "--zoo" in argv:
        return _run_zoo([word for word in argv if word != "--zoo"])
    arguments = _parser().parse_args(argv)
    if arguments.list:
        _print_list()
        return 0
    if arguments.compare:
        before, after = arguments.compare
        return compare_files(before, after, sys.stdout)
    if arguments.script:
        return _run_script(arguments)
    options = _options(arguments)
    groups = plan(options)
    if not groups:
        raise ArgumentError(
            "Nothing is left to run: none of the chosen workloads has the chosen sizes."
        )
    with progress_on(terminal(), len(groups)) as progress:
        runner = Runner(options, groups, progress)
        run = runner.run()
    _report(run, options, arguments.json)
    return INTERRUPTED if runner.was_interrupted else 0


def _run_zoo(argv: Sequence[str]) -> int:
    """Run the programs of the zoo, which are in the repository and not in the wheel."""
    try:
        # Imported here because an installed wheel does not have it.
        zoo = importlib.import_module("tapegrad_zoo.__main__")
    except ImportError as error:
        raise ArgumentError(
            "--zoo needs a checkout of the repository, in which benchmarks/tapegrad_zoo has the "
            "programs. Install that with: pip install --editable ."
        ) from error
    status: int = zoo.main(argv)
    return status


def _run_script(arguments: argparse.Namespace) -> int:
    """Compare the functions of a script with translations of them."""
    # Imported here because only this needs the translations.
    scripts = importlib.import_module("tapegrad_bench.scripts.command")
    chosen = scripts.plan_of(
        arguments.script,
        arguments.arguments,
        _words(arguments.peers),
        _words(arguments.devices),
        arguments.threads,
        arguments.budget,
    )
    status: int = scripts.run(chosen)
    return status


def _report(run: Run, options: Options, as_json: bool) -> None:
    """Write the results to files and show them, as JSON or as a table."""
    out = sys.stderr if as_json else sys.stdout
    if as_json:
        print(json.dumps(to_json(run), indent=1, allow_nan=False))
    else:
        write_report(run, sys.stdout)
    folder = options.output or Path("tapegrad-bench")
    stamp = datetime.fromisoformat(run.started).strftime("%Y%m%d-%H%M%S")
    results, page = folder / f"bench-{stamp}.json", folder / f"bench-{stamp}.html"
    save(run, results)
    write_page(run, page)
    print(f"Results: {results}\nPage:    {page}", file=out)


def _options(arguments: argparse.Namespace) -> Options:
    return Options(
        devices=_words(arguments.devices),
        workloads=_words(arguments.workloads),
        # A label of a size may contain commas, so semicolons also separate sizes.
        sizes=_sizes(arguments.sizes),
        dtypes=_words(arguments.dtypes),
        peers=_words(arguments.peers),
        keras=arguments.keras,
        budget=arguments.budget,
        threads=arguments.threads,
        count_launches=not arguments.no_launches,
        output=arguments.output,
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _sizes(text: str) -> tuple[str, ...]:
    if ";" in text or " " in text.strip():
        return tuple(word.strip() for word in text.split(";") if word.strip())
    return _words(text)


def _print_list() -> None:
    width = max(map(len, WORKLOADS))
    for workload in WORKLOADS.values():
        print(f"{workload.name:{width}}  {workload.summary}")
    print(f"\ndevices: {', '.join(DEVICES)}\npeers: {', '.join(LIBRARIES[1:])}")
    print(f"modes: {', '.join(contender.name for contender in CONTENDERS)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tapegrad bench",
        usage="tapegrad bench [options] [script.py [arguments]]",
        description="Time whole training steps, side by side with other libraries. Separate the "
        "items of a list with commas.",
        epilog="examples:\n  tapegrad bench --list\n"
        "  tapegrad bench --devices cpu --workloads mlp_small --budget 20\n"
        "  tapegrad bench train.py --peers numpy,torch",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "script",
        nargs="?",
        help="run it and time its functions beside translations of them to --peers numpy,jax,torch",
    )
    add("arguments", nargs=argparse.REMAINDER, help="of the script")
    add("--devices", default="", metavar="LIST", help=f"of {', '.join(DEVICES)} (default: all)")
    add("--workloads", default="", metavar="LIST", help="see --list (default: those of a device)")
    add(
        "--sizes",
        default="",
        metavar="LIST",
        help=f"{', '.join(SIZE_WORDS)}, or labels of sizes, separated by semicolons "
        "(default: default, and other sizes of two rows)",
    )
    add("--dtypes", default="", metavar="LIST", help="float32, bfloat16, ... (default: the row's)")
    add(
        "--peers",
        default="",
        metavar="LIST",
        help="libraries (torch), modes (torch:compile) or none (default: all that are installed)",
    )
    add(
        "--keras",
        action="store_true",
        help="time the networks among the rows as models of tapegrad.keras, too",
    )
    add(
        "--budget",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="for all rows together, once the libraries are loaded (default: 120)",
    )
    add("--threads", type=int, default=1, metavar="N", help="for each library on the CPU")
    add("--no-launches", action="store_true", help="do not count kernels on CUDA")
    add("--output", type=Path, metavar="FOLDER", help="for JSON and page (./tapegrad-bench)")
    add(
        "--compare",
        nargs=2,
        type=Path,
        metavar=("BEFORE", "AFTER"),
        help="show what moved between two JSON files, and run nothing",
    )
    add("--json", action="store_true", help="print the results as JSON for other programs")
    add("--zoo", action="store_true", help="run the programs of the zoo; --zoo --help says more")
    add("--list", action="store_true", help="show workloads, devices and peers, and run nothing")
    return parser
