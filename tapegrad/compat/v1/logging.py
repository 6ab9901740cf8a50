"""`tf.compat.v1.logging`: messages through Python's logger called "tapegrad"."""

from __future__ import annotations

import logging as _python
from typing import Any

from tapegrad.logger import get_logger

__all__ = [
    "DEBUG", "ERROR", "FATAL", "INFO", "WARN", "debug", "error", "fatal", "get_verbosity", "info",
    "log", "set_verbosity", "warn", "warning",
]  # fmt: skip

DEBUG, INFO, WARN, ERROR, FATAL = (
    _python.DEBUG,
    _python.INFO,
    _python.WARNING,
    _python.ERROR,
    _python.FATAL,
)

_logger = get_logger()
debug, info, warn, warning = _logger.debug, _logger.info, _logger.warning, _logger.warning
error, fatal, log = _logger.error, _logger.critical, _logger.log


def set_verbosity(v: Any) -> None:
    """Set the level from which messages are shown.

    >>> set_verbosity(ERROR)
    >>> get_verbosity() == ERROR
    True
    """
    _logger.setLevel(v)


def get_verbosity() -> int:
    """Return the level from which messages are shown.

    >>> set_verbosity(INFO)
    >>> get_verbosity()
    20
    """
    return _logger.getEffectiveLevel()
