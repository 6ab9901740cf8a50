"""Random steps on views: each is a function of a NumPy namespace and a list of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Rng = np.random.Generator
Step = Callable[[Any, list[Any]], Any]
"""Takes NumPy or `tapegrad.numpy` and the arrays; writes into one, or returns a new one."""


def basic_index(rng: Rng, shape: tuple[int, ...]) -> Any:
    """Return an index of integers, slices, new axes and an ellipsis that selects something."""
    found: list[Any] = []
    for length in shape:
        kind = int(rng.integers(6))
        start = int(rng.integers(length))
        if kind == 0 and len(shape) > 1 and slice(None) not in found[:0]:
            found.append(start - length * int(rng.integers(2)))
        elif kind == 1:
            found.append(slice(start, None))
        elif kind == 2:
            found.append(slice(None, None, -1))
        elif kind == 3:
            found.append(slice(start, None, 2))
        else:
            found.append(slice(None))
    if all(isinstance(one, int) for one in found):
        found.append(...)
    elif rng.integers(5) == 0:
        found.insert(int(rng.integers(len(found) + 1)), None)
    return tuple(found)


def new_view(rng: Rng, values: list[np.ndarray]) -> tuple[str, Step]:
    """Return a step that makes a view."""
    k = int(rng.integers(len(values)))
    x = values[k]
    key = basic_index(rng, x.shape)
    axis = int(rng.integers(x.ndim)) if x.ndim else 0
    other = int(rng.integers(x.ndim)) if x.ndim else 0
    size = x.size
    shapes = [(size,), (1, size), (size, 1)] + ([(2, size // 2)] if size % 2 == 0 else [])
    shape = shapes[int(rng.integers(len(shapes)))]
    choices: list[tuple[str, Step]] = [
        (f"v{k}[{key}]", lambda xp, v: v[k][key]),
        (f"v{k}[{key}]", lambda xp, v: v[k][key]),
        (f"v{k}.T", lambda xp, v: v[k].T),
        (f"swapaxes(v{k}, {axis}, {other})", lambda xp, v: xp.swapaxes(v[k], axis, other)),
        (f"expand_dims(v{k}, {axis})", lambda xp, v: xp.expand_dims(v[k], axis)),
        (f"flip(v{k}, {axis})", lambda xp, v: xp.flip(v[k], axis)),
        (f"v{k}.reshape({shape})", lambda xp, v: v[k].reshape(shape)),
        (f"array_split(v{k}, 2, {axis})[0]", lambda xp, v: xp.array_split(v[k], 2, axis)[0]),
        (f"moveaxis(v{k}, {axis}, 0)", lambda xp, v: xp.moveaxis(v[k], axis, 0)),
        (f"atleast_2d(v{k})", lambda xp, v: xp.atleast_2d(v[k])),
        (f"rot90(v{k})", lambda xp, v: xp.rot90(v[k]) if v[k].ndim > 1 else v[k][::-1]),
    ]
    return choices[int(rng.integers(len(choices)))]


def new_array(rng: Rng, values: list[np.ndarray]) -> tuple[str, Step]:
    """Return a step that computes a new array in C order."""
    k = int(rng.integers(len(values)))
    same = [n for n, x in enumerate(values) if x.shape == values[k].shape]
    m = same[int(rng.integers(len(same)))]
    return (
        f"tanh(v{k}) + 0.5 * v{m}",
        lambda xp, v: xp.ascontiguousarray(xp.tanh(v[k]) + 0.5 * v[m]),
    )


def write(rng: Rng, values: list[np.ndarray], is_view: list[bool]) -> tuple[str, Step]:
    """Return a step that writes into an array."""
    k = int(rng.integers(len(values)))
    x = values[k]
    key = basic_index(rng, x.shape)
    part = x[key].shape
    fits = [n for n, other in enumerate(values) if other.shape in (part, part[1:])]
    m = fits[int(rng.integers(len(fits)))] if fits else k
    number = round(float(rng.normal()), 2)
    rows = rng.integers(x.shape[0], size=2) if x.ndim else np.zeros(0, int)
    mask = rng.random(x.shape) < 0.5

    def item(function: Callable[[Any, Any, Any], None]) -> Step:
        def run(xp: Any, v: list[Any]) -> None:
            function(xp, v, v[k])

        return run

    def set_number(xp: Any, v: Any, x: Any) -> None:
        x[key] = number

    def set_other(xp: Any, v: Any, x: Any) -> None:
        x[key] = v[m]

    def set_function(xp: Any, v: Any, x: Any) -> None:
        x[key] = xp.sin(x[key]) * 0.5 + number

    def add(xp: Any, v: Any, x: Any) -> None:
        x[key] += v[m] * 0.5

    def multiply(xp: Any, v: Any, x: Any) -> None:
        x[key] *= number

    def set_rows(xp: Any, v: Any, x: Any) -> None:
        x[rows] = xp.cos(x[rows[0]])

    def add_rows(xp: Any, v: Any, x: Any) -> None:
        xp.add.at(x, rows, number)

    def masked(xp: Any, v: Any, x: Any) -> None:
        x[mask] *= number

    def masked_number(xp: Any, v: Any, x: Any) -> None:
        x[mask] = number

    def copyto(xp: Any, v: Any, x: Any) -> None:
        xp.copyto(x, xp.tanh(x), where=mask)

    def out(xp: Any, v: Any, x: Any) -> None:
        xp.multiply(x, number, out=x)

    def fill(xp: Any, v: Any, x: Any) -> None:
        x[key].fill(number)

    def whole(xp: Any, v: Any, x: Any) -> None:
        x[...] = x * 0.5 + number

    names: list[Callable[[Any, Any, Any], None]] = [
        set_number, set_function, multiply, masked, masked_number, copyto, out, fill, whole,
    ]  # fmt: skip
    names += [set_other, add] if fits else []
    names += [set_rows, add_rows] if x.ndim else []
    chosen = names[int(rng.integers(len(names)))]
    return f"{chosen.__name__} v{k}[{key}] v{m} {number} {rows.tolist()}", item(chosen)


def augmented(rng: Rng, values: list[np.ndarray], is_view: list[bool]) -> tuple[str, Step] | None:
    """Return a step with an augmented assignment to a view."""
    views = [n for n, flag in enumerate(is_view) if flag]
    if not views:
        return None
    k = views[int(rng.integers(len(views)))]
    number = round(float(rng.normal()), 2)

    def run(xp: Any, v: list[Any]) -> None:
        x = v[k]
        x *= number
        x += 0.25

    return f"v{k} *= {number}", run
