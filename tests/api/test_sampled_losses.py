"""Losses over many classes with drawn ones, and the samplers of classes."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest

import tapegrad as tf

rng = np.random.default_rng(3)
WEIGHTS, BIASES = rng.normal(size=(7, 3)), rng.normal(size=7)
INPUTS = rng.normal(size=(4, 3))
LABELS = np.array([[1, 3], [0, 6], [5, 5], [2, 4]])
DRAWN = np.array([3, 0, 2])
EXPECTED = rng.uniform(0.1, 1.0, size=(4, 2)), rng.uniform(0.1, 1.0, size=3)
VALUES = DRAWN, *EXPECTED


def logits_by_numpy(leaves_out_hits: bool) -> np.ndarray:
    scores = INPUTS @ WEIGHTS.T + BIASES
    trues = np.take_along_axis(scores, LABELS, 1) - np.log(EXPECTED[0])
    others = scores[:, DRAWN] - np.log(EXPECTED[1])
    if leaves_out_hits:
        others[(LABELS[:, :, None] == DRAWN).any(1)] = -1e300
    return np.hstack([trues, others])


def nce(w: Any, b: Any, x: Any, **options: Any) -> Any:
    return tf.nn.nce_loss(w, b, LABELS, x, 3, 7, 2, sampled_values=VALUES, **options)


def sampled_softmax(w: Any, b: Any, x: Any, **options: Any) -> Any:
    return tf.nn.sampled_softmax_loss(w, b, LABELS, x, 3, 7, 2, sampled_values=VALUES, **options)


@pytest.mark.parametrize("leaves_out", [False, True])
def test_losses_are_those_of_the_true_and_the_drawn_classes(leaves_out: bool) -> None:
    logits = logits_by_numpy(leaves_out)
    targets = np.array([0.5, 0.5, 0, 0, 0])
    options = {"remove_accidental_hits": leaves_out}

    binary = np.logaddexp(0, logits) - logits * targets
    np.testing.assert_allclose(nce(WEIGHTS, BIASES, INPUTS, **options), binary.sum(1), rtol=1e-10)
    logs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    wanted = -(logs[:, :2] * 0.5).sum(1)
    np.testing.assert_allclose(
        sampled_softmax(WEIGHTS, BIASES, INPUTS, **options), wanted, rtol=1e-10
    )


def numeric_gradient(function: Any, x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    found = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        change = np.zeros_like(x)
        change[index] = step
        found[index] = (function(x + change) - function(x - change)) / (2 * step)
    return found


@pytest.mark.parametrize("loss", [nce, sampled_softmax])
def test_gradients_of_tables_are_rows(loss: Any) -> None:
    w, b, x = (tf.Variable(value) for value in (WEIGHTS, BIASES, INPUTS))

    with tf.GradientTape() as tape:
        total = tf.reduce_sum(loss(w, b, x))
    gradients = tape.gradient(total, [w, b, x])

    assert isinstance(gradients[0], tf.IndexedSlices)
    for place, gradient in enumerate(gradients):

        def at(value: Any, place: int = place) -> Any:
            values = [WEIGHTS, BIASES, INPUTS]
            values[place] = value
            return float(tf.reduce_sum(loss(*values)))

        wanted = numeric_gradient(at, [WEIGHTS, BIASES, INPUTS][place])
        found = tf.convert_to_tensor(gradient)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)


def test_weights_may_be_in_parts() -> None:
    whole = nce(WEIGHTS, BIASES, INPUTS)
    np.testing.assert_array_equal(nce([WEIGHTS[:3], WEIGHTS[3:]], BIASES, INPUTS), whole)


def test_training_with_drawn_classes_learns_the_true_ones() -> None:
    labels = np.array([[4], [2], [9]])
    w, b = tf.Variable(tf.zeros([10, 3])), tf.Variable(tf.zeros([10]))
    x = tf.constant(3 * np.eye(3, dtype="float32"))

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.nce_loss(w, b, labels, x, 5, 10))
        for variable, gradient in zip((w, b), tape.gradient(loss, [w, b]), strict=True):
            variable.assign_sub(0.3 * tf.convert_to_tensor(gradient))

    for _ in range(60):
        step()

    assert tf.argmax(tf.matmul(x, w, transpose_b=True) + b, 1).numpy().tolist() == [4, 2, 9]


COUNTS = np.array([5.0, 0.0, 2.0, 1.0])
SAMPLERS: dict[str, tuple[Any, np.ndarray]] = {
    "log_uniform": (
        lambda true, n, unique: tf.random.log_uniform_candidate_sampler(true, 1, n, unique, 4),
        np.log1p(1 / np.arange(1.0, 5.0)) / np.log(5),
    ),
    "uniform": (
        lambda true, n, unique: tf.random.uniform_candidate_sampler(true, 1, n, unique, 4),
        np.full(4, 0.25),
    ),
    "fixed_unigram": (
        lambda true, n, unique: tf.random.fixed_unigram_candidate_sampler(
            true, 1, n, unique, 4, unigrams=COUNTS, distortion=0.5
        ),
        np.sqrt(COUNTS) / np.sqrt(COUNTS).sum(),
    ),
}


def sequences(chances: np.ndarray, count: int, unique: bool) -> dict[tuple[int, ...], float]:
    """Return the probability of each sequence of drawn classes."""
    if not unique:
        pairs = itertools.product(range(4), repeat=count)
        return {pair: float(np.prod(chances[list(pair)])) for pair in pairs}
    found = {}
    for pair in itertools.permutations(range(4), count):
        left, chance = 1.0, 1.0
        for one in pair:
            chance *= chances[one] / left
            left -= chances[one]
        found[pair] = chance
    return found


def mean_expectation(chances: np.ndarray, unique: bool) -> np.ndarray:
    """Return the mean of the expected counts of two drawn classes, which depend on the tries."""
    total = 2 * chances * ((chances * (1 - chances)).sum() if unique else 1)
    for tries in range(3, 200) if unique else ():
        total = total + (chances ** (tries - 1) * (1 - chances)).sum() * (
            1 - (1 - chances) ** tries
        )
    return np.asarray(total)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("name", SAMPLERS)
def test_classes_are_drawn_by_their_probabilities(name: str, unique: bool, recorded: bool) -> None:
    sampler, chances = SAMPLERS[name]
    tf.random.set_seed(5)

    def draw() -> Any:
        return sampler([[0], [2]], 2, unique)

    run = tf.function(draw) if recorded else draw
    rounds = 500
    drawn = [run() for _ in range(rounds)]

    counts = Counter(tuple(one[0].numpy().tolist()) for one in drawn)
    for pair, chance in sequences(chances, 2, unique).items():
        deviation = np.sqrt(rounds * chance * (1 - chance))
        assert abs(counts[pair] - rounds * chance) <= 4 * deviation + 1e-9, pair
    expected = np.array([one[1].numpy()[:, 0] for one in drawn])
    errors = expected.mean(0) - mean_expectation(chances, unique)[[0, 2]]
    assert (abs(errors) <= 4 * expected.std(0) / np.sqrt(rounds) + 1e-5).all()
    assert drawn[0][0].dtype == "int64"
    assert drawn[0][2].shape == (2,)


def test_counts_of_a_file_and_reserved_classes(tmp_path: Any) -> None:
    path = tmp_path / "words.csv"
    path.write_text("the,1\nrare,0\nof,3\n")

    drawn, _, often = tf.nn.fixed_unigram_candidate_sampler(
        [[1]], 1, 50, False, 4, vocab_file=str(path), num_reserved_ids=1
    )

    assert set(drawn.numpy().tolist()) == {1, 3}
    np.testing.assert_allclose(often, np.where(drawn == 1, 12.5, 37.5))


def test_all_classes_are_drawn_once_and_hits_are_found() -> None:
    drawn, true, others = tf.nn.all_candidate_sampler(LABELS, 2, 7, True)
    assert drawn.numpy().tolist() == [*range(7)]
    assert true.shape == (4, 2)
    np.testing.assert_array_equal(others, np.ones(7))
    rows, places, weights = tf.nn.compute_accidental_hits(LABELS, DRAWN, 2)
    assert [*zip(rows.tolist(), places.tolist(), strict=True)] == [(0, 0), (1, 1), (3, 2)]
    assert (weights < -1e38).numpy().all()


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"shape \(batch, 3\)"):
        tf.nn.nce_loss(WEIGHTS, BIASES, LABELS, INPUTS, 3, 7, 3)
    with pytest.raises(ValueError, match="unigrams or a vocab_file"):
        tf.random.fixed_unigram_candidate_sampler([[1]], 1, 2, True, 4)
    with pytest.raises(ValueError, match="2 distinct classes cannot be drawn"):
        tf.random.fixed_unigram_candidate_sampler([[1]], 1, 2, True, 2, unigrams=[1, 0])


def test_a_recorded_function_reads_the_clock_on_each_call() -> None:
    read = tf.function(tf.timestamp)
    first, second = read(), read()
    assert first.dtype == "float64"
    assert first <= second <= tf.timestamp()
