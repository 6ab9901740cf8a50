"""One recording serves all sizes: programs that are made from recordings for other sizes."""

from __future__ import annotations

import importlib
import math
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.errors import ShapeError
from tapegrad.program.record.size_reads import CONVERTERS, READERS

SIZES = (4, 6, 9, 5, 12, 30, 7, 3, 2)


def data(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def check_sizes(
    eager: Callable[..., Any],
    make: Callable[[int], tuple[Any, ...]],
    sizes: Any = SIZES,
    **options: Any,
) -> Any:
    """Compare a function with eager code for several sizes, and return it."""
    compiled = tf.function(eager, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some functions are recorded often
        for k, size in enumerate(sizes):
            for _ in range(2 if k < 4 else 1):  # the second call replays
                arguments = [tf.constant(x) for x in make(size)]
                found = tf.nest.flatten(compiled(*arguments))
                wanted = tf.nest.flatten(eager(*arguments))
                assert len(found) == len(wanted)
                for one, other in zip(found, wanted):
                    assert_same(one, other, size)
    return compiled


def assert_same(found: Any, wanted: Any, size: int) -> None:
    assert type(found) is type(wanted), size
    if not isinstance(wanted, tf.Tensor):
        assert found == wanted, size
        return
    assert found.dtype == wanted.dtype, size
    assert found.shape == wanted.shape, size
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-11, atol=1e-12)


def recordings(compiled: Any) -> int:
    return len(compiled.explain().recordings)


def one(size: int) -> tuple[Any, ...]:
    return (data(size, 6),)


def split_heads(x: Any) -> Any:
    n = x.shape[0]
    heads = tf.transpose(tf.reshape(x, (n, 2, 3)), (1, 0, 2))
    weights = tf.nn.softmax(tf.matmul(heads, heads, transpose_b=True) / math.sqrt(3.0))
    return tf.reshape(tf.transpose(tf.matmul(weights, heads), (1, 0, 2)), (n, 6))


KERNEL = data(3, 3, 1, 4)
TWO_RECORDINGS: dict[str, Callable[[Any], Any]] = {
    "mean": tf.reduce_mean,
    "mean of rows": lambda x: tf.reduce_mean(x, axis=0) + tf.reduce_mean(x, axis=1)[:1],
    "standard deviation": tf.math.reduce_std,
    "unbiased": lambda x: tnp.std(x, axis=0, ddof=1) + tnp.var(x),
    "cross entropy": lambda x: tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(x), x * 2.0),
    "concat": lambda x: tf.concat([x, x], 0) * 2.0,
    "stack": lambda x: tf.reduce_sum(tf.stack([x, x * 2.0], 1), 2),
    "all but the last": lambda x: x[1:] - x[:-1],
    "last": lambda x: x[-1] + x[:-1],
    "reversed": lambda x: x[::-1] * x,
    "transposed": lambda x: tf.matmul(x, x, transpose_b=True),
    "flattened": lambda x: tf.reshape(x, (-1,)) * 2.0,
    "flattened rows": lambda x: tf.reshape(x, (-1, 2, 3)),
    "sorted": lambda x: tf.sort(x, axis=0),
    "cumulated": lambda x: tf.cumsum(x, 0),
    "padded": lambda x: tf.pad(x, [[1, 2], [0, 0]]),
    "tiled": lambda x: tf.tile(x, [3, 1]),
    "convolution": lambda x: tf.nn.conv2d(tf.reshape(x, (-1, 2, 3, 1)), KERNEL, 1, "SAME"),
    "ones": lambda x: tf.ones_like(x) + x,
    "layer norm": lambda x: (x - tf.reduce_mean(x, 1, keepdims=True)) / tf.math.reduce_std(x, 0),
    "argmax": lambda x: tf.argmax(x, 0),
    "gathered": lambda x: tf.gather(x, [0, 1]),
    "fixed length": lambda x: sum(list(tf.transpose(x))),
    "structure": lambda x: {"b": x + 1.0, "a": (x * 2.0, 3, None)},
}


@pytest.mark.parametrize("name", TWO_RECORDINGS)
def test_two_recordings_serve_all_sizes(name: str) -> None:
    compiled = check_sizes(TWO_RECORDINGS[name], one)

    assert recordings(compiled) == 2
    assert len(compiled.explain().made) == len(SIZES) - 2


def grown(x: Any) -> Any:
    n = x.shape[0]
    return tf.zeros((n, 2), x.dtype) + x[:, :2]


THREE_RECORDINGS: dict[str, Callable[[Any], Any]] = {
    "heads": split_heads,
    "zeros": grown,
    "ones": lambda x: tf.ones([x.shape[0] + 1, 6], x.dtype)[1:] - x,
    "filled": lambda x: tf.fill((x.shape[0], 6), 2.5) + tf.cast(x, "float32"),
    "full": lambda x: tnp.full(x.shape, 2.5) + tnp.zeros(x.shape) - tnp.ones((x.shape[0], 1)) * x,
    "zeros of one": lambda x: tf.zeros(x.shape[0]) + tf.cast(x[:, 0], "float32"),
    "divided by the size": lambda x: tf.reduce_sum(x) / x.shape[0],
    "times the size": lambda x: x.shape[0] * x - x.shape[0],
    "reciprocal": lambda x: x * (1.0 / x.shape[0]),
    "exponent": lambda x: tnp.abs(x) ** (-1.0 / x.shape[0]) + abs(x) ** x.shape[0],
    "slice": lambda x: x[: x.shape[0] - 1] * 2.0,
    "returned size": lambda x: (x + 1.0, x.shape[0], x.shape),
    "elements": lambda x: tf.reshape(x, (x.shape.num_elements(),)) + tf.reduce_sum(x) / x.size,
    "reshape by tnp.shape": lambda x: tnp.reshape(x, (tnp.shape(x)[0] * 3, 2)),
    "other axis": lambda x: x if x.shape[-1] == 6 else x * 2.0,
    "equal sizes": lambda x: x if x.shape[0] == (x * 2.0).shape[0] else x * 2.0,
    "one-hot": lambda x: tf.one_hot(tf.argmax(x, 1), x.shape[0]),
    "square": lambda x: tf.reshape(tf.matmul(x, x, transpose_b=True), (x.shape[0] ** 2,)),
}


@pytest.mark.parametrize("name", THREE_RECORDINGS)
def test_a_third_recording_confirms_code_that_reads_sizes(name: str) -> None:
    compiled = check_sizes(THREE_RECORDINGS[name], one)

    assert recordings(compiled) == 3


def loop_over_rows(x: Any) -> Any:
    total = x[0]
    for k in range(1, x.shape[0]):
        total = total * 0.5 + x[k]
    return total


def triangle(x: Any) -> Any:
    return x * float(sum(k for k in range(x.shape[0])))


PER_SIZE: dict[str, Callable[[Any], Any]] = {
    "loop": loop_over_rows,
    "iteration": lambda x: sum(list(x), x[0]),
    "sum of a range": triangle,
    "length": lambda x: x * len(x),
    "len(list)": lambda x: x * len([1] * x.shape[0]),
    "whole number": lambda x: x * int(x.shape[0]),
    "constants": lambda x: x + np.zeros((x.shape[0], 1)),
    "range": lambda x: tf.cast(tf.range(x.shape[0]), x.dtype)[:, None] + x,
    "dictionary": lambda x: x * {n: n % 3 + 1.0 for n in range(100)}[x.shape[0]],
    "tf.shape": lambda x: tf.reshape(x, tf.shape(x)) * 2.0,
    "tf.size": lambda x: x if int(tf.size(x)) > 30 else x * 2.0,
    "root": lambda x: x / np.log(x.shape[0]),
    "logarithm": lambda x: x * math.log(x.shape[0]),
    "bits": lambda x: x * x.shape[0].bit_length(),
    "printed": lambda x: tf.print(end="") or x * 2.0,
}


@pytest.mark.parametrize("name", PER_SIZE)
def test_other_functions_are_recorded_for_each_size(name: str) -> None:
    compiled = check_sizes(PER_SIZE[name], one)

    assert recordings(compiled) == len(SIZES)


BRANCHES: dict[str, Callable[[Any], Any]] = {
    "threshold": lambda x: x * 2.0 if x.shape[0] < 20 else x * 3.0,
    "minimum": lambda x: x[: min(x.shape[0], 20)],
    "maximum": lambda x: tf.pad(x, [[0, max(25 - x.shape[0], 0)], [0, 0]]),
    "parity": lambda x: x * 2.0 if x.shape[0] % 2 else x * 3.0,
    "half": lambda x: x[: x.shape[0] // 2],
    "rounded up": lambda x: x[: math.ceil(x.shape[0] / 2)],
    "tens": lambda x: x * float(1 + x.shape[0] // 10) if x.shape[0] // 10 else x,
    "a ratio": lambda x: x * 2.0 if 1 / x.shape[0] < 0.05 else x,
    "of a result": lambda x: x * 2.0 if tf.concat([x, x], 0).shape[0] < 40 else x,
    "shapes": lambda x: x * 2.0 if x.shape == (30, 6) else x,
    "a table": lambda x: x * 2.0 if x.shape[0] in (5, 30) else x,
    "rows": lambda x: x * 2.0 if tnp.shape(x)[0] > 20 else x,
    "elements": lambda x: x * 2.0 if x.size > 120 else x,
    "truth": lambda x: x * 2.0 if x.shape[0] - 30 else x,
    "rounding": lambda x: x * 2.0 if round(x.shape[0] / 10) else x,
}


@pytest.mark.parametrize("name", BRANCHES)
@pytest.mark.parametrize(
    "sizes", [(4, 6, 8, 10, 12, 30, 31, 33, 7, 5, 18, 90), (40, 31, 22, 19, 8)]
)
def test_branches_on_sizes_are_those_of_eager_code(name: str, sizes: tuple[int, ...]) -> None:
    check_sizes(BRANCHES[name], one, sizes)


def test_a_branch_has_one_template_for_each_side() -> None:
    sizes = (4, 6, 8, 10, 12, 30, 32, 34, 7, 5, 18, 90, 35, 19)
    compiled = check_sizes(BRANCHES["threshold"], one, sizes)

    assert recordings(compiled) == 6


@pytest.mark.parametrize("first", [1, 0])
def test_sizes_0_and_1_are_recorded(first: int) -> None:
    compiled = check_sizes(lambda x: x + tf.reduce_sum(x, 0), one, (first, 4, 5, 6, 1, 0, 7))

    assert recordings(compiled) == 4


def test_an_axis_of_length_1_broadcasts() -> None:
    check_sizes(lambda x, y: x + y, lambda n: (data(n, 3), data(7, 3)), (7, 1))
    check_sizes(lambda x, y: x * y, lambda n: (data(n, 3), data(2 if n == 2 else 1, 3)), (2, 3, 4))


def test_equal_sizes_need_not_be_equal_later() -> None:
    compiled = tf.function(lambda x, y: tf.concat([x, y], 0) * 2.0)
    for m, n in [(3, 3), (4, 4), (5, 5), (5, 6), (7, 2), (3, 8), (8, 8), (4, 9)]:
        x, y = data(m, 2), data(n, 2, seed=1)
        np.testing.assert_array_equal(compiled(x, y), np.concatenate([x, y]) * 2.0)


def test_many_batch_sizes() -> None:
    compiled = tf.function(lambda x, w: tf.reduce_mean(tf.nn.relu(x @ w)))
    weights = data(6, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in range(2, 102, 3):  # for each, a kernel with its number of rows is compiled
            x = data(size, 6)
            np.testing.assert_allclose(
                compiled(x, weights), np.maximum(x @ weights, 0.0).mean(), rtol=1e-12
            )

    assert recordings(compiled) == 2


def test_a_hundred_batch_sizes_with_a_signature() -> None:
    spec = tf.TensorSpec([None, 6], "float64")
    compiled = check_sizes(
        lambda x: tf.reduce_sum(x, 0), one, range(2, 102), input_signature=[spec]
    )

    assert recordings(compiled) == 2


def test_batch_and_length_vary() -> None:
    def attend(x: Any) -> Any:
        scores = tf.nn.softmax(tf.matmul(x, x, transpose_b=True))
        rows = tf.reshape(tf.matmul(scores, x), (-1, 4)) @ KERNEL[0, 0].reshape(1, 4)[:, :1].repeat(
            4, 0
        )
        return tf.reshape(rows, x.shape[:2]), tf.reduce_mean(rows)

    pairs = [(2, 5), (3, 7), (4, 6), (8, 3), (5, 9), (3, 3), (9, 9), (2, 11), (7, 7)]
    compiled = check_sizes(attend, lambda k: (data(*pairs[k], 4),), range(len(pairs)))

    assert recordings(compiled) == 4


def test_the_length_varies_after_the_batch() -> None:
    pairs = [(2, 5), (3, 5), (4, 5), (9, 5), (3, 7), (8, 11), (6, 4), (12, 20)]
    compiled = check_sizes(
        lambda x: tf.reduce_mean(tf.reshape(x, (-1, 4)), 0),
        lambda k: (data(*pairs[k], 4),),
        range(len(pairs)),
    )

    assert recordings(compiled) <= 4


def training_step() -> Any:
    """Return a step of an MLP with dropout; its optimizer makes variables in the first call."""
    first, second = tf.Variable(data(6, 8) * 0.3), tf.Variable(data(8, 3) * 0.3)
    optimizer = tf.keras.optimizers.Adam(0.01)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            hidden = tf.nn.dropout(tf.nn.relu(x @ first), 0.3)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, hidden @ second)
            loss = tf.reduce_mean(losses)
        variables = [first, second]
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    return step, [first, second], optimizer


@pytest.mark.parametrize("wait", [False, True])
def test_training_with_batches_of_other_sizes(wait: bool) -> None:
    sizes = [8, 8, 5, 8, 8, 5, 8, 3, 7, 2, 8, 16, 5, 3, 3, 16, 16, 11]
    results = []
    for compiles in (False, True):
        step, variables, optimizer = training_step()
        run = tf.function(step, wait=wait) if compiles else step
        tf.random.set_seed(7)
        losses = []
        for k, size in enumerate(sizes):
            x, y = data(size, 6, seed=k), np.arange(size) % 3
            losses.append(float(run(tf.constant(x), tf.constant(y))))
        arrays = [v.numpy() for v in (*variables, *optimizer.variables)]
        results.append([losses, *arrays])
        if compiles:
            assert recordings(run) <= 3
            assert len(run.explain().made) >= 5

    for found, wanted in zip(*results):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_random_draws_are_those_of_eager_code() -> None:
    def noisy(x: Any) -> Any:
        return tf.nn.dropout(x, 0.4) + tf.random.normal(x.shape, dtype=x.dtype)

    results = []
    for run in (noisy, tf.function(noisy)):
        tf.random.set_seed(11)
        results.append([run(tf.constant(data(n, 3))).numpy() for n in SIZES])

    for found, wanted in zip(*results):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert recordings(run) == 3


def gradients(run: Any, x: Any, sources: Any) -> Any:
    """Return the result, first and second derivatives of a function under tapes."""
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = run(x)
        first = inner.gradient(y, [x, *sources])
        total = tf.reduce_sum(first[0] ** 2)
    return [y, *first, outer.gradient(total, x)]


@pytest.mark.parametrize("wait", [False, True])
def test_calls_under_tapes(wait: bool) -> None:
    weights, bias = tf.Variable(data(6, 3)), tf.Variable(np.zeros(3))

    def loss(x: Any) -> Any:
        return tf.reduce_mean(tf.nn.dropout(tf.tanh(x @ weights + bias), 0.3) ** 2)

    compiled = tf.function(loss, wait=wait)
    for size in (*SIZES, 1, 5, 5):
        x = tf.constant(data(size, 6))
        results = []
        for run in (compiled, loss):
            tf.random.set_seed(size)
            results.append(gradients(run, x, [weights, bias]))
        for found, wanted in zip(*results):
            np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-13)

    assert recordings(compiled) == 3  # two sizes, and 1
    assert len(compiled.explain().made) == len(SIZES) - 2


def test_sparse_gradients_under_tapes() -> None:
    table = tf.Variable(data(5, 2))

    @tf.function
    def look_up(ids: Any) -> Any:
        return tf.gather(table, ids) * 2.0

    for size in SIZES:
        ids = tf.constant(np.arange(size) % 5)
        with tf.GradientTape() as tape:
            y = look_up(ids)
        found = tf.convert_to_tensor(tape.gradient(y, table)).numpy()
        wanted = np.zeros((5, 2))
        np.add.at(wanted, ids.numpy(), 2.0)
        np.testing.assert_array_equal(found, wanted)
    assert recordings(look_up) == 2


@pytest.mark.parametrize("name", BRANCHES)
def test_branches_on_sizes_under_tapes(name: str) -> None:
    eager = BRANCHES[name]
    compiled = tf.function(eager)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for size in (4, 6, 8, 12, 30, 31, 7, 5):
            x = tf.constant(data(size, 6))
            results = []
            for run in (compiled, eager):
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    y = run(x)
                results.append([y, tape.gradient(y, x)])
            for found, wanted in zip(*results):
                np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_other_dtypes(dtype: str) -> None:
    def eager(x: Any) -> Any:
        return x[1:] * 2 - x[:-1], tf.reduce_max(x, 0), tf.concat([x, x], 1)

    compiled = check_sizes(eager, lambda n: ((data(n, 4) * 8).astype(dtype),))

    assert recordings(compiled) == 2


def test_strides_need_sizes_that_divide() -> None:
    def eager(x: Any) -> Any:
        image = tf.reshape(x, (1, -1, 6, 1))
        return [tf.nn.conv2d(image, KERNEL, 2, padding) for padding in ("SAME", "VALID")]

    compiled = check_sizes(eager, one, (8, 12, 16, 9, 11, 15, 10, 7, 13, 20, 33))

    assert recordings(compiled) < 11


class Scale(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = 2.0

    def __call__(self, x: Any) -> Any:
        return x * self.factor


def test_an_attribute_that_changes_is_noticed() -> None:
    scale = Scale()
    compiled = tf.function(lambda x: scale(x) + 1.0)
    for size in (4, 5, 6):
        compiled(data(size, 2))
    scale.factor = 3.0

    for size in (7, 4, 5, 8):
        x = data(size, 2)
        np.testing.assert_array_equal(compiled(x), x * 3.0 + 1.0)


def test_a_tensor_from_outside_that_changes_is_noticed() -> None:
    outside = tf.constant([1.0, 2.0])
    compiled = tf.function(lambda x: x + outside)
    for size in (4, 5, 6):
        compiled(tf.ones([size, 2]))
    assert recordings(compiled) == 2
    outside = tf.constant([5.0, 7.0])

    for size in (8, 9, 4):
        np.testing.assert_array_equal(compiled(tf.ones([size, 2]))[0], [6.0, 8.0])


def test_variables_are_assigned() -> None:
    total, count = tf.Variable(np.zeros(2)), tf.Variable(0)

    @tf.function
    def add(x: Any) -> Any:
        total.assign_add(tf.reduce_sum(x, 0))
        return count.assign_add(1)

    wanted = np.zeros(2)
    for k, size in enumerate(SIZES):
        wanted = wanted + data(size, 2).sum(0)
        assert int(add(data(size, 2))) == k + 1
    np.testing.assert_allclose(total.numpy(), wanted, rtol=1e-12)
    assert recordings(add) == 2


def test_a_layer_that_is_built_in_the_first_call() -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(4, "relu"), tf.keras.layers.Dense(2)])
    compiled = tf.function(model)
    for size in SIZES:
        x = data(size, 3).astype("float32")
        np.testing.assert_allclose(compiled(x), model(x), rtol=1e-5, atol=1e-6)

    assert recordings(compiled) <= 3


def test_an_error_is_that_of_a_recording() -> None:
    compiled = tf.function(lambda x, y: tf.matmul(x, y))
    for n in (3, 4, 5, 6):
        compiled(data(2, n), data(n, 2))

    with pytest.raises(ShapeError) as seen:
        compiled(data(2, 7), data(8, 2))
    with pytest.raises(ShapeError) as eager:
        tf.matmul(data(2, 7), data(8, 2))
    assert str(seen.value) == str(eager.value)


def test_an_argument_that_is_written_is_recorded_for_each_size() -> None:
    def fill(x: Any) -> Any:
        x[0] = 5.0
        return x * 2.0

    compiled = tf.function(fill)
    for size in SIZES[:6]:
        x, y = tf.constant(data(size, 2)), tf.constant(data(size, 2))
        np.testing.assert_array_equal(compiled(x), fill(y))
        np.testing.assert_array_equal(x, y)


def test_explain_says_from_what_a_program_was_made() -> None:
    compiled = tf.function(lambda x: x * 2.0)
    for size in (32, 64, 48):
        compiled(data(size, 2))

    reason = "size 48 of argument 'x': made from the recordings for 32 and 64, not recorded"
    assert [note.reason for note in compiled.explain().made] == [reason]
    assert reason in str(compiled.explain())


def test_the_names_of_functions_that_read_sizes_exist() -> None:
    for module, name in READERS | CONVERTERS:
        found = vars(importlib.import_module(module))
        holders = [found, vars(tf.Tensor), vars(tf.Tensor.__mro__[1])]
        assert any(name in holder for holder in holders), (module, name)


def test_sizes_are_plain_after_the_recording() -> None:
    kept = []

    class Holder(tf.Module):
        rows = 0

    holder = Holder()

    @tf.function
    def keep(x: Any) -> Any:
        kept.append(x.shape[0])
        holder.rows = x.shape[0]
        return x * 2.0, x.shape[0]

    result = keep(data(3, 2))

    assert type(result[1]) is int
    assert type(holder.rows) is int
    assert isinstance(kept[0], int)
    assert kept[0] * 2 == 6


UNARY = (
    tf.nn.relu,
    tf.tanh,
    lambda x: x - tf.reduce_mean(x, 0, keepdims=True),
    lambda x: tf.cumsum(x, 0),
    lambda x: x[::-1],
    lambda x: tf.concat([x[1:], x[:1]], 0),
    lambda x: tf.concat([x, x * 0.5], 0),
    lambda x: tf.nn.softmax(x, 0),
    lambda x: tf.transpose(tf.transpose(x) * 2.0),
    lambda x: tf.matmul(tf.nn.softmax(tf.matmul(x, x, transpose_b=True)), x),
    lambda x: tf.reshape(tf.reshape(x, (x.shape[0] * 2, 3)) * 1.5, x.shape),
    lambda x: x / x.shape[0],
    lambda x: x[: x.shape[0] - 1] if x.shape[0] > 3 else x,
    lambda x: x if x.shape[0] % 3 else x * 2.0,
    lambda x: tf.pad(x, [[0, 1], [0, 0]]),
    lambda x: tf.sort(x, 0),
    lambda x: x + x.shape[0] // 2,
    lambda x: tf.repeat(x, 2, 0)[: x.shape[0]],
    lambda x: x * min(x.shape[0], 6),
)


@pytest.mark.parametrize("seed", range(50))
def test_random_programs(seed: int) -> None:
    choose = random.Random(seed)
    steps = [choose.choice(UNARY) for _ in range(choose.randint(2, 6))]
    sizes = [choose.randint(0, 14) for _ in range(7)] + [40]

    def run(x: Any) -> Any:
        for step in steps:
            x = step(x)
        return x, tf.reduce_mean(x), tf.reduce_sum(x, 0)

    check_sizes(run, one, [max(size, 1) for size in sizes])
