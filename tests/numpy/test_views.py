"""A write through a view reaches the array and its other views, as in NumPy.

Random programs run on a NumPy array and on a tensor side by side: they take views of views, write
to some of them and compare all arrays after each step.
"""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad
import tapegrad.numpy as tnp
from tests.seeds import program_seeds

SHAPES = [(6,), (4, 6), (2, 3, 4), (1, 4, 1, 3)]


def random_slices(rng, shape):
    index = []
    for length in shape:
        kind = rng.integers(4)
        start, stop = sorted(rng.integers(0, length + 1, 2))
        if kind == 0 and length:
            index.append(int(rng.integers(-length, length)))
        elif kind == 1:
            index.append(slice(int(start), int(stop)))
        elif kind == 2:
            index.append(slice(None, None, int(rng.choice([-2, -1, 2]))))
        else:
            index.append(slice(None))
    return tuple(index[: rng.integers(1, len(shape) + 1)])


def halves(rng, shape):
    axis = int(rng.integers(len(shape)))
    which = int(rng.integers(2))
    return lambda xp, x: xp.array_split(x, 2, axis=axis)[which]


def row(rng, shape):
    k = int(rng.integers(shape[0])) if shape[0] else 0
    return lambda xp, x: list(x)[k] if len(x) else x


def unstacked(rng, shape):
    axis = int(rng.integers(len(shape)))
    k = int(rng.integers(shape[axis])) if shape[axis] else 0
    return lambda xp, x: xp.unstack(x, axis=axis)[k] if x.shape[axis] else x


def random_view(rng, shape):
    """Return a function of a namespace and an array that returns a view of the array."""
    if not shape:
        return lambda xp, x: x[...]
    axes = tuple(int(k) for k in rng.permutation(len(shape)))
    first, second = (int(k) for k in rng.integers(len(shape), size=2))
    index = random_slices(rng, shape)
    size = int(np.prod(shape))
    makers = [
        lambda: lambda xp, x: x[index],
        lambda: lambda xp, x: x[..., None][index],
        lambda: lambda xp, x: x.T,
        lambda: lambda xp, x: xp.transpose(x, axes),
        lambda: lambda xp, x: x.swapaxes(first, second),
        lambda: lambda xp, x: xp.moveaxis(x, first, second),
        lambda: lambda xp, x: xp.flip(x, first),
        lambda: lambda xp, x: xp.flip(x),
        lambda: lambda xp, x: x.ravel(),
        lambda: lambda xp, x: x.reshape(-1, 1),
        lambda: lambda xp, x: x.reshape(2, -1) if size and size % 2 == 0 else x.ravel(order="F"),
        lambda: lambda xp, x: xp.squeeze(x),
        lambda: lambda xp, x: xp.expand_dims(x, first),
        lambda: lambda xp, x: xp.atleast_3d(x),
        lambda: lambda xp, x: xp.rot90(x, first + 1) if x.ndim > 1 else x[::-1],
        lambda: lambda xp, x: x.real,
        lambda: halves(rng, shape),
        lambda: row(rng, shape),
        lambda: unstacked(rng, shape),
        lambda: lambda xp, x: x.flatten(),  # a copy
        lambda: lambda xp, x: xp.array(x, order="C"),  # a new array
    ]
    return makers[rng.integers(len(makers))]()


def random_write(rng, shape):
    """Return a function of an array that changes it in place."""
    number = float(rng.integers(-9, 9))
    values = rng.integers(-9, 9, shape).astype(float)
    index = random_slices(rng, shape) if shape else ...
    rows = rng.integers(0, shape[0], 2) if shape and shape[0] else None

    def add(x):
        x += values

    def scale(x):
        x *= number

    def write_slice(x):
        x[index] = number

    def add_to_slice(x):
        x[index] += number

    def write_whole(x):
        x[...] = values

    def write_rows(x):
        if rows is None:
            x[...] = number
        else:
            x[rows] = number

    def write_mask(x):
        x[x > 0] = number

    def fill(x):
        x.fill(number)

    return [add, scale, write_slice, add_to_slice, write_whole, write_rows, write_mask, fill][
        rng.integers(8)
    ]


class Program:
    """A random program: steps that take a view of an earlier array, or write to one."""

    def __init__(self, seed, steps=14):
        rng = np.random.default_rng(seed)
        self.start = rng.integers(-9, 9, SHAPES[rng.integers(len(SHAPES))]).astype(float)
        self.steps = []
        arrays, tensors = [self.start.copy()], [tapegrad.constant(self.start)]
        for _ in range(steps):
            which = int(rng.integers(len(arrays)))
            shape = arrays[which].shape
            makes_view = rng.random() < 0.55
            step = random_view(rng, shape) if makes_view else random_write(rng, shape)
            if makes_view and not isinstance(step(np, arrays[which]), np.ndarray):
                continue  # NumPy's numbers cannot be written
            is_view = hasattr(tensors[which], "view_of")
            if not makes_view and step.__name__ in ("add", "scale") and not is_view:
                continue  # `x += 1` on a tensor that is no view makes a new tensor
            self.steps.append((which, makes_view, step))
            take_step(np, arrays, self.steps[-1])
            take_step(tnp, tensors, self.steps[-1])

    def run(self, xp, start):
        """Yield all arrays after each step; the same list each time."""
        arrays = [start]
        for step in self.steps:
            take_step(xp, arrays, step)
            yield arrays

    def result(self, xp, start):
        """Return one array with the values of all arrays at the end."""
        arrays = [start]
        for step in self.steps:
            take_step(xp, arrays, step)
        return xp.concatenate([xp.reshape(array, (-1,)) for array in arrays])


def take_step(xp, arrays, step):
    which, makes_view, function = step
    if makes_view:
        arrays.append(function(xp, arrays[which]))
    else:
        function(arrays[which])


@pytest.mark.parametrize("seed", program_seeds(60, 4000))
def test_views_are_numpys(seed):
    program = Program(seed)
    of_numpy = program.run(np, program.start.copy())
    for arrays, tensors in zip(of_numpy, program.run(tnp, tapegrad.constant(program.start))):
        for array, tensor in zip(arrays, tensors, strict=True):
            np.testing.assert_array_equal(tensor.numpy(), array)


def slopes(program, direction):
    """Return the exact derivative along a direction: the programs are piecewise linear."""
    step = 1e-3
    low, high = (program.result(np, program.start + s * direction) for s in (-step, step))
    return (high - low) / (2 * step)


@pytest.mark.parametrize("seed", program_seeds(40, 2000, first=5000))
def test_writes_through_views_are_differentiated(seed):
    program = Program(seed)
    rng = np.random.default_rng(seed)
    start = tapegrad.constant(program.start + 0.25)  # away from the kinks, which are at integers
    program.start = start.numpy()
    with tapegrad.GradientTape() as tape:
        tape.watch(start)
        result = program.result(tnp, start * 1.0)
        weights = rng.standard_normal(result.shape)
        total = tnp.sum(result * weights)
    direction = rng.standard_normal(program.start.shape)

    gradient = tape.gradient(total, start).numpy()

    np.testing.assert_allclose(
        np.sum(gradient * direction), np.sum(slopes(program, direction) * weights), atol=1e-6
    )


@pytest.mark.parametrize("seed", program_seeds(20, 500, first=8000))
def test_writes_through_views_in_a_function(seed):
    program = Program(seed)
    compiled = tapegrad.function(lambda x: program.result(tnp, x * 1.0))

    for shift in (0.25, 1.25):
        expected = program.result(np, program.start + shift)
        np.testing.assert_allclose(compiled(program.start + shift).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("seed", program_seeds(30, 500, first=9000))
def test_writes_through_views_inside_vmap(seed):
    program = Program(seed)
    starts = np.stack([program.start, program.start + 0.5])
    mapped = tapegrad.vmap(lambda x: program.result(tnp, x * 1.0))

    result = mapped(tapegrad.constant(starts))

    np.testing.assert_allclose(
        result.numpy(), [program.result(np, start.copy()) for start in starts], atol=1e-12
    )


READ_ONLY = {
    "broadcast_to": lambda xp, x: xp.broadcast_to(x, (2, 3, 3)),
    "broadcast_arrays": lambda xp, x: xp.broadcast_arrays(x, xp.zeros((2, 1, 1)))[0],
    "diagonal": lambda xp, x: xp.diagonal(x, 1),
    "sliding_window_view": lambda xp, x: xp.lib.stride_tricks.sliding_window_view(x, (2, 2)),
    "as_strided": lambda xp, x: xp.lib.stride_tricks.as_strided(
        x, (2, 2), (8, 24), writeable=False
    ),
    "part of diagonal": lambda xp, x: xp.diagonal(x)[1:].reshape(-1, 1),
    "diagonal of a view": lambda xp, x: xp.diagonal(x.T[::-1]),
}


@pytest.mark.parametrize("name", READ_ONLY)
def test_read_only_views_change_with_their_base(name):
    made = READ_ONLY[name]

    def total(xp, x):
        y = x * 1.0
        seen = made(xp, y)
        y[1] *= 2.0
        y[...] += 1.0
        return xp.sum(xp.sin(seen)), seen

    start = np.arange(9.0).reshape(3, 3) / 10
    x = tnp.array(start)
    array = total(np, start)[1]
    with tapegrad.GradientTape() as tape:
        tape.watch(x)
        value, seen = total(tnp, x)

    np.testing.assert_allclose(seen.numpy(), array)
    np.testing.assert_allclose(tapegrad.function(lambda x: total(tnp, x)[1])(x).numpy(), array)
    with pytest.raises(tapegrad.errors.ArgumentError, match="read-only"):
        seen[...] = 0.0
    slope = tape.gradient(value, x).numpy()
    for place in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[place] = 1e-6
        rate = (total(np, start + step)[0] - total(np, start - step)[0]) / 2e-6
        np.testing.assert_allclose(slope[place], rate, rtol=1e-6, atol=1e-8)


ORDERS = {
    "x": lambda xp, x: x,
    "x.T": lambda xp, x: x.T,
    "permuted": lambda xp, x: xp.transpose(x, (1, 2, 0)),
    "flipped": lambda xp, x: xp.flip(x, 1).T,
    "broadcast": lambda xp, x: xp.broadcast_to(x, (2, 2, 3, 4)),
}


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
@pytest.mark.parametrize("name", ORDERS)
def test_orders_of_views(name, order):
    array = ORDERS[name](np, np.arange(24.0).reshape(2, 3, 4))
    x = ORDERS[name](tnp, tnp.array(np.arange(24.0).reshape(2, 3, 4)))

    assert tnp.ravel(x, order=order).tolist() == np.ravel(array, order=order).tolist()
    assert x.flatten(order).tolist() == array.flatten(order).tolist()
    if order != "K":
        assert x.reshape(-1, 6, order=order).tolist() == array.reshape(-1, 6, order=order).tolist()


def test_functions_that_want_c_order_copy_other_views():
    for function in (
        lambda xp, x: xp.ascontiguousarray(x),
        lambda xp, x: xp.asarray(x, order="C"),
        lambda xp, x: xp.require(x, requirements="C"),
        lambda xp, x: xp.array(x, copy=None, ndmin=3),
    ):
        for view in (lambda x: x.T, lambda x: x[:1], lambda x: x[::-1], lambda x: x):
            results = []
            for xp in (np, tnp):
                x = xp.zeros((2, 3))
                y = function(xp, view(x))
                y[...] = 1.0
                results.append((x.tolist(), bool(xp.shares_memory(x, y))))
            assert results[0] == results[1]


def test_shares_memory_knows_views():
    for a, b in (
        (np.s_[:, 1:], np.s_[:, :1]),
        (np.s_[0], np.s_[:, 0]),
        (np.s_[::2], np.s_[1::2]),
        (np.s_[0], np.s_[1]),
    ):
        x, array = tnp.zeros((4, 3)), np.zeros((4, 3))
        assert tnp.shares_memory(x[a], x[b].T) == np.shares_memory(array[a], array[b].T)
        assert not tnp.shares_memory(x[a], x.copy())


@pytest.mark.parametrize(
    ("shape", "function"),
    [
        ((1, 3), lambda xp, out: xp.sum(xp.ones((2, 3)), axis=0, out=out)),
        ((2, 3), lambda xp, out: xp.mean(xp.ones((2, 3)), axis=0, out=out)),
        ((2, 3), lambda xp, out: xp.cumsum(xp.ones(3), out=out)),
        ((3,), lambda xp, out: xp.stack([xp.ones(3)], out=out)),
        ((2, 3), lambda xp, out: xp.take(xp.ones(3), [0, 1, 2], out=out)),
        ((3,), lambda xp, out: xp.add(xp.ones((1, 3)), 1.0, out=out)),
        ((2, 3), lambda xp, out: xp.add(xp.ones(3), 1.0, out=out)),
        ((3,), lambda xp, out: out[:].__iadd__(xp.ones((1, 3)))),
    ],
)
def test_the_shape_of_out(shape, function):
    results = []
    for xp in (np, tnp):
        out = xp.zeros(shape)
        try:
            function(xp, out)
            results.append(out.tolist())
        except ValueError:
            results.append("refused")
    assert results[0] == results[1]


@pytest.mark.parametrize("name", ["atleast_1d", "atleast_2d", "atleast_3d"])
def test_an_array_that_has_enough_axes_is_a_view(name):
    x = tnp.ones((2, 2, 3))
    y = getattr(tnp, name)(x)
    y *= 2

    assert x.numpy().sum() == 24
