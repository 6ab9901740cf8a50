"""TensorBoard event files: records with checksums that hold protocol buffers.

Only the file format is here; summaries.py makes the contents of the records.
"""

from __future__ import annotations

import os
import time
from itertools import count
from pathlib import Path
from typing import Any

from tapegrad.io.records import record
from tapegrad.io.wire import Fields, message

# Fields of an Event.
_WALL_TIME, _STEP, _FILE_VERSION, _GRAPH, _SUMMARY = 1, 2, 3, 4, 5

_files = count()


class EventFile:
    """A new event file in a folder, which is created if it does not exist.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = EventFile(folder)
    ...     file.close()
    ...     file.path.name.startswith("events.out.tfevents.")
    True
    """

    def __init__(self, folder: Any, suffix: str = ".v2") -> None:
        import socket  # slow to import, and few programs write these files

        now = time.time()
        # TensorBoard reads files with "tfevents" in their name, in the order of the names.
        place = f"{socket.gethostname()}.{os.getpid()}.{next(_files)}"
        self.path = Path(folder) / f"events.out.tfevents.{int(now):010d}.{place}{suffix}"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("xb")
        self._add([(_WALL_TIME, now), (_FILE_VERSION, "brain.Event:2")])
        self.flush()

    def add_summary(self, summary: bytes, step: int, wall_time: float | None = None) -> None:
        """Write a Summary of a step."""
        now = time.time() if wall_time is None else wall_time
        self._add([(_WALL_TIME, now), (_STEP, step), (_SUMMARY, summary)])

    def add_graph(self, graph: bytes) -> None:
        """Write a GraphDef."""
        self._add([(_WALL_TIME, time.time()), (_GRAPH, graph)])

    def _add(self, fields: Fields) -> None:
        self._file.write(record(message(fields)))

    def flush(self) -> None:
        """Write buffered records to the file."""
        self._file.flush()

    def close(self) -> None:
        """Write buffered records and close the file."""
        self._file.close()
