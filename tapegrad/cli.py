"""The command line: `tapegrad info`, `tapegrad demo`, `tapegrad bench` and `tapegrad run`.

Each command is a row of `COMMANDS` and parses its own arguments.
"""

from __future__ import annotations

import argparse
import difflib
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tapegrad.core.backend.registry import describe_backends
from tapegrad.core.values.device import backend_for, default_device, list_devices
from tapegrad.errors import TapegradError


@dataclass(frozen=True)
class Command:
    """A subcommand: a summary for the help text, and the function that runs it."""

    summary: str
    run: Callable[[Sequence[str]], int]


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


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    rows = [f"  {name:{width}}  {command.summary}" for name, command in COMMANDS.items()]
    parser = argparse.ArgumentParser(
        prog="tapegrad",
        usage="tapegrad COMMAND [options]",
        description="TensorFlow's GradientTape on NumPy and CuPy.",
        epilog="\n".join(
            ["commands:", *rows, "", "Run `tapegrad COMMAND --help` for the options of a command."]
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


def _info(argv: Sequence[str]) -> int:
    argparse.ArgumentParser(prog="tapegrad info", description=COMMANDS["info"].summary).parse_args(
        argv
    )
    backends = describe_backends()
    memories = [(name, backend_for(name).memory(name)) for name in list_devices()]
    rows = [
        ("tapegrad", _version()),
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        ("NumPy", np.__version__),
        *((f"backend {name}", status) for name, status in backends),
        *((name, memory.description) for name, memory in memories if memory.description),
        # Devices of one backend share its libraries.
        *dict.fromkeys(row for _, memory in memories for row in memory.libraries()),
    ]
    for label, text in rows:
        print(f"{label:16}{text}")
    print(f"{'default device':16}{_default_device_line(dict(backends))}")
    return 0


def _default_device_line(status: dict[str, str]) -> str:
    """Return the default device and the reason for it."""
    name = default_device()
    if "TAPEGRAD_DEVICE" in os.environ:
        return f"{name} (set by the environment variable TAPEGRAD_DEVICE)"
    if name.startswith("cuda"):
        return f"{name} (CUDA is available; set TAPEGRAD_DEVICE=cpu to use the CPU)"
    reason = status.get("cupy", "no backend for it is installed").removeprefix("unavailable: ")
    return f"{name} (CUDA is not used: {reason})"


def _demo(argv: Sequence[str]) -> int:
    from tapegrad.demo.digits import main as run_demo  # imports most of the package

    return run_demo(argv)


def _bench(argv: Sequence[str]) -> int:
    from tapegrad_bench.command import main as run_benchmark  # slow to import

    return run_benchmark(argv)


def _run(argv: Sequence[str]) -> int:
    from tapegrad.distribute.launch import main as launch  # imports asyncio

    return launch(argv)


COMMANDS: dict[str, Command] = {
    "info": Command("Show versions, backends, devices, and which device is used and why.", _info),
    "demo": Command("Train a classifier of handwritten digits with a GradientTape.", _demo),
    "bench": Command("Time training steps on each device, next to other libraries.", _bench),
    "run": Command("Run a program in several processes, which tapegrad.distribute joins.", _run),
}
