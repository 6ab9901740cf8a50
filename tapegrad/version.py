"""TensorFlow's `tf.version`: the version of TensorFlow whose names and behaviour tapegrad follows.

tapegrad's own version is `tapegrad.__version__`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any as _Any

from tapegrad.absent import absence as _absence

__all__ = ["COMPILER_VERSION", "GIT_VERSION", "VERSION"]

VERSION = "2.21.0"
"""The version of TensorFlow whose interface the names in `tapegrad` have."""

GIT_VERSION = f"v{VERSION}-tapegrad"
"""Like `VERSION`, marked as tapegrad's."""

COMPILER_VERSION = "none"
"""tapegrad is written in Python; the C compiler that it calls for loops is in `tapegrad info`."""


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> _Any:
        raise _absence("version", name)
