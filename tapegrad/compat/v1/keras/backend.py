"""`tf.compat.v1.keras.backend`: `keras.backend`, and functions that set a session."""

from __future__ import annotations

from typing import Any

from tapegrad import lazy
from tapegrad.compat.v1.session import Session

__all__ = ["get_session", "set_session"]


def set_session(session: Any) -> None:
    """Accept a session, whose settings have no effect.

    >>> set_session(Session())
    """


def get_session() -> Session:
    """Return a session that runs nothing.

    >>> get_session().close()
    """
    return Session()


def __getattr__(name: str) -> Any:
    return getattr(lazy.load("keras").backend, name)
