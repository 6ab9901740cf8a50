"""tf.sets and tf.queue, against Python's sets and the order of the elements."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tapegrad as tf

A = np.array([[1, 5, 9], [3, 4, 0]])
B = np.array([[5, 6, 9, 11], [3, 1, 1, 1]])


@pytest.mark.parametrize(
    ("function", "combine"),
    [
        (tf.sets.union, set.union),
        (tf.sets.intersection, set.intersection),
        (tf.sets.difference, set.difference),
        (lambda a, b: tf.sets.difference(a, b, aminusb=False), lambda a, b: b - a),
    ],
)
def test_operations_on_sets_are_those_of_python(function, combine) -> None:
    wanted = [sorted(combine({*a}, {*b})) for a, b in zip(A.tolist(), B.tolist())]

    found = function(tf.constant(A), tf.constant(B))

    assert found.values.tolist() == [value for row in wanted for value in row]
    assert [place[0] for place in found.indices.tolist()] == [
        k for k, row in enumerate(wanted) for _ in row
    ]
    assert tf.sets.size(found).tolist() == [len(row) for row in wanted]


def test_sets_of_text() -> None:
    found = tf.sets.union(tf.constant([["a", "c"]]), tf.constant([["b", "a"]]))

    assert found.values.numpy().tolist() == [b"a", b"b", b"c"]


def test_sets_need_rows_that_agree() -> None:
    with pytest.raises(ValueError, match="all axes but the last"):
        tf.sets.union([[1]], [[1], [2]])


def test_a_queue_gives_the_elements_in_order() -> None:
    queue = tf.queue.FIFOQueue(3, [tf.int32, tf.string], shapes=[(), ()])
    for number, text in ((10, "a"), (11, "b"), (12, "c")):
        queue.enqueue([number, text])

    first = queue.dequeue()
    numbers, texts = queue.dequeue_many(2)

    assert (int(first[0]), first[1].numpy()) == (10, b"a")
    assert (numbers.tolist(), texts.numpy().tolist()) == ([11, 12], [b"b", b"c"])
    assert int(queue.size()) == 0


def test_a_full_queue_waits_for_another_thread() -> None:
    queue = tf.queue.FIFOQueue(1, tf.int32, shapes=[()])

    def fill() -> None:
        for number in range(5):
            queue.enqueue(number)

    thread = threading.Thread(target=fill)
    thread.start()
    found = [int(queue.dequeue()) for _ in range(5)]
    thread.join()

    assert found == [0, 1, 2, 3, 4]


def test_other_orders_and_padding() -> None:
    first = tf.queue.PriorityQueue(5, [tf.string], shapes=[()])
    first.enqueue([3, "c"])
    first.enqueue([1, "a"])
    padded = tf.queue.PaddingFIFOQueue(5, [tf.int32], shapes=[(None,)])
    padded.enqueue([[1, 2]])
    padded.enqueue([[3]])
    mixed = tf.queue.RandomShuffleQueue(5, 0, [tf.int32], shapes=[()], seed=1)
    mixed.enqueue_many([[1, 2, 3]])

    assert first.dequeue()[1].numpy() == b"a"
    assert padded.dequeue_many(2).tolist() == [[1, 2], [3, 0]]
    assert sorted(mixed.dequeue_many(3).tolist()) == [1, 2, 3]


def test_a_closed_queue_says_so() -> None:
    queue = tf.queue.FIFOQueue(3, [tf.int32], shapes=[()], names=["x"])
    queue.enqueue({"x": 1})
    queue.close()

    assert queue.dequeue()["x"].numpy() == 1
    with pytest.raises(tf.errors.OutOfRangeError, match="is closed and has 0 elements"):
        queue.dequeue()
    with pytest.raises(tf.errors.CancelledError, match="is closed"):
        queue.enqueue({"x": 2})


def test_elements_of_another_form_are_refused() -> None:
    queue = tf.queue.FIFOQueue(3, [tf.int32, tf.int32], shapes=[(), (2,)])

    with pytest.raises(ValueError, match=r"has 2 tensors\. Got 1"):
        queue.enqueue([1])
    with pytest.raises(ValueError, match=r"shape \(2,\). Got \(3,\)"):
        queue.enqueue([1, [1, 2, 3]])
    with pytest.raises(ValueError, match="holds at most 3 elements"):
        queue.dequeue_many(4)
