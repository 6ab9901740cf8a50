"""Draw a random program: a list of steps whose operands are results of earlier steps.

Each step is run when it is drawn, so that the next one knows the shapes, dtypes and values that it
may use. The finished program has no choices left: it can run again on other inputs, recorded or
not, and each step can be replaced by a constant to find the smallest program with a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad.errors import TapegradError

MOST_ELEMENTS = 600
MOST_AXES = 5
LARGEST = 50.0
"""Results with larger numbers are scaled down, so that rounding errors stay small."""


@dataclass(frozen=True)
class Step:
    """A call: a function of earlier values, by their positions."""

    text: str
    operands: tuple[int, ...]
    function: Callable[..., Any]
    reads_variables: bool = False


@dataclass
class Program:
    """Steps on inputs and variables. The results are all values that no step reads."""

    seed: int
    inputs: int
    steps: list[Step] = field(default_factory=list)

    def run(self, inputs: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Return the results."""
        values = list(inputs)
        for step in self.steps:
            operands = [values[k] for k in step.operands]
            values.append(step.function(*([variables] if step.reads_variables else []), *operands))
        read = {k for step in self.steps for k in step.operands}
        return [value for k, value in enumerate(values) if k >= self.inputs and k not in read]

    def without(self, position: int, value: np.ndarray) -> Program:
        """Return the program with a step replaced by its value."""
        steps = list(self.steps)
        text = f"constant{value.shape} {value.dtype}"
        steps[position] = Step(text, (), lambda: tf.constant(value))
        return Program(self.seed, self.inputs, steps)

    def text(self) -> str:
        """Return one line per step."""
        lines = [f"v{k} = input" for k in range(self.inputs)]
        for k, step in enumerate(self.steps, self.inputs):
            lines.append(f"v{k} = {step.text}({', '.join(f'v{n}' for n in step.operands)})")
        return "\n".join(lines)


Drawer = Callable[["Draw"], Step | None]


class Draw:
    """What a drawer chooses from: random numbers and the values so far."""

    def __init__(
        self, seed: int, values: Sequence[Any], variables: Sequence[Any], kinds: str = "f"
    ) -> None:
        self.rng = np.random.default_rng([seed, 1])
        self.kinds = kinds
        self.values = list(values)
        self.variables = variables

    def whole(self, low: int, high: int) -> int:
        """Return a random number, at least `low` and less than `high`."""
        return int(self.rng.integers(low, high))

    def choice(self, items: Sequence[Any]) -> Any:
        """Return one of the items."""
        return items[self.whole(0, len(items))]

    def coin(self) -> bool:
        """Return True or False."""
        return bool(self.whole(0, 2))

    def pick(
        self, is_fit: Callable[[Any], bool] = lambda _: True, kinds: str | None = None
    ) -> int | None:
        """Return the position of a value that fits; recent ones are preferred."""
        kinds = kinds or self.kinds
        fit = [k for k, value in enumerate(self.values) if _kind(value) in kinds and is_fit(value)]
        if not fit:
            return None
        near = fit[-4:] if self.whole(0, 3) else fit
        return int(self.choice(near))

    def partner(self, position: int) -> int | None:
        """Return the position of a value of the same dtype whose shape broadcasts with this one."""
        shape, dtype = self.shape(position), self.values[position].dtype

        def is_fit(value: Any) -> bool:
            pairs = zip(shape[::-1], tuple(value.shape)[::-1])
            return value.dtype == dtype and all(a == b or 1 in (a, b) for a, b in pairs)

        return self.pick(is_fit)

    def shape(self, position: int) -> tuple[int, ...]:
        """Return the shape of a value."""
        return tuple(int(n) for n in self.values[position].shape)


def _kind(value: Any) -> str:
    kind = np.dtype(value.dtype.as_numpy_dtype).kind
    return "f" if kind == "V" else kind  # bfloat16 has a kind of its own


def scaled(draw: Draw, position: int) -> Step:
    """Return a step that brings the numbers of a value into a small range."""
    largest = float(np.max(np.abs(draw.values[position].numpy().astype(np.float64))))
    factor = 2.0 ** -np.ceil(np.log2(largest))
    return Step(f"scaled by {factor}", (position,), lambda x: x * factor)


def program_of(
    seed: int,
    inputs: Sequence[Any],
    variables: Sequence[Any],
    drawers: Sequence[Drawer],
    length: int,
    after: Callable[[Draw, int], Step | None] | None = None,
    kinds: str = "f",
    shrink: Callable[[Draw, int], Step] = scaled,
) -> Program:
    """Draw a program of about `length` steps; `after` may add a step to each result.

    `kinds` are the kinds of dtypes, in NumPy's letters, from which drawers choose. `shrink` returns
    the step that follows a result with large numbers.
    """
    draw = Draw(seed, inputs, variables, kinds)
    program = Program(seed, len(inputs))
    for _ in range(3 * length):
        if len(program.steps) >= length:
            break
        step = draw.choice(drawers)(draw)
        if step is None or not _added(program, draw, step, shrink):
            continue
        more = after(draw, len(draw.values) - 1) if after else None
        if more is not None:
            _added(program, draw, more, shrink)
    return program


def _added(program: Program, draw: Draw, step: Step, shrink: Callable[[Draw, int], Step]) -> bool:
    """Run a step and add it, unless it is refused or its result is of no use."""
    operands = [draw.values[k] for k in step.operands]
    try:
        with np.errstate(all="ignore"):
            made = step.function(*([draw.variables] if step.reads_variables else []), *operands)
    except TapegradError:
        return False
    if not 0 < made.shape.num_elements() <= MOST_ELEMENTS or made.ndim > MOST_AXES:
        return False
    values = made.numpy()
    if _kind(made) in "fc" and not np.isfinite(values.astype(np.complex128)).all():
        return False
    program.steps.append(step)
    draw.values.append(made)
    if _kind(made) in "f" and np.max(np.abs(values.astype(np.float64))) > LARGEST:
        return _added(program, draw, shrink(draw, len(draw.values) - 1), shrink)
    return True
