"""Fetch metrics from the device and print them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np


def fetched(logs: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics as Python numbers, or as arrays if they have several elements.

    >>> import tapegrad
    >>> fetched({"loss": tapegrad.constant(0.5), "epoch": 1})
    {'loss': 0.5, 'epoch': 1}
    """
    return {name: _value(value) for name, value in logs.items()}


def _value(value: Any) -> Any:
    if not hasattr(value, "numpy"):
        return value
    array: np.ndarray = value.numpy()
    return array.item() if array.ndim == 0 else array


def shown(value: Any) -> str:
    """Return a metric as text.

    >>> shown(0.123456), shown(0.0000123)
    ('0.1235', '1.2300e-05')
    """
    number = float(np.mean(value))
    return f"{number:.4f}" if abs(number) > 1e-3 or number == 0 else f"{number:.4e}"


def say(text: str, end: str = "\n") -> None:
    """Print text and flush standard output."""
    sys.stdout.write(text + end)
    sys.stdout.flush()
