"""Functions of a pipeline keep the values that variables around them had when the step was made."""

from __future__ import annotations

from tapegrad.data import Dataset

number = 1


def _values(dataset):
    return [int(one) for one in dataset]


def test_each_dataset_of_a_loop_keeps_its_loop_variable():
    made = [Dataset.range(2).map(lambda x: x + 10 * k) for k in range(3)]  # noqa: B023

    assert [_values(one) for one in made] == [[0, 1], [10, 11], [20, 21]]


def test_inner_functions_keep_it_too():
    made = []
    for k in range(2):

        def function(x):
            return sum((lambda: k)() for _ in range(2)) + x  # noqa: B023

        made.append(Dataset.range(1).map(function))

    assert [_values(one) for one in made] == [[0], [2]]


def test_global_variables_are_kept():
    global number
    number = 1
    data = Dataset.range(1).map(lambda x: x + number)
    number = 5

    assert _values(data) == [1]


def test_variables_that_the_function_assigns_to_are_shared():
    calls = 0

    def count(x):
        nonlocal calls
        calls += 1
        return x + calls

    assert _values(Dataset.range(3).map(count)) == [1, 3, 5]
    assert calls == 3


def test_global_variables_that_the_function_assigns_to_are_shared():
    def set_number(x):
        global number
        number = int(x)
        return x

    _values(Dataset.range(7, 8).map(set_number))
    assert number == 7


def test_names_that_are_defined_later_are_found():
    data = Dataset.range(1).map(lambda x: later(x))  # noqa: F821

    globals()["later"] = lambda x: x + 4
    assert _values(data) == [4]


def test_defaults_and_keyword_defaults_stay():
    def function(x, *, step=3, times=2):
        return x + step * times

    assert _values(Dataset.range(1).map(function)) == [6]
