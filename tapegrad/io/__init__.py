"""TensorFlow's `tf.io`: whole files, and `gfile` for files and folders."""

from __future__ import annotations

from typing import Any

from tapegrad.absent import absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.io import gfile
from tapegrad.io.files import matching_files, read_file, write_file

__all__ = ["gfile", "matching_files", "read_file", "write_file"]


def __getattr__(name: str) -> Any:
    raise absence("io", name)


_check_calls(globals(), __all__)
