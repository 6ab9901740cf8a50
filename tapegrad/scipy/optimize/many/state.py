"""The result of an iteration that minimizes many functions."""

from __future__ import annotations

from typing import NamedTuple

from tapegrad.scipy.problems import Rows


class Minima(NamedTuple):
    """The last points of all problems, with what is known there."""

    x: Rows
    value: Rows
    gradient: Rows
    iterations: Rows
    calls: Rows
    status: Rows
