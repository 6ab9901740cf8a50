"""Random steps that move elements: views, joins, gathers, scatters and writes in place."""

from __future__ import annotations

from typing import Any

import numpy as np

import tapegrad as tf
import tapegrad.numpy as tnp
from tests.fuzz.drawing import Draw, Drawer, Step


def _factors(draw: Draw, count: int) -> list[int]:
    """Return random lengths of axes for a number of elements."""
    found = []
    for prime in (2, 3, 5, 7, 11, 13):
        while count % prime == 0:
            found.append(prime)
            count //= prime
    found.append(count)
    shape = [1] * draw.whole(1, 5)
    for factor in found:
        shape[draw.whole(0, len(shape))] *= factor
    return shape


def reshape(draw: Draw) -> Step | None:
    """The same elements with other axes."""
    x = draw.pick()
    if x is None:
        return None
    shape = _factors(draw, int(np.prod(draw.shape(x))))
    if draw.coin():
        shape[draw.whole(0, len(shape))] = -1
    return Step(f"reshape {shape}", (x,), lambda value: tf.reshape(value, shape))


def transpose(draw: Draw) -> Step | None:
    """The axes in another order."""
    x = draw.pick(lambda value: value.ndim > 1)
    if x is None:
        return None
    order = [int(k) for k in draw.rng.permutation(len(draw.shape(x)))]
    return Step(f"transpose {order}", (x,), lambda value: tf.transpose(value, order))


def _index(draw: Draw, shape: tuple[int, ...]) -> Any:
    found: list[Any] = []
    for length in shape:
        kind = draw.whole(0, 7)
        if kind == 0:
            found.append(draw.whole(-length, length))
        elif kind == 1:
            found.append(slice(None, None, -1))
        elif kind == 2:
            start = draw.whole(0, length)
            found.append(slice(start, draw.whole(start, length) + 1, draw.whole(1, 3)))
        elif kind == 3:
            found.append(slice(draw.whole(-length, 0), None))
        elif kind == 4:
            found += [None, slice(None)]
        elif kind == 5:
            found.append(slice(None, None, draw.choice([2, -2, 3])))
        else:
            found.append(slice(None))
    if draw.whole(0, 3) == 0:
        place = draw.whole(0, len(shape) + 1)
        if not any(one is None for one in found):
            return (*found[:place], ...)
    return tuple(found)


def index(draw: Draw) -> Step | None:
    """Basic slices, also backwards, with new axes."""
    x = draw.pick(lambda value: value.ndim > 0)
    if x is None:
        return None
    key = _index(draw, draw.shape(x))
    return Step(f"index {key}", (x,), lambda value: value[key])


def write(draw: Draw) -> Step | None:
    """A write to a part of a copy, from the value itself or a number."""
    x = draw.pick(lambda value: value.ndim > 0)
    if x is None:
        return None
    key, kind = _index(draw, draw.shape(x)), draw.whole(0, 4)

    def written(value: Any) -> Any:
        copy = tf.identity(value) if kind else value * 1.0
        if kind == 0:
            copy[key] = 0.25
        elif kind == 1:
            copy[key] = tf.tanh(copy[key]) * 0.5
        elif kind == 2:
            copy[key] += 0.75
        else:
            copy[key] *= tf.reduce_mean(value)
        return copy

    return Step(f"write {kind} {key}", (x,), written)


def gather(draw: Draw) -> Step | None:
    """Entries by a fixed or a computed index array, also repeated."""
    x = draw.pick(lambda value: value.ndim > 0)
    if x is None:
        return None
    shape = draw.shape(x)
    axis = draw.whole(0, len(shape))
    length = shape[axis]
    start = draw.whole(0, length)
    places = draw.choice(
        [
            draw.rng.integers(length, size=draw.whole(1, 6)),
            np.arange(length)[::-1].copy(),
            np.clip(np.arange(-2, length + 2), 0, length - 1),
            np.concatenate([np.arange(start, length), np.arange(start)]),
            np.abs(np.arange(-length + 1, length)),
            draw.rng.integers(length, size=(2, 2)),
        ]
    )
    if draw.coin():
        return Step(
            f"gather {places.tolist()} axis={axis}",
            (x,),
            lambda value: tf.gather(value, places, axis=axis),
        )

    def computed(value: Any) -> Any:
        shift = tf.cast(3.0 * tf.reduce_mean(value) + 0.1234567, "int64")
        return tf.gather(value, tf.math.floormod(places + shift, length), axis=axis)

    return Step(f"gather computed {places.tolist()} axis={axis}", (x,), computed)


def pad(draw: Draw) -> Step | None:
    """Margins of each kind."""
    x = draw.pick(lambda value: value.ndim > 0 and min(value.shape) > 2)
    if x is None:
        return None
    widths = [[draw.whole(0, 3), draw.whole(0, 3)] for _ in draw.shape(x)]
    mode = draw.choice(["constant", "reflect", "symmetric", "edge", "wrap"])
    if mode in ("edge", "wrap"):
        return Step(f"pad {mode} {widths}", (x,), lambda value: tnp.pad(value, widths, mode=mode))
    return Step(f"pad {mode} {widths}", (x,), lambda value: tf.pad(value, widths, mode=mode))


def join(draw: Draw) -> Step | None:
    """Values of one shape next to each other, and taken apart again."""
    x = draw.pick(lambda value: value.ndim > 0)
    if x is None:
        return None
    shape, dtype = draw.shape(x), draw.values[x].dtype
    y = draw.pick(lambda value: tuple(value.shape) == shape and value.dtype == dtype)
    axis, kind = draw.whole(0, len(shape)), draw.whole(0, 6)
    functions = (
        lambda a, b: tf.concat([a, b, a], axis=axis),
        lambda a, b: tf.stack([a, b], axis=axis),
        lambda a, b: tf.tanh(tf.stack([a, b, a * b], axis=-1))[..., 1],
        lambda a, b: sum(tf.unstack(tf.stack([a, b], axis=axis) * 0.5, axis=axis)),
        lambda a, b: tf.split(tf.concat([a, b], axis=axis), 2, axis=axis)[1] - a,
        lambda a, b: tf.reduce_sum(tf.stack([a, b, a], axis=0) ** 2, axis=0),
    )
    return Step(f"join {kind} axis={axis}", (x, y), functions[kind])  # type: ignore[arg-type]


def repeat(draw: Draw) -> Step | None:
    """Elements several times."""
    x = draw.pick(lambda value: 0 < value.ndim < 4)
    if x is None:
        return None
    shape = draw.shape(x)
    axis, times, kind = draw.whole(0, len(shape)), draw.whole(1, 4), draw.whole(0, 4)
    tiles = [draw.whole(1, 3) for _ in shape]
    functions = (
        lambda value: tf.repeat(value, times, axis=axis),
        lambda value: tf.tile(value, tiles),
        lambda value: tf.broadcast_to(
            tf.expand_dims(value, axis), (*shape[:axis], times, *shape[axis:])
        ),
        lambda value: tf.roll(value, times, axis),
    )  # fmt: skip
    return Step(f"repeat {kind} axis={axis} {times} {tiles}", (x,), functions[kind])


def scatter(draw: Draw) -> Step | None:
    """Rows added up or replaced at fixed or computed places."""
    x = draw.pick(lambda value: value.ndim > 0)
    if x is None:
        return None
    shape, kind = draw.shape(x), draw.whole(0, 6)
    count = shape[0]
    places = draw.rng.integers(4, size=count)
    unique = draw.rng.permutation(count)[: max(1, count // 2)][:, None]
    functions = (
        lambda value: tf.math.unsorted_segment_sum(value, places, 4),
        lambda value: tf.math.segment_sum(value, np.sort(places)),
        lambda value: tf.scatter_nd(places[:, None], value, (4, *shape[1:])),
        lambda value: tf.tensor_scatter_nd_add(value, unique, tf.gather_nd(value, unique) * 0.5),
        lambda value: tf.tensor_scatter_nd_update(value, unique, tf.gather_nd(value, unique) + 1.0),
        lambda value: tf.math.unsorted_segment_max(value, np.arange(count) % 2, min(2, count)),
    )  # fmt: skip
    return Step(f"scatter {kind} {places.tolist()} {unique.tolist()}", (x,), functions[kind])


def part(draw: Draw) -> Step | None:
    """Triangles, diagonals and places along an axis."""
    x = draw.pick(lambda value: value.ndim > 1)
    if x is None:
        return None
    shape, kind = draw.shape(x), draw.whole(0, 6)
    low, high = draw.whole(0, 3), draw.whole(0, 3)
    places = draw.rng.integers(shape[-1], size=(*shape[:-1], 2))
    functions = (
        lambda value: tf.linalg.band_part(value, low, high),
        lambda value: tf.linalg.diag_part(value),
        lambda value: tnp.take_along_axis(value, places, axis=-1),
        lambda value: tf.gather(
            value, tf.argmax(value, axis=-1) % shape[-2], axis=-2, batch_dims=len(shape) - 2
        ),
        lambda value: tf.math.top_k(value, min(2, shape[-1]))[0],
        lambda value: tf.linalg.diag(value[..., 0]),
    )  # fmt: skip
    return Step(f"part {kind} {low} {high} {places.tolist()}", (x,), functions[kind])


DRAWERS: tuple[Drawer, ...] = (
    reshape, transpose, index, index, write, gather, gather, pad, join, repeat, scatter, part,
)  # fmt: skip
