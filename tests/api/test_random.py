"""Random numbers: streams, seeds, moments, gradients of parameters."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad
from tapegrad.autodiff.batching import vmap
from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.random import functions as random, stateless
from tapegrad.ops.random.generator import Generator, get_global_generator, set_seed


def test_equal_seeds_give_equal_streams():
    first, second = Generator.from_seed(5), Generator.from_seed(5)

    pairs = [(g.normal([3]).numpy(), g.uniform([3]).numpy()) for g in (first, second)]

    np.testing.assert_array_equal(*[pair[0] for pair in pairs])
    np.testing.assert_array_equal(*[pair[1] for pair in pairs])


def test_each_draw_advances_the_offset_by_one_whatever_its_size():
    generator = Generator.from_seed(5)

    generator.normal([1000])
    generator.uniform([])

    assert generator.state.numpy().tolist() == [5, 2]


def test_a_generator_goes_on_from_a_saved_state():
    generator = Generator.from_seed(-1)
    generator.normal([2])
    twin = Generator.from_state(generator.state)

    expected = generator.normal([2]).numpy()

    assert twin.normal([2]).numpy().tolist() == expected.tolist()


def test_skip_and_reset_move_along_the_stream():
    generator = Generator.from_seed(3)
    first, second = generator.normal([]).numpy(), generator.normal([]).numpy()

    generator.reset_from_seed(3)
    generator.skip(1)

    assert generator.normal([]).numpy() == second
    assert first != second


def test_split_gives_streams_of_their_own():
    parts = Generator.from_seed(3).split(3)

    values = {float(part.normal([])) for part in parts}

    assert len(values) == 3


def test_a_state_must_be_a_pair():
    with pytest.raises(
        ArgumentError, match=r"A generator state must be a pair \(seed, offset\). Got \(1, 2, 3\)"
    ):
        Generator.from_state((1, 2, 3))


def test_set_seed_restarts_the_global_stream_and_those_of_operation_seeds():
    set_seed(11)
    first = [random.normal([2]).numpy(), random.normal([2], seed=4).numpy()]
    later = random.normal([2], seed=4).numpy()

    set_seed(11)
    again = [random.normal([2]).numpy(), random.normal([2], seed=4).numpy()]

    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first[1], later)


def test_an_operation_seed_has_a_stream_apart_from_the_global_one():
    set_seed(11)
    expected = random.normal([2]).numpy()

    set_seed(11)
    random.normal([2], seed=4)

    assert random.normal([2]).numpy().tolist() == expected.tolist()
    assert get_global_generator().state.numpy().tolist() == [11, 1]


MOMENTS = [
    ("normal", lambda g: g.normal([40000], 1.0, 2.0), 1.0, 4.0),
    ("normal-float64", lambda g: g.normal([40000], dtype="float64"), 0.0, 1.0),
    ("truncated", lambda g: g.truncated_normal([40000]), 0.0, 0.7741),
    ("uniform", lambda g: g.uniform([40000], -1.0, 3.0), 1.0, 16 / 12),
    ("integers", lambda g: g.integers([40000], 0, 7), 3.0, 4.0),
]


@pytest.mark.parametrize(
    ("draw", "mean", "variance"), [m[1:] for m in MOMENTS], ids=[m[0] for m in MOMENTS]
)
def test_draws_have_the_moments_of_their_distribution(draw, mean, variance):
    y = draw(Generator.from_seed(0)).numpy().astype(float)

    assert abs(y.mean() - mean) < 5 * np.sqrt(variance / y.size)
    assert abs(y.var() / variance - 1) < 0.05


def test_gamma_poisson_and_categorical_have_their_moments():
    set_seed(0)

    gamma = random.gamma([20000], [0.5, 3.0], [1.0, 2.0]).numpy()
    poisson = random.poisson([20000], [2.0, 40.0]).numpy()
    classes = random.categorical(np.log([[0.2, 0.8]]), 20000).numpy()

    np.testing.assert_allclose(gamma.mean(0), [0.5, 1.5], rtol=0.05)
    np.testing.assert_allclose(gamma.var(0), [0.5, 0.75], rtol=0.1)
    np.testing.assert_allclose(poisson.mean(0), [2.0, 40.0], rtol=0.05)
    np.testing.assert_allclose(poisson.var(0), [2.0, 40.0], rtol=0.1)
    assert abs(classes.mean() - 0.8) < 0.02


def test_the_gradient_of_gamma_is_that_of_its_mean_on_average():
    set_seed(0)
    alpha, beta = tapegrad.constant(0.7), tapegrad.constant(2.0)
    with GradientTape() as tape:
        tape.watch([alpha, beta])
        y = random.gamma([20000], alpha, beta)

    for_alpha, for_beta = (g.numpy() / 20000 for g in tape.gradient(y, [alpha, beta]))

    np.testing.assert_allclose(for_alpha, 1 / 2, rtol=0.05)
    np.testing.assert_allclose(for_beta, -0.7 / 4, rtol=0.05)


def test_the_default_dtype_is_float32():
    assert random.normal([1]).dtype == "float32"
    assert random.uniform([1]).dtype == "float32"


@pytest.mark.parametrize("draw", [random.normal, random.truncated_normal])
def test_an_integer_dtype_is_refused_where_it_makes_no_sense(draw):
    with pytest.raises(ArgumentTypeError, match=r"draws floating-point numbers. Got dtype int32"):
        draw([2], dtype="int32")


def test_uniform_integers_need_an_upper_end():
    with pytest.raises(ArgumentError, match="needs maxval for the integer dtype int32"):
        random.uniform([2], dtype="int32")


def test_a_stateless_seed_is_a_pair():
    with pytest.raises(ShapeError, match=r"pair of integers. Got shape \(3,\)"):
        stateless.stateless_normal([2], seed=[1, 2, 3])


def test_folding_in_different_numbers_gives_different_seeds():
    seeds = {tuple(stateless.fold_in([1, 2], step).numpy()) for step in range(5)}

    assert len(seeds) == 5


def test_each_example_of_a_vmap_draws_numbers_of_its_own():
    x = tapegrad.constant(np.zeros((3, 2), np.float32))

    def draw(_: object) -> object:
        return random.normal([])

    set_seed(9)
    mapped = vmap(draw)(x).numpy()
    nested = vmap(vmap(draw))(x).numpy()
    set_seed(9)
    together = random.normal([3]).numpy()

    assert mapped.tolist() == together.tolist()
    assert len(set(nested.ravel().tolist())) == 6


def test_each_example_of_a_vmap_gets_its_own_order_and_parameters():
    rates = tapegrad.constant(np.full((4, 1), 1000.0, np.float32))
    set_seed(9)

    orders = vmap(lambda _: random.shuffle(np.arange(20)))(rates).numpy()
    counts = vmap(lambda rate: random.poisson([], rate))(rates).numpy()
    shared = vmap(lambda _: random.poisson([], 1000.0))(rates).numpy()

    assert len({tuple(order) for order in orders}) == 4
    assert len(set(counts.ravel().tolist())) > 1
    assert len(set(shared.ravel().tolist())) > 1
