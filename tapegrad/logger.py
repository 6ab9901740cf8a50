"""`get_logger`: the logger of the package."""

from __future__ import annotations

import logging


def get_logger() -> logging.Logger:
    """Return Python's logger called "tapegrad", whose level programs set as for TensorFlow.

    tapegrad itself reports by Python's `warnings`, which this does not change.

    >>> get_logger().name
    'tapegrad'
    """
    return logging.getLogger("tapegrad")
