"""Checkpoints restore what appears after `restore`, and find objects by each of their names."""

from __future__ import annotations

import copy
import gc
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.core.observed import ON_WRITE
from tapegrad.errors import ArgumentError
from tapegrad.train import Checkpoint, CheckpointMismatchError

X, Y = np.ones((8, 4), "float32"), np.ones((8, 2), "float32")


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return str(tmp_path / "ckpt")


@pytest.fixture(autouse=True)
def nothing_else_waits() -> Any:
    """Set aside what earlier tests have left, which may end during a test."""
    before = list(ON_WRITE)
    ON_WRITE.clear()
    yield
    ON_WRITE[:] = before


class Net(tf.Module):
    def __init__(self, number: float | None) -> None:
        super().__init__()
        if number is not None:
            self.w = tf.Variable([number])


def test_an_attribute_that_is_set_later_is_restored(prefix: str) -> None:
    path = Checkpoint(a=tf.Variable(1.0), b=tf.Variable([2.0]), epoch=3).save(prefix)
    checkpoint = Checkpoint(a=tf.Variable(0.0))
    status = checkpoint.restore(path)
    with pytest.raises(CheckpointMismatchError, match="no object uses: b, epoch"):
        status.assert_consumed()
    status.assert_existing_objects_matched()

    checkpoint.b = tf.Variable([0.0])
    checkpoint.epoch = 0

    assert (float(checkpoint.a), checkpoint.b.numpy().tolist(), checkpoint.epoch) == (1.0, [2.0], 3)
    status.assert_consumed()


def test_what_was_restored_is_not_restored_again(prefix: str) -> None:
    path = Checkpoint(a=tf.Variable(1.0), b=tf.Variable(2.0), c=tf.Variable(3.0), n=1).save(prefix)
    checkpoint = Checkpoint(a=tf.Variable(0.0), n=0)
    checkpoint.restore(path)
    checkpoint.a.assign(7.0)
    checkpoint.n = 5

    checkpoint.b = tf.Variable(0.0)
    checkpoint.b.assign(8.0)
    checkpoint.a = tf.Variable(9.0)  # its value was used
    checkpoint.c = tf.Variable(0.0)

    assert [float(v) for v in (checkpoint.a, checkpoint.b, checkpoint.c)] == [9.0, 8.0, 3.0]
    assert checkpoint.n == 5


def test_an_attribute_of_a_module_that_is_set_later_is_restored(prefix: str) -> None:
    path = Checkpoint(net=Net(2.0)).save(prefix)
    net = Net(None)
    status = Checkpoint(net=net).restore(path)  # nobody keeps the checkpoint
    gc.collect()

    net.w = tf.Variable([0.0])

    assert net.w.numpy().tolist() == [2.0]
    status.assert_consumed()


def test_other_modules_are_left_alone(prefix: str) -> None:
    path = Checkpoint(net=Net(2.0)).save(prefix)
    checkpoint = Checkpoint(net=Net(None))
    checkpoint.restore(path)
    other = Net(3.0)
    other.w = tf.Variable([4.0])

    assert other.w.numpy().tolist() == [4.0]


def made(is_built: bool) -> Any:
    model = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(2)])
    if is_built:
        model(X)
    return model


def test_a_model_that_is_built_later_is_restored(prefix: str) -> None:
    old = made(True)
    path = Checkpoint(model=old).save(prefix)
    model = made(False)
    status = Checkpoint(model=model).restore(path)

    result = model(X)

    np.testing.assert_array_equal(result.numpy(), old(X).numpy())
    status.assert_consumed()


@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_step_that_builds_the_model_and_the_optimizer_goes_on(
    is_recorded: bool, prefix: str
) -> None:
    def trained(model: Any, optimizer: Any, steps: int) -> Any:
        def step(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x) - y) ** 2)
            variables = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
            return loss

        step = tf.function(step) if is_recorded else step
        return [float(step(X, Y)) for _ in range(steps)]

    old, optimizer = made(False), keras.optimizers.Adam(0.1)
    trained(old, optimizer, 3)
    path = Checkpoint(model=old, optimizer=optimizer).save(prefix)
    expected = trained(old, optimizer, 3)

    new, optimizer = made(False), keras.optimizers.Adam(0.1)
    status = Checkpoint(model=new, optimizer=optimizer).restore(path)
    assert trained(new, optimizer, 3) == expected
    status.assert_consumed()


def test_an_optimizer_that_appears_later_is_restored(prefix: str) -> None:
    w, optimizer = tf.Variable([1.0]), tf.optimizers.SGD(0.5, momentum=0.9)
    optimizer.apply_gradients([(tf.constant([1.0]), w)])
    path = Checkpoint(w=w, optimizer=optimizer).save(prefix)
    optimizer.apply_gradients([(tf.constant([1.0]), w)])

    checkpoint = Checkpoint(w=tf.Variable([0.0]))
    status = checkpoint.restore(path)
    checkpoint.optimizer = tf.optimizers.SGD(0.5, momentum=0.9)
    status.assert_consumed()
    checkpoint.optimizer.apply_gradients([(tf.constant([1.0]), checkpoint.w)])

    assert checkpoint.w.numpy().tolist() == w.numpy().tolist()


def test_the_latest_restore_counts(prefix: str) -> None:
    before = list(ON_WRITE)
    paths = [
        Checkpoint(a=tf.Variable(n), b=tf.Variable(n)).write(f"{prefix}{n}") for n in (1.0, 2.0)
    ]
    checkpoint = Checkpoint(a=tf.Variable(0.0))
    for path in paths:
        checkpoint.restore(path)
    checkpoint.b = tf.Variable(0.0)

    assert float(checkpoint.b) == 2.0
    assert before == ON_WRITE


def test_a_file_that_is_gone_or_changed_is_an_error_and_no_silence(prefix: str) -> None:
    source = Checkpoint(a=tf.Variable(1.0), b=tf.Variable(2.0))
    path = source.write(prefix)
    checkpoint = Checkpoint(a=tf.Variable(0.0))
    checkpoint.restore(path)
    checkpoint.other = tf.Variable(5.0)  # not in the file
    source.b.assign(3.0)
    source.write(prefix)
    with pytest.raises(ArgumentError, match="was replaced after it was restored"):
        checkpoint.b = tf.Variable(0.0)
    Path(f"{path}.safetensors").unlink()
    with pytest.raises(ArgumentError, match="was deleted after it was restored"):
        checkpoint.b = tf.Variable(0.0)


def test_shapes_that_differ_are_an_error(prefix: str) -> None:
    path = Checkpoint(a=tf.Variable([1.0, 2.0])).save(prefix)
    checkpoint = Checkpoint()
    checkpoint.restore(path)
    with pytest.raises(ArgumentError, match=r"float32\[1\] here and float32\[2\] in the file"):
        checkpoint.a = tf.Variable([0.0])


# Names


def test_a_variable_is_found_by_each_of_its_names(prefix: str) -> None:
    shared = tf.Variable(5.0)
    old = Checkpoint(
        listed=[tf.Variable(1.0), shared], mapped={"two": shared, "x": tf.Variable(2.0)}
    )
    path = old.save(prefix)

    by_map = Checkpoint(mapped={"two": tf.Variable(0.0), "x": tf.Variable(0.0)})
    by_map.restore(path).assert_existing_objects_matched()
    by_list = Checkpoint(listed=[tf.Variable(0.0), tf.Variable(0.0)])
    by_list.restore(path).assert_existing_objects_matched()
    apart = Checkpoint(
        listed=[tf.Variable(0.0), tf.Variable(0.0)],
        mapped={"two": tf.Variable(0.0), "x": tf.Variable(0.0)},
    )
    apart.restore(path).assert_consumed()

    assert [float(v) for v in by_map.mapped.values()] == [5.0, 2.0]
    assert [float(v) for v in by_list.listed] == [1.0, 5.0]
    assert [float(v) for v in (*apart.listed, *apart.mapped.values())] == [1.0, 5.0, 5.0, 2.0]


def test_an_object_with_more_names_than_in_the_file_is_found(prefix: str) -> None:
    path = Checkpoint(mapped={"two": tf.Variable(5.0)}).save(prefix)
    shared = tf.Variable(0.0)
    Checkpoint(listed=[shared], mapped={"two": shared}).restore(path).assert_consumed()

    assert float(shared) == 5.0


def test_what_is_inside_an_object_with_two_names_is_found(prefix: str) -> None:
    net = Net(3.0)
    optimizer = tf.optimizers.SGD(0.5, momentum=0.9)
    optimizer.apply_gradients([(tf.constant([2.0]), net.w)])
    path = Checkpoint(first=net, nets={"second": net}, optimizer=optimizer).save(prefix)

    other, again = Net(0.0), tf.optimizers.SGD(0.5, momentum=0.9)
    status = Checkpoint(nets={"second": other}, optimizer=again).restore(path)

    assert other.w.numpy().tolist() == net.w.numpy().tolist()
    status.assert_consumed()
    for one, w in ((optimizer, net.w), (again, other.w)):
        one.apply_gradients([(tf.constant([0.0]), w)])
    assert other.w.numpy().tolist() == net.w.numpy().tolist()


def test_a_nontrivial_match(prefix: str) -> None:
    path = Checkpoint(a=tf.Variable(1.0)).save(prefix)
    Checkpoint(a=tf.Variable(0.0)).restore(path).assert_nontrivial_match()
    with pytest.raises(CheckpointMismatchError, match=r"Nothing of checkpoint .* It holds: a"):
        Checkpoint(b=tf.Variable(0.0)).restore(path).assert_nontrivial_match()


def test_nothing_waits_for_objects_that_are_gone(prefix: str) -> None:
    path = Checkpoint(net=Net(2.0), extra=tf.Variable(1.0)).save(prefix)
    before = len(ON_WRITE)
    for _ in range(20):
        Checkpoint(net=Net(0.0)).restore(path)
        Checkpoint(w=tf.Variable(0.0)).restore(path)
    gc.collect()

    assert len(ON_WRITE) == before


def test_restoring_the_same_object_many_times_leaves_one_that_waits(prefix: str) -> None:
    path = Checkpoint(net=Net(2.0), extra=tf.Variable(1.0)).save(prefix)
    other = Checkpoint(net=Net(3.0), extra=tf.Variable(1.0)).save(f"{prefix}2")
    net, before = Net(None), len(ON_WRITE)
    for _ in range(20):
        Checkpoint(net=net).restore(path)
    Checkpoint(net=net).restore(other)

    assert len(ON_WRITE) == before + 1
    net.w = tf.Variable([0.0])
    assert net.w.numpy().tolist() == [3.0]


def test_a_later_restore_of_other_values_does_not_end_the_waiting(prefix: str) -> None:
    class Two(tf.Module):
        pass

    full, part, net = Two(), Two(), Two()
    full.a, full.b, part.a = tf.Variable(1.0), tf.Variable(2.0), tf.Variable(3.0)
    first, second = Checkpoint(net=full).save(prefix), Checkpoint(net=part).save(f"{prefix}2")
    Checkpoint(net=net).restore(first)
    Checkpoint(net=net).restore(second)

    net.a, net.b = tf.Variable(0.0), tf.Variable(0.0)

    assert (float(net.a), float(net.b)) == (3.0, 2.0)


@pytest.mark.parametrize("value", [True, None, "text"])
def test_a_new_entry_is_restored_at_the_next_write(prefix: str, value: Any) -> None:
    def made(number: float) -> Any:
        net = tf.Module()
        net.items, net.table = [], {}
        if number:
            net.items.append(tf.Variable(number))
            net.table["k"] = tf.Variable(number + 1)
        return net

    path, net = Checkpoint(net=made(1.0)).save(prefix), made(0.0)
    status = Checkpoint(net=net).restore(path)

    net.items.append(tf.Variable(0.0))
    net.note = value
    net.table["k"] = tf.Variable(0.0)
    net.note = value

    assert (float(net.items[0]), float(net.table["k"])) == (1.0, 2.0)
    status.assert_consumed()


@pytest.mark.parametrize("order", ["first", "second"])
def test_a_variable_with_two_names_is_given_to_both_if_they_are_two_now(
    prefix: str, order: str
) -> None:
    def made() -> Any:
        net = tf.Module()
        net.items = [tf.Variable(2.0)]
        net.a = net.b = tf.Variable(1.0)
        net.inner = tf.Module()
        net.inner.w = net.items[0]
        return net

    path, net = Checkpoint(net=made()).save(prefix), tf.Module()
    Checkpoint(net=net).restore(path)
    for name in "ab" if order == "first" else "ba":
        setattr(net, name, tf.Variable(0.0))
    net.items = [tf.Variable(0.0)]
    net.inner = tf.Module()
    net.inner.w = tf.Variable(0.0)

    assert [float(v) for v in (net.a, net.b, net.items[0], net.inner.w)] == [1.0, 1.0, 2.0, 2.0]
    net.b, net.inner.w = tf.Variable(7.0), tf.Variable(8.0)  # these names had their values
    assert [float(v) for v in (net.b, net.inner.w)] == [7.0, 8.0]


def test_containers_that_are_assigned_after_restore_take_values_at_once(prefix: str) -> None:
    saved = tf.train.Checkpoint()
    saved.listed = [tf.Variable(1.0), tf.Variable(2.0)]
    saved.mapped = {"one": tf.Variable(3.0), "two": tf.Variable(4.0)}
    path = saved.save(prefix)

    late = tf.train.Checkpoint()
    late.restore(path)
    late.listed, late.mapped = [], {}
    new = [tf.Variable(0.0) for _ in range(4)]
    late.listed.append(new[0])
    assert float(new[0]) == 1.0
    late.listed += [new[1]]
    late.mapped["one"] = new[2]
    late.mapped.update(two=new[3])

    assert [float(v) for v in new] == [1.0, 2.0, 3.0, 4.0]
    assert len(late.listed) == len(late.mapped) == 2
    for twin in (copy.copy(late.listed), pickle.loads(pickle.dumps([1, late.listed]))[1]):
        assert type(twin) is list
    assert type(copy.copy(late.mapped)) is dict
    late.listed.append(tf.Variable(9.0))
    assert float(late.listed[2]) == 9.0


def test_containers_without_values_in_the_file_stay_as_they_are(prefix: str) -> None:
    path = tf.train.Checkpoint(v=tf.Variable(1.0)).save(prefix)
    late = tf.train.Checkpoint()
    late.restore(path)
    late.names = ["a"]

    assert type(late.names) is list
