"""Write down which files of the repository a Python process reads.

`run_tests.py` puts this folder first on PYTHONPATH. Python then imports this module at the start of
the tests, of each worker of xdist, and of each Python that a test starts. An audit hook sees every
module that is executed, from its source or from a cached file, and every file that is opened.
"""

from __future__ import annotations

import os
import sys
from typing import Any

FOLDER = "TAPEGRAD_SOURCES_OF"
LOG = "TAPEGRAD_SOURCES_LOG"
WRITING = os.O_WRONLY | os.O_RDWR


def install(root: str, log: str) -> None:
    """From now on, append the name of every file below `root` that is read to the file `log`."""
    seen: set[str] = set()

    def note(path: str) -> None:
        if path in seen:
            return
        seen.add(path)
        name = os.path.relpath(os.path.join(os.getcwd(), path), root).replace(os.sep, "/")
        if not any(part.startswith((".", "__pycache__")) for part in name.split("/")):
            # Opened anew each time: a test may close all files or end the process at once.
            descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            os.write(descriptor, f"{name}\n".encode())
            os.close(descriptor)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        path = path_read(event, arguments)
        if path is not None:
            note(path)

    sys.addaudithook(hook)


def path_read(event: str, arguments: tuple[Any, ...]) -> str | None:
    """Return the file that an audit event is about, or None if it reads none."""
    if event == "exec":
        path = arguments[0].co_filename
    elif event == "cpython.run_file" or (event == "open" and not arguments[2] & WRITING):
        path = arguments[0]
    else:
        return None
    if isinstance(path, os.PathLike):
        path = os.fspath(path)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    # An int is a file descriptor, and "<string>" the name of code without a file.
    return path if isinstance(path, str) and not path.startswith("<") else None


if LOG in os.environ:
    install(os.environ[FOLDER], os.environ[LOG])
