"""The version of Keras whose names and defaults this face has."""

from __future__ import annotations

__version__ = "3.15.1"


def version() -> str:
    """Return the version of Keras whose names and defaults this face has.

    >>> version().partition(".")[0]
    '3'
    """
    return __version__
