"""Random programs on small whole numbers of every dtype: all forms give the same bits.

    python -m tests.fuzz.exact --seconds 600 --seed 1

Whole numbers that stay small are exact in float32, float16 and bfloat16, so that no rounding hides
a wrong result. Integers may overflow: they wrap around as NumPy's do.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

os.environ.setdefault("TAPEGRAD_WAIT", "1")
os.environ.setdefault("TAPEGRAD_CFLAGS", "-O1")

import tapegrad as tf
from tapegrad.program.unfused import interpreter, pruned
from tapegrad_bench.translation import Peer, translated
from tests.fuzz import index_steps, thresholds
from tests.fuzz.command import FaultError, main
from tests.fuzz.comparison import difference
from tests.fuzz.drawing import Draw, Step, program_of
from tests.fuzz.programs import Case, calls_of, fault_of, smallest

DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "int8", "uint8", "int16",
          "uint16", "uint32", "bool")  # fmt: skip
SHAPES = ((3, 4), (4,), (2, 3, 4), (), (3, 1))


def _is_whole(value: Any) -> bool:
    return bool(value.dtype.is_integer)


UNARY: dict[str, Callable[[Any], Any]] = {
    "negative": tf.negative,
    "abs": tf.abs,
    "sign": tf.sign,
    "square": tf.square,
    "plus": lambda x: x + 3,
    "times": lambda x: x * -2 if x.dtype.name[0] != "u" else x * 2,
    "minus": lambda x: 5 - x,
    "clip": lambda x: tf.clip_by_value(x, 1, 4),
    "relu": tf.nn.relu,
    "floordiv": lambda x: x // 3,
    "mod": lambda x: x % 3,
    "to bool": lambda x: x > 1,
    "equal": lambda x: tf.equal(x, 2),
    "maximum": lambda x: tf.maximum(x, 2),
}
OF_INTEGERS: dict[str, Callable[[Any], Any]] = {
    "invert": tf.bitwise.invert,
    "and": lambda x: tf.bitwise.bitwise_and(x, tf.cast(6, x.dtype)),
    "shift": lambda x: tf.bitwise.left_shift(x, tf.cast(2, x.dtype)),
    "shift back": lambda x: tf.bitwise.right_shift(x, tf.cast(1, x.dtype)),
    "big": lambda x: x * tf.cast(117, x.dtype) + tf.cast(101, x.dtype),
    "extreme": lambda x: tf.where(x > 2, tf.cast(x.dtype.max, x.dtype), x),
    "lowest": lambda x: tf.where(x > 2, tf.cast(x.dtype.min, x.dtype), x) - tf.cast(1, x.dtype),
}
OF_BOOLS: dict[str, Callable[[Any], Any]] = {
    "not": tf.logical_not,
    "and": lambda x: tf.logical_and(x, tf.reduce_any(x)),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": tf.add,
    "subtract": tf.subtract,
    "multiply": tf.multiply,
    "maximum": tf.maximum,
    "minimum": tf.minimum,
    "less": tf.less,
    "where": lambda x, y: tf.where(x < y, x, y - x),
    "floordiv": lambda x, y: x // tf.where(tf.equal(y, 0), tf.ones_like(y), y),
    "mod": lambda x, y: x % tf.where(tf.equal(y, 0), tf.ones_like(y), y),
    "not equal": tf.not_equal,
}
REDUCTIONS = (tf.reduce_sum, tf.reduce_max, tf.reduce_min, tf.reduce_prod)


def unary(draw: Draw) -> Step | None:
    """A function of one value of any dtype."""
    x = draw.pick(kinds="fiub")
    if x is None:
        return None
    value = draw.values[x]
    table = OF_BOOLS if value.dtype.is_bool else UNARY | (OF_INTEGERS if _is_whole(value) else {})
    name = draw.choice(list(table))
    return Step(name, (x,), table[name])


def binary(draw: Draw) -> Step | None:
    """A function of two values of one dtype."""
    x = draw.pick(kinds="fiu")
    if x is None:
        return None
    y = draw.partner(x)
    name = draw.choice(list(BINARY))
    return None if y is None else Step(name, (x, y), BINARY[name])


def casting(draw: Draw) -> Step | None:
    """A cast of small numbers to another dtype."""
    x = draw.pick(lambda v: abs(float(np.max(np.abs(v.numpy().astype("f8"))))) < 100, "fiub")
    dtype = draw.choice(DTYPES)
    is_negative = x is not None and float(np.min(draw.values[x].numpy().astype("f8"))) < 0
    if x is None or (is_negative and dtype[0] == "u" and draw.values[x].dtype.is_floating):
        return None  # C leaves casts of negative numbers to unsigned ones undefined
    return Step(f"cast {dtype}", (x,), lambda v: tf.cast(v, dtype))


def reduction(draw: Draw) -> Step | None:
    """Sums, products, extremes; also along axes, also cumulative."""
    x = draw.pick(lambda value: value.ndim > 0, kinds="fiu")
    if x is None:
        return None
    axis = draw.choice([None, *range(-len(draw.shape(x)), len(draw.shape(x)))])
    function, keepdims = draw.choice(REDUCTIONS), draw.coin()
    other = draw.whole(0, 6)
    if other == 0:
        return Step(f"cumsum {axis}", (x,), lambda v: tf.cumsum(v, axis=axis or 0))
    if other == 1:
        return Step(f"argmax {axis}", (x,), lambda v: tf.argmax(v, axis=axis or 0))
    if other == 2:
        return Step(f"sort {axis}", (x,), lambda v: tf.sort(v, axis=axis or 0))
    return Step(
        f"{function.__name__} {axis} {keepdims}",
        (x,),
        lambda v: function(v, axis=axis, keepdims=keepdims),
    )


def product(draw: Draw) -> Step | None:
    """Products of matrices."""
    x = draw.pick(lambda value: value.ndim > 1, kinds="fi")
    if x is None:
        return None
    is_first = draw.coin()
    return Step(
        f"matmul {is_first}",
        (x,),
        lambda v: tf.matmul(v, v, transpose_a=is_first, transpose_b=not is_first),
    )


def selection(draw: Draw) -> Step | None:
    """A choice between two values by a third."""
    mask = draw.pick(kinds="b")
    if mask is None:
        return None
    shape = draw.shape(mask)
    x = draw.pick(lambda value: tuple(value.shape) in (shape, ()), "fiu")
    if x is None:
        return None
    return Step("select", (mask, x), lambda m, v: tf.where(m, v, tf.ones_like(v)))


def settled(draw: Draw, position: int) -> Step | None:
    """Bring floating-point numbers back to the range from 0 to 8."""
    value = draw.values[position]
    if not value.dtype.is_floating:
        return None
    if float(np.max(np.abs(value.numpy().astype("f8")), initial=0)) < 8:
        return None
    return remainder(draw, position)


def remainder(draw: Draw, position: int) -> Step:
    """Return the step to the range from 0 to 8, in which whole numbers stay whole."""
    return Step("settled", (position,), lambda v: v % 8)


DRAWERS = (
    unary, unary, binary, binary, binary, casting, casting, reduction, product, selection,
    index_steps.reshape, index_steps.transpose, index_steps.index, index_steps.index,
    index_steps.pad, index_steps.repeat,
)  # fmt: skip


def case_of(seed: int) -> Case:
    """Draw a case."""
    rng = np.random.default_rng([seed, 0])
    dtypes = [DTYPES[k] for k in rng.integers(len(DTYPES) - 1, size=2)]

    def array(shape: tuple[int, ...], dtype: str) -> np.ndarray:
        low = 0 if dtype[0] == "u" else -4
        return rng.integers(low, 5, size=shape).astype(tf.as_dtype(dtype).as_numpy_dtype)

    calls = [[array(shape, dtypes[k % 2]) for k, shape in enumerate(SHAPES)] for _ in range(2)]
    inputs = [tf.constant(x) for x in calls[0]]
    length = int(rng.integers(3, 20))
    program = program_of(seed, inputs, [], DRAWERS, length, settled, "fiub", remainder)
    return Case(program, calls, [])


def is_exact(case: Case) -> str | None:
    """Compare the eager results of a case with all others."""

    def eager(_: list[Any]) -> Callable[..., Any]:
        return lambda *inputs: case.program.run(inputs, [])

    def recorded(_: list[Any]) -> Callable[..., Any]:
        return tf.function(lambda *inputs: case.program.run(inputs, []))  # type: ignore[no-any-return]

    wanted = calls_of(case, eager, 2)
    text = difference(calls_of(case, recorded, 2), wanted, is_exact=True)
    if text:
        return f"function: {text}"
    function = tf.function(lambda *inputs: case.program.run(inputs, []))
    first = [x.numpy() for x in function(*case.tensors(0))]
    graph = function.program(*case.tensors(0)).recorded
    found, _ = interpreter(pruned(graph))([x.array for x in case.tensors(0)], [])
    text = difference(found, first, is_exact=True)
    if text:
        return f"unfused: {text}"
    peer = Peer("numpy")
    found, _ = translated(graph, peer)([peer.array(x) for x in case.inputs[0]], [])
    text = difference(found, first, is_exact=True)
    return f"NumPy: {text}" if text else None


def check(seed: int) -> Counter[str]:
    """Compare a program; the thresholds of passes are lowered for two seeds of three."""
    with thresholds.lowered(frozenset(thresholds.SMALLEST) if seed % 3 else frozenset()):
        case = case_of(seed)
        text = fault_of(is_exact, case)
        if text:
            small = smallest(is_exact, case)
            dtypes = {x.dtype.name for x in case.inputs[0]}
            raise FaultError(
                f"{text}\nsmallest ({fault_of(is_exact, small)}), inputs {dtypes}:\n"
                f"{small.program.text()}"
            )
    return Counter(programs=1, steps=len(case.program.steps), comparisons=3)


if __name__ == "__main__":
    sys.exit(main(check, __doc__.partition("\n")[0]))
