"""The square of a number and its derivative."""

from __future__ import annotations

from typing import Any

import tapegrad as tg
from tapegrad_gradbench.evaluations import tensor
from tapegrad_gradbench.protocol import Entry


def square(x: Any) -> Any:
    return x * x


def prepare(given: Any) -> tuple[Any, ...]:
    return (tensor(given),)


FUNCTIONS = {
    "square": Entry(prepare, square, float),
    "double": Entry(prepare, tg.grad(square), float),
}
