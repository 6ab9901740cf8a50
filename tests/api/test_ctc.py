"""CTC: the loss against a sum over all alignments, decoders against all label sequences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ShapeError

STEPS, BATCH, CLASSES = 4, 2, 3
LOGITS = np.random.default_rng(5).normal(size=(STEPS, BATCH, CLASSES)) * 2


def labels_of(path: tuple[int, ...], blank: int) -> tuple[int, ...]:
    return tuple(k for k, _ in itertools.groupby(path) if k != blank)


def probabilities(row: int, steps: int, blank: int) -> dict[tuple[int, ...], float]:
    """Return the probability of every label sequence, by listing all alignments."""
    scores = LOGITS[:steps, row]
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    found: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(CLASSES), repeat=steps):
        labels = labels_of(path, blank)
        found[labels] = found.get(labels, 0.0) + float(np.prod(chances[range(steps), path]))
    return found


@pytest.mark.parametrize("blank", [0, 2])
def test_loss_sums_over_all_alignments(blank: int) -> None:
    label = 1
    rows, lengths, steps = [[label, label], [label, 0]], [2, 1], [4, 3]

    loss = tf.nn.ctc_loss(rows, LOGITS, lengths, steps, blank_index=blank)

    wanted = [
        -np.log(probabilities(0, 4, blank)[label, label]),
        -np.log(probabilities(1, 3, blank)[label,]),
    ]
    np.testing.assert_allclose(loss, wanted, rtol=1e-10)


def test_a_label_with_the_number_of_the_blank_counts_as_a_label() -> None:
    # Of the 81 paths over three equal classes, 7 merge to three different labels. Keras' losses
    # pass labels with such numbers, PyTorch and JAX count them like this.
    loss = tf.nn.ctc_loss([[1, 2, 0]], tf.zeros([4, 1, 3]), [3], [4])

    np.testing.assert_allclose(loss, [np.log(81 / 7)], rtol=1e-6)


def test_sparse_labels_and_the_first_version_agree_with_dense_labels() -> None:
    sparse = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [0, 1, 1], [2, 2])

    dense = tf.nn.ctc_loss([[0, 1], [1, 0]], LOGITS, [2, 1], [4, 3], blank_index=-1)

    new = tf.nn.ctc_loss(sparse, LOGITS, None, [4, 3], blank_index=-1)
    old = tf.compat.v1.nn.ctc_loss(sparse, LOGITS, [4, 3])
    np.testing.assert_array_equal(new, dense)
    np.testing.assert_array_equal(old, dense)


def test_gradient_of_the_loss_by_differences() -> None:
    def loss(x: Any) -> Any:
        return tf.reduce_sum(tf.nn.ctc_loss([[1, 2], [2, 0]], x, [2, 1], [4, 3]))

    x = tf.Variable(LOGITS)
    with tf.GradientTape() as tape:
        value = loss(x)
    gradient = tape.gradient(value, x).numpy()

    direction = np.random.default_rng(1).normal(size=LOGITS.shape)
    change = (loss(LOGITS + 1e-6 * direction) - loss(LOGITS - 1e-6 * direction)) / 2e-6
    assert float(change) == pytest.approx((gradient * direction).sum(), rel=1e-6)
    assert not gradient[3, 1].any()  # beyond the length of the row


def test_labels_without_an_alignment_have_an_infinite_loss_and_no_gradient() -> None:
    x = tf.Variable(LOGITS[:2, :1])
    with tf.GradientTape() as tape:
        loss = tf.nn.ctc_loss([[1, 1]], x, [2], [2])

    assert np.isinf(float(loss[0]))
    assert not tape.gradient(loss, x).numpy().any()


def test_beam_search_finds_the_most_probable_labels() -> None:
    found, scores = tf.nn.ctc_beam_search_decoder(LOGITS, [4, 3], beam_width=60, top_paths=2)

    for row, steps in enumerate((4, 3)):
        ranked = sorted(probabilities(row, steps, CLASSES - 1).items(), key=lambda one: -one[1])
        for place in range(2):
            is_row = found[place].places()[:, 0] == row
            assert tuple(found[place].values.numpy()[is_row].tolist()) == ranked[place][0]
            assert float(scores[row, place]) == pytest.approx(np.log(ranked[place][1]))


def test_greedy_decoder_merges_and_drops_blanks() -> None:
    scores = np.eye(4)[[0, 0, 3, 0, 1]][:, None]

    merged, value = tf.nn.ctc_greedy_decoder(scores, [5])
    apart, _ = tf.nn.ctc_greedy_decoder(scores, [4], merge_repeated=False)
    other, _ = tf.nn.ctc_greedy_decoder(scores, [5], blank_index=0)

    assert merged[0].values.tolist() == [0, 0, 1]
    assert apart[0].values.tolist() == [0, 0, 0]
    assert other[0].values.tolist() == [3, 1]
    assert value.tolist() == [[-5.0]]


def test_functions_of_keras_backend_take_probabilities() -> None:
    chances = tf.nn.softmax(LOGITS.transpose(1, 0, 2))

    cost = tf.keras.backend.ctc_batch_cost([[0, 1], [1, 0]], chances, [[4], [3]], [[2], [1]])
    labels, _ = tf.keras.backend.ctc_decode(chances, [4, 3])
    searched, _ = tf.keras.backend.ctc_decode(chances, [4, 3], greedy=False, top_paths=2)

    wanted = tf.nn.ctc_loss([[0, 1], [1, 0]], LOGITS, [2, 1], [4, 3], blank_index=-1)
    np.testing.assert_allclose(cost[:, 0], wanted, rtol=1e-4)
    best, _ = tf.nn.ctc_greedy_decoder(LOGITS, [4, 3])
    np.testing.assert_array_equal(labels[0][labels[0] >= 0].numpy().ravel(), best[0].values.numpy())
    assert labels[0].shape == (2, 4)
    assert len(searched) == 2


def test_a_label_beyond_the_classes_ends_its_row() -> None:
    """As in TensorFlow's first version; programs pad labels with large numbers."""
    chances = tf.nn.softmax(LOGITS.transpose(1, 0, 2))
    wanted = tf.nn.ctc_loss([[0, 1], [1, 0]], LOGITS, [2, 1], [4, 3], blank_index=-1)

    cost = tf.keras.backend.ctc_batch_cost(
        [[0, 1, 99], [1, 99, 99]], chances, [[4], [3]], [[3], [3]]
    )
    padded = tf.SparseTensor([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 2], [2, 2])

    np.testing.assert_allclose(cost[:, 0], wanted, rtol=1e-4)
    np.testing.assert_allclose(tf.compat.v1.nn.ctc_loss(padded, LOGITS, [4, 3]), wanted, rtol=1e-5)


def test_keras_ops_agree_with_nn() -> None:
    loss = tf.keras.ops.ctc_loss([[1, 2], [2, 0]], LOGITS.transpose(1, 0, 2), [2, 1], [4, 3])
    greedy, _ = tf.keras.ops.ctc_decode(LOGITS.transpose(1, 0, 2), [4, 3], mask_index=None)
    searched, _ = tf.keras.ops.ctc_decode(
        LOGITS.transpose(1, 0, 2), [4, 3], strategy="beam_search", mask_index=2
    )

    np.testing.assert_allclose(loss, tf.nn.ctc_loss([[1, 2], [2, 0]], LOGITS, [2, 1], [4, 3]))
    for ours, theirs in (
        (greedy, tf.nn.ctc_greedy_decoder(LOGITS, [4, 3])[0][0]),
        (searched, tf.nn.ctc_beam_search_decoder(LOGITS, [4, 3])[0][0]),
    ):
        assert ours[ours >= 0].numpy().ravel().tolist() == theirs.values.tolist()


def test_edit_distance_counts_changes() -> None:
    ours = tf.SparseTensor([[0, 0, 0], [1, 0, 0]], ["a", "b"], (2, 1, 1))
    truth = tf.SparseTensor(
        [[0, 1, 0], [1, 0, 0], [1, 0, 1], [1, 1, 0]], ["a", "b", "c", "a"], (2, 2, 2)
    )

    # The figures of TensorFlow's documentation.
    assert tf.edit_distance(ours, truth).tolist() == [[np.inf, 1.0], [0.5, 1.0]]


def test_wrong_arguments_are_explained() -> None:
    with pytest.raises(ShapeError, match="logits_time_major"):
        tf.nn.ctc_loss([[1]], LOGITS, [1], [4])
    with pytest.raises(ArgumentError, match="blank_index if the labels are sparse"):
        tf.nn.ctc_loss(tf.SparseTensor([[0, 0]], [1], [2, 1]), LOGITS, None, [4, 4])
    with pytest.raises(ArgumentError, match="asks for 9"):
        tf.nn.ctc_greedy_decoder(LOGITS, [9, 1])
    with pytest.raises(ArgumentError, match="takes dense ones"):
        tf.compat.v1.nn.ctc_loss([[1]], LOGITS, [4, 4])
