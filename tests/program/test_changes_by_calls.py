"""Branches on tensors that change Python objects by calls: only the taken one changes them."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

import tapegrad as tf


class Box:
    def __init__(self, value):
        self.value = value
        self.inner = None

    def double(self):
        self.value = self.value * 2.0


def triple(box):
    box.value = box.value * 3.0


def replace(entries, key, value):
    entries[key] = value


def an_argument(x):
    box = Box(x)
    if x[0] > 0:
        triple(box)
    return box.value


def a_keyword_argument(x):
    box = Box(x)
    if x[0] > 0:
        setattr(box, "value", x * 5.0)  # noqa: B010  # a call that changes its argument
    else:
        triple(box=box)
    return box.value


def a_list_and_a_dictionary(x):
    entries, names = [x, x * 2.0], {"a": x}
    if x[0] > 0:
        replace(entries, 0, x * 5.0)
    else:
        replace(names, "a", x * 7.0)
    return entries[0] + names["a"]


def an_object_of_a_local_function(x):
    box = Box(x)

    def change():
        box.double()

    if x[0] > 0:
        change()
    return box.value


def a_nonlocal_variable(x):
    kept = x * 1.0

    def change():
        nonlocal kept
        kept = kept * 2.0

    if x[0] > 0:
        change()
    else:
        change()
        change()
    return kept


def an_object_in_a_list(x):
    box = Box(x)
    boxes = [box]
    if x[0] > 0:
        boxes[0].double()
    return box.value


def an_object_in_an_object(x):
    box = Box(x)
    box.inner = Box(x * 2.0)
    if x[0] > 0:
        triple(box.inner)
    else:
        box.inner.value = x
    return box.inner.value


def an_object_three_levels_deep(x):
    box = Box(x)
    box.inner = Box(x * 2.0)
    box.inner.inner = box
    boxes = [box]

    def change(entries):
        triple(entries[0].inner)

    if x[0] > 0:
        change(boxes)
    return box.inner.value


def a_queue(x):
    last = deque([x, x * 2.0], maxlen=2)
    if x[0] > 0:
        last.append(x * 3.0)
    return last[0] - last[1]


def in_rounds(x):
    box = Box(x)
    for i in range(3):
        if x[i] > 0:
            triple(box)
    return box.value


FUNCTIONS = [
    an_argument, a_keyword_argument, a_list_and_a_dictionary, an_object_of_a_local_function,
    a_nonlocal_variable, an_object_in_a_list, an_object_in_an_object,
    an_object_three_levels_deep, a_queue, in_rounds,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_only_the_taken_branch_changes_objects(function):
    recorded = tf.function(function)
    points = [np.array(p) for p in ([0.5, 1.0, -2.0], [-0.5, 1.0, 2.0], [-1.0, -2.0, -3.0])]
    for point in points + points:
        np.testing.assert_allclose(recorded(tf.constant(point)).numpy(), function(point))


def test_variables_that_only_one_branch_binds_and_a_function_reads():
    @tf.function
    def f(x):
        def read():
            return shift * 2.0

        if x > 0:
            shift = x * 1.0
            y = read()
        else:
            y = x * 3.0
        return y

    assert [float(f(tf.constant(v))) for v in (2.0, -2.0, 2.0)] == [4.0, -6.0, 4.0]
