"""Optimizer steps on the GPU, against the generic kernels in float64 and in captured graphs."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.optimizers import updates as primitives

cupy = pytest.importorskip("cupy")
ml_dtypes = pytest.importorskip("ml_dtypes")
updates = pytest.importorskip("tapegrad_cupy.kernels.updates.updates")
tallies = pytest.importorskip("tapegrad_cupy.kernels.updates.running_means")
row_updates = pytest.importorskip("tapegrad_cupy.kernels.updates.row_updates")

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
PRECISION = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-6, "float64": 1e-14}
DTYPES = [np.dtype(name) for name in ("float16", "float32", "float64")] + [BFLOAT16]
SHAPES = [(), (7,), (1001,), (600, 500), (0, 3)]
RNG = np.random.default_rng(3)

# Name, number of slots, params; slots are positive, so each can be a mean of squares.
RULES = [
    ("sgd_update", 0, {}),
    ("momentum_update", 1, {"momentum": 0.9, "nesterov": False}),
    ("momentum_update", 1, {"momentum": 0.9, "nesterov": True}),
    ("adam_update", 2, {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}),
    ("adam_update", 3, {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}),
    ("rmsprop_update", 1, {"rho": 0.9, "momentum": 0.0, "epsilon": 1e-7, "centered": False}),
    ("rmsprop_update", 2, {"rho": 0.9, "momentum": 0.5, "epsilon": 1e-7, "centered": False}),
    ("rmsprop_update", 2, {"rho": 0.9, "momentum": 0.0, "epsilon": 1e-7, "centered": True}),
    ("rmsprop_update", 3, {"rho": 0.9, "momentum": 0.5, "epsilon": 1e-7, "centered": True}),
    ("adagrad_update", 1, {"epsilon": 1e-7}),
    ("adadelta_update", 2, {"rho": 0.9, "epsilon": 1e-7}),
    ("adamax_update", 2, {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}),
    ("nadam_update", 2, {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}),
    ("lamb_change_update", 2, {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}),
    # Multiples of 0.5 are exact, so the sign does not depend on rounding.
    ("lion_update", 1, {"beta_1": 0.5, "beta_2": 0.99}),
    ("ftrl_update", 2, {"power": 0.5, "beta": 0.0, "l1": 0.0, "l2": 0.0, "shrinkage": 0.0}),
    ("ftrl_update", 2, {"power": 0.5, "beta": 0.5, "l1": 0.4, "l2": 0.3, "shrinkage": 0.2}),
    ("ftrl_update", 2, {"power": 0.7, "beta": 0.5, "l1": 0.4, "l2": 0.3, "shrinkage": 0.2}),
]
# The scalars that a rule reads in addition to the rate: the step or further numbers.
NUMBERS = {
    "adam_update": [np.array(3)],
    "adamax_update": [np.array(3)],
    "lamb_change_update": [np.array(3)],
    "nadam_update": [np.array(0.7), np.array(0.6), np.array(300.0)],
}
# A small rate would magnify the rounding of a difference in Ftrl; Lamb's direction has no rate.
RATES = {"ftrl_update": [1.0], "lamb_change_update": []}


def slot_dtype(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float32) if dtype.itemsize == 2 else dtype


def arguments(name: str, slots: int, shape: tuple[int, ...], dtype: np.dtype) -> list[np.ndarray]:
    """The parameter, its gradient, the rate, other numbers where there are any, and the slots."""
    # The first is much larger than the square of the second, as in a centered rule.
    states = [RNG.uniform(3.0, 4.0, shape) / (k + 1) ** 2 for k in range(slots)]
    rates = [np.array(rate, "float32") for rate in RATES.get(name, [0.01])]
    numbers = [*rates, *NUMBERS.get(name, [])]
    values = [RNG.normal(size=shape).astype(dtype) for _ in range(2)]
    wide = slot_dtype(dtype)
    return [*values, *numbers, *(s.astype(wide) for s in states)]


def exact(x: np.ndarray) -> np.ndarray:
    return x if x.dtype.kind in "iu" else x.astype(np.float64)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize(("name", "slots", "params"), RULES)
@pytest.mark.parametrize("shape", SHAPES)
def test_one_step_equals_the_generic_form(name, slots, params, shape, dtype) -> None:
    arrays = arguments(name, slots, shape, dtype)
    expected = getattr(primitives, name).forward(np, *map(exact, arrays), **params)
    here = [cupy.asarray(array) for array in arrays]

    new = updates.KERNELS[name](*here, **params)

    assert [x.dtype for x in new] == [dtype] + [slot_dtype(dtype)] * slots
    for actual, wanted in zip(new, expected, strict=True):
        rtol = 8 * PRECISION[dtype.name]
        actual = cupy.asnumpy(actual).astype(float)
        np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=rtol)
    for array, kept in zip(arrays, here, strict=True):
        np.testing.assert_array_equal(cupy.asnumpy(kept), array)


def test_arrays_that_are_strided_or_start_oddly_step_too() -> None:
    arrays = arguments("adam_update", 2, (2 * 333 + 1,), np.dtype("f4"))
    params = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}
    for part in (slice(1, None), slice(None, None, 2)):
        cut = [x[part] if x.ndim else x for x in arrays]
        here = [x[part] if x.ndim else x for x in map(cupy.asarray, arrays)]

        new = updates.KERNELS["adam_update"](*here, **params)

        expected = primitives.adam_update.forward(np, *map(exact, cut), **params)
        for actual, wanted in zip(new, expected, strict=True):
            np.testing.assert_allclose(cupy.asnumpy(actual), wanted, rtol=1e-5, atol=1e-5)


def test_complex_parameters_take_the_generic_form() -> None:
    p = np.array([1 + 2j, 3 - 1j], "complex64")
    rate = np.array(0.5, "float32")

    (new,) = updates.KERNELS["sgd_update"](cupy.asarray(p), cupy.asarray(p), cupy.asarray(rate))

    np.testing.assert_allclose(cupy.asnumpy(new), 0.5 * p)


def test_decay_shrinks_in_the_parameters_dtype() -> None:
    p, rate = np.array([1.0, -2.0], BFLOAT16), np.array(0.5, "float32")

    (new,) = updates.KERNELS["decay_update"](cupy.asarray(p), cupy.asarray(rate), amount=0.5)

    assert new.dtype == BFLOAT16
    assert cupy.asnumpy(new).astype(float).tolist() == [0.75, -1.5]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_average_starts_at_the_first_step_and_moves_after_it(shape, step, dtype) -> None:
    average, p = (RNG.normal(size=shape).astype(dtype) for _ in range(2))

    (new,) = updates.KERNELS["average_update"](
        cupy.asarray(average), cupy.asarray(p), cupy.asarray(np.array(step)), share=0.25
    )

    assert new.dtype == dtype
    wanted = exact(p) if step == 1 else 0.75 * exact(average) + 0.25 * exact(p)
    rtol = 8 * PRECISION[dtype.name]
    np.testing.assert_allclose(cupy.asnumpy(new).astype(float), wanted, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", SHAPES)
def test_both_moving_averages_move_and_what_came_in_stays(shape, dtype) -> None:
    arrays = [RNG.normal(size=shape).astype(dtype) for _ in range(4)]
    given = [cupy.asarray(array) for array in arrays]

    new = primitives.moments_update.kernel(cupy.ndarray)(*given, share=0.25)

    rtol = 8 * PRECISION[dtype.name]
    for k, array in enumerate(new):
        assert array.dtype == dtype
        wanted = 0.75 * exact(arrays[k]) + 0.25 * exact(arrays[k + 2])
        np.testing.assert_allclose(cupy.asnumpy(array).astype(float), wanted, rtol=rtol, atol=rtol)
    for before, after in zip(arrays, given, strict=True):
        np.testing.assert_array_equal(cupy.asnumpy(after), before)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", [(), (3,)])
def test_a_tally_counts_and_what_came_in_stays(shape, dtype) -> None:
    arrays = [np.full(shape, value).astype(dtype) for value in (2.5, 3.0, -0.75)]
    given = [cupy.asarray(array) for array in arrays]

    new = tallies.tally_update(*given, weight=8.0)

    assert [(array.shape, array.dtype) for array in new] == [(shape, dtype)] * 2
    assert [float(array.ravel()[0]) for array in new] == [-3.5, 11.0]
    for before, after in zip(arrays, given, strict=True):
        np.testing.assert_array_equal(cupy.asnumpy(after), before)


@pytest.mark.parametrize("name", ["adamax_update", "lion_update", "ftrl_update"])
def test_what_is_not_a_number_stays_so(name) -> None:
    slots, params = next((slots, params) for known, slots, params in RULES if known == name)
    arrays = arguments(name, slots, (3,), np.dtype("f4"))
    arrays[1][1] = np.nan

    new = updates.KERNELS[name](*map(cupy.asarray, arrays), **params)

    for array in new:
        assert np.isnan(cupy.asnumpy(array)).tolist() == [False, True, False]


@pytest.mark.parametrize("step", [1, 1000])
def test_the_numbers_of_nadam_have_double_precision(step) -> None:
    arrays, betas = [np.array(0.3), np.array(step)], {"beta_1": 0.9, "beta_2": 0.999}

    new = updates.nadam_product_update(*map(cupy.asarray, arrays), **betas)

    expected = primitives.nadam_product_update.forward(np, *arrays, **betas)
    assert [x.dtype for x in new] == [np.float64] * 4
    np.testing.assert_allclose([float(x) for x in new], expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize(("size", "count"), [(6, 4), (50, 3000), (4, 0), (30_000, 10_000)])
def test_rows_step_alone_and_may_repeat(size, count, dtype) -> None:
    p, rows = (RNG.normal(size=(n, 8)).astype(dtype) for n in (size, count))
    index = RNG.integers(0, size, count)
    rate = cupy.asarray(np.array(0.01, "float32"))

    (new,) = row_updates.sgd_rows_update(
        cupy.asarray(p), cupy.asarray(rows), cupy.asarray(index), rate
    )

    expected = p.astype(float)
    np.subtract.at(expected, index, np.float32(0.01) * rows.astype(float))
    rtol = 8 * PRECISION[dtype.name]
    np.testing.assert_allclose(cupy.asnumpy(new).astype(float), expected, rtol=rtol, atol=rtol)


def test_adagrad_takes_zero_rows_of_a_repeated_index() -> None:
    p, total = np.ones((4, 3), "f4"), np.ones((4, 3), "f4")
    rows, index = np.zeros((5, 3), "f4"), np.array([0, 2, 0, 0, 0])
    rows[:2] = 2.0
    arrays = (p, rows, index, np.array(0.1, "f4"), total)

    new = row_updates.adagrad_rows_update(*map(cupy.asarray, arrays), epsilon=1e-7)

    expected = primitives.adagrad_rows_update.forward(np, *map(exact, arrays), epsilon=1e-7)
    for actual, wanted in zip(new, expected, strict=True):
        np.testing.assert_allclose(cupy.asnumpy(actual), wanted, rtol=1e-5)


def test_a_step_can_be_captured_so_nothing_is_read_on_the_host() -> None:
    arrays = arguments("adam_update", 2, (1000,), np.dtype("f4"))
    params = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}
    here = [cupy.asarray(array) for array in arrays]
    expected = updates.KERNELS["adam_update"](*here, **params)  # compiles
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.get_current_stream().synchronize()

    with stream:
        stream.begin_capture()
        new = updates.KERNELS["adam_update"](*here, **params)
        graph = stream.end_capture()
        graph.launch()
    stream.synchronize()

    for actual, wanted in zip(new, expected, strict=True):
        np.testing.assert_array_equal(cupy.asnumpy(actual), cupy.asnumpy(wanted))


@pytest.mark.parametrize("make", [tf.optimizers.SGD, tf.optimizers.Adagrad])
def test_a_recorded_step_updates_rows_of_a_table_in_place(make) -> None:
    values, ids = RNG.normal(size=(3000, 8)), [RNG.integers(0, 3000, 500) for _ in range(5)]
    found = []
    for recorded in (False, True):
        table, optimizer = tf.Variable(cupy.asarray(values)), make(0.1)

        def step(ids, table=table, optimizer=optimizer):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.square(tf.gather(table, ids)))
            optimizer.apply_gradients([(tape.gradient(loss, table), table)])
            return loss

        run = tf.function(step) if recorded else step
        addresses = set()
        for k, one in enumerate(ids):
            run(tf.constant(cupy.asarray(one)))
            if k > 1:
                addresses.add(table.array.data.ptr)
        found.append(table.numpy())
        if recorded:
            assert len(addresses) == 1
            assert run.program(tf.constant(cupy.asarray(ids[0]))).memory().new_values < 100

    np.testing.assert_allclose(found[1], found[0], rtol=1e-12, atol=1e-12)
