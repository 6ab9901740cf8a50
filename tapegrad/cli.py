"""The command line: `tapegrad info`, `doctor`, `demo`, `bench`, `run` and `report`.

Each command is a row of `COMMANDS` and parses its own arguments. The exit status is 0, or 1 for a
check that failed, or 2 for arguments or settings that are wrong.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata

import numpy as np

from tapegrad.core.backend.registry import describe_backends
from tapegrad.core.values.device import backend_for, default_device, list_devices
from tapegrad.errors import TapegradError


@dataclass(frozen=True)
class Command:
    """A subcommand: a summary for the help text, and the function that runs it."""

    summary: str
    run: Callable[[Sequence[str]], int]
    examples: Sequence[str] = ()


CLOSED = 141
"""The exit status that shells give a program whose output was closed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    >>> main(["nonsense"])
    2
    """
    options = _parser().parse_args(argv)
    if options.command is None:
        _parser().print_help()
        return 0
    command = COMMANDS.get(options.command)
    if command is None:
        return _fail(_unknown(options.command))
    try:
        return command.run(options.arguments)
    except TapegradError as error:
        return _fail(str(error))
    except BrokenPipeError:  # whoever reads the output has read enough, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    rows = [f"  {name:{width}}  {command.summary}" for name, command in COMMANDS.items()]
    parser = argparse.ArgumentParser(
        prog="tapegrad",
        usage="tapegrad COMMAND [options]",
        description="TensorFlow's GradientTape on NumPy and CuPy.",
        epilog="\n".join(
            [
                *(
                    "commands:",
                    *rows,
                    "",
                    "examples:",
                    "  tapegrad doctor",
                    "  tapegrad info --json",
                ),
                *("", "Run `tapegrad COMMAND --help` for the options of a command."),
            ]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tapegrad {_version()}")
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _version() -> str:
    # Python loads a package before its modules, so the root needs no import.
    version: str = sys.modules["tapegrad"].__version__
    return version


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"There is no command {name!r}. Commands: {', '.join(COMMANDS)}.{hint}"


def _fail(sentence: str) -> int:
    print(f"tapegrad: {sentence}", file=sys.stderr)
    return 2


def _command_parser(name: str) -> argparse.ArgumentParser:
    """Return the parser of a command that knows --json, with examples in its help."""
    command = COMMANDS[name]
    lines = [f"  {example}" for example in command.examples]
    parser = argparse.ArgumentParser(
        prog=f"tapegrad {name}",
        description=command.summary,
        epilog="\n".join(["examples:", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON for other programs")
    return parser


def _info(argv: Sequence[str]) -> int:
    options = _command_parser("info").parse_args(argv)
    backends = describe_backends()
    memories = [(name, backend_for(name).memory(name)) for name in list_devices()]
    rows = [
        ("tapegrad", _version()),
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        ("NumPy", np.__version__),
        ("ml_dtypes", _version_of("ml_dtypes") or "not installed: there is no bfloat16"),
        *((f"backend {name}", status) for name, status in backends),
        *((name, memory.description) for name, memory in memories if memory.description),
        # Devices of one backend share its libraries.
        *dict.fromkeys(row for _, memory in memories for row in memory.libraries()),
    ]
    try:
        rows.append(("default device", _default_device_line(dict(backends))))
        status = 0
    except TapegradError as error:  # of TAPEGRAD_DEVICE; the rest of the report still helps
        rows.append(("default device", f"none, because of TAPEGRAD_DEVICE: {error}"))
        status = 2
    if options.json:
        print(json.dumps(dict(rows), indent=2))
    else:
        for label, text in rows:
            print(f"{label:15} {text}")
    return status


def _version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _default_device_line(status: dict[str, str]) -> str:
    """Return the default device and the reason for it."""
    name = default_device()
    if "TAPEGRAD_DEVICE" in os.environ:
        return f"{name} (set by the environment variable TAPEGRAD_DEVICE)"
    if name.startswith("cuda"):
        return f"{name} (CUDA is available; set TAPEGRAD_DEVICE=cpu to use the CPU)"
    reason = "the line of backend cupy says why" if "cupy" in status else "no backend has it"
    return f"{name} (CUDA is not used: {reason})"


def _doctor(argv: Sequence[str]) -> int:
    parser = _command_parser("doctor")
    parser.add_argument(
        "--distributed", action="store_true", help="check the processes that a launcher has started"
    )
    parser.add_argument(
        "-n", type=int, default=2, metavar="COUNT", help="how many to start without a launcher"
    )
    options = parser.parse_args(argv)
    if options.distributed:
        from tapegrad.commands.doctor_distributed import main as check_processes  # as below

        return check_processes(options.n, options.json)
    from tapegrad.commands.doctor import checked, findings  # imports most of the package

    found = []
    for finding in checked(findings(), sys.stderr):
        found.append(finding)
        if not options.json:
            where = f"{finding.check}{f' on {finding.device}' if finding.device else ''}"
            time = f"{finding.seconds:6.2f} s" if finding.state != "skipped" else ""
            print(f"{finding.state:8}{where:32}{time:10}{finding.message}".rstrip(), flush=True)
    failed = [finding for finding in found if finding.state == "failed"]
    if options.json:
        print(json.dumps([finding.as_dict() for finding in found], indent=2))
    else:
        print(f"{len(failed)} of {len(found)} checks failed." if failed else "No check failed.")
    return 1 if failed else 0


def _demo(argv: Sequence[str]) -> int:
    from tapegrad.demo.digits import main as run_demo  # imports most of the package

    return run_demo(argv)


def _bench(argv: Sequence[str]) -> int:
    from tapegrad_bench.command import main as run_benchmark  # slow to import

    return run_benchmark(argv)


def _run(argv: Sequence[str]) -> int:
    from tapegrad.distribute.launch import main as launch  # imports asyncio

    return launch(argv)


def _report(argv: Sequence[str]) -> int:
    from tapegrad.commands import report  # imports most of the package

    parser = _command_parser("report")
    report.add_arguments(parser)
    return report.main(parser.parse_args(argv))


COMMANDS: dict[str, Command] = {
    "info": Command(
        "Show versions, backends, devices, and which device is used and why.",
        _info,
        ("tapegrad info", "tapegrad info --json", "TAPEGRAD_DEVICE=cpu tapegrad info"),
    ),
    "doctor": Command(
        "Check in seconds that this installation computes what it should, on every device. "
        "The exit status is 1 if a check failed.",
        _doctor,
        (
            "tapegrad doctor",
            "tapegrad doctor --json",
            "tapegrad doctor --distributed -n 4",
            "mpiexec -n 4 tapegrad doctor --distributed",
        ),
    ),
    "demo": Command("Train a classifier of handwritten digits with a GradientTape.", _demo),
    "bench": Command("Time training steps on each device, next to other libraries.", _bench),
    "run": Command("Run a program in several processes, which tapegrad.distribute joins.", _run),
    "report": Command(
        "Run a program, and write an HTML page that says what took its time and its memory, line "
        "by line. The exit status is that of the program.",
        _report,
        (
            "tapegrad report train.py",
            "tapegrad report -o slow.html --trace slow.json train.py --epochs 1",
            "tapegrad report -m package.train",
        ),
    ),
}
