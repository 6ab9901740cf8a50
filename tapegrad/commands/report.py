"""`tapegrad report`: run a program and describe its run in an HTML file."""

from __future__ import annotations

import argparse
import io
import json
import runpy
import sys
import traceback
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from tapegrad.core.out_of_memory import readable
from tapegrad.debug.reports.page import seconds
from tapegrad.debug.reports.report import report
from tapegrad.errors import NotFoundError

INTERRUPTED = 130
"""The exit status that shells use for a program that Ctrl-C has ended."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument(
        *("-o", "--output"), default="run.html", help="the file to write (run.html)", metavar="FILE"
    )
    parser.add_argument("--trace", help="also write a trace for Perfetto", metavar="FILE")
    parser.add_argument("-m", "--module", action="store_true", help="PROGRAM is a module")
    parser.add_argument("program", help="a Python file, or a module with -m", metavar="PROGRAM")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")


def main(options: argparse.Namespace) -> int:
    """Run the program; return its exit status."""
    program = Path(options.program)
    if not options.module and not program.is_file():
        raise NotFoundError(f"There is no file {options.program!r}. Use -m to run a module.")
    code = None if options.module else _compiled(program)
    if code is None and not options.module:
        return 1
    with report(options.output, options.trace, title=options.program) as made:
        status, error = _run(options, code)
        made.error = error
    if options.json:
        summary = {name: made.summary[name] for name in made.summary if name != "timeline"}
        print(json.dumps({**summary, "status": status}, indent=2))
    else:
        print(_sentence(options.output, made.summary), file=sys.stderr)
    return status


def _compiled(program: Path) -> CodeType | None:
    try:
        return compile(program.read_bytes(), str(program), "exec")
    except (SyntaxError, ValueError):
        traceback.print_exc(limit=0)
        return None


def _run(options: argparse.Namespace, code: CodeType | None) -> tuple[int, BaseException | None]:
    """Run as the main module; return the exit status, and the error that ended the program."""
    before = sys.argv, sys.modules["__main__"], [*sys.path]
    sys.argv = [options.program, *options.arguments]
    try:
        if code is None:
            sys.path.insert(0, str(Path.cwd()))
            runpy.run_module(options.program, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(options.program).resolve().parent))
            _run_file(options.program, code)
    except SystemExit as exit:
        return _status(exit), exit
    except KeyboardInterrupt as error:
        return INTERRUPTED, error
    except BaseException as error:
        _print(error)
        return 1, error
    finally:
        sys.argv, sys.modules["__main__"], sys.path[:] = before
    return 0, None


def _run_file(name: str, code: CodeType) -> None:
    """Run code as the main module; its variables live on, so that the report can see them."""
    module = ModuleType("__main__")
    module.__file__ = name
    vars(module)["__builtins__"] = __builtins__
    sys.modules["__main__"] = _kept[name] = module
    exec(code, vars(module))


_kept: dict[str, ModuleType] = {}


def _status(exit: SystemExit) -> int:
    if exit.code is None or isinstance(exit.code, int):
        return exit.code or 0
    print(exit.code, file=sys.stderr)
    return 1


def _print(error: BaseException) -> None:
    """Print a traceback that begins in the program."""
    where: TracebackType | None = error.__traceback__
    while where is not None and where.tb_frame.f_globals.get("__name__") in (__name__, "runpy"):
        where = where.tb_next
    text = io.StringIO()
    traceback.print_exception(type(error), error, where, file=text)
    sys.stderr.write(text.getvalue())


def _sentence(output: str, summary: dict[str, Any]) -> str:
    counts = summary["counts"]
    parts = [
        f"{counts[kind]:,} {name}"
        for kind, name in (("kernel", "operations"), ("program", "calls of compiled functions"))
        if counts.get(kind)
    ]
    peak = summary["memory"]["peak"]
    memory = f", at most {readable(peak)} in arrays of operations" if peak else ""
    share = 100 * summary["overhead"]["seconds"] / (summary["seconds"] or 1.0)
    return (
        f"tapegrad: {' and '.join(parts) or 'no operations'} in {seconds(summary['seconds'])}"
        f"{memory}. Noting them took {share:.0f}% of the run. The report is in {output}."
    )
