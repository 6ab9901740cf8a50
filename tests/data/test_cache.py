"""A cache runs what is before it once, in memory or in a file that holds nothing but numbers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.data import Dataset
from tapegrad.errors import ArgumentError


class Counted:
    """A function that knows how often it was called."""

    def __init__(self):
        self.calls = 0

    def __call__(self, n):
        self.calls += 1
        return {"n": n, "pair": (tf.cast(n, "float32") / 2, tf.ones([int(n)]))}


def values(dataset):
    return [tf.nest.map_structure(lambda leaf: leaf.numpy().tolist(), e) for e in dataset]


def test_the_second_pass_runs_no_function():
    counted = Counted()
    dataset = Dataset.range(4).map(counted).cache()

    first, second = values(dataset), values(dataset)

    assert counted.calls == 4
    assert first == second == values(Dataset.range(4).map(Counted()))


def test_a_pass_that_stops_early_keeps_nothing():
    counted = Counted()
    dataset = Dataset.range(4).map(counted).cache()

    next(iter(dataset))

    assert len(values(dataset)) == 4
    assert counted.calls == 1 + 4


def test_a_cache_can_be_shuffled_anew_in_each_pass():
    dataset = Dataset.range(20).cache().shuffle(20, seed=0)

    passes = [values(dataset) for _ in range(3)]

    assert [sorted(one) for one in passes] == [list(range(20))] * 3
    assert passes[0] != passes[1] != passes[2]


@pytest.mark.parametrize("name", ["data", "data.npz", "data.v1"])
def test_a_file_serves_later_programs(tmp_path, name):
    whole = values(Dataset.range(4).map(Counted()).cache(tmp_path / name))
    counted = Counted()

    later = Dataset.range(4).map(counted).cache(str(tmp_path / name))

    assert values(later) == whole
    assert counted.calls == 0
    assert len(later) == 4
    assert [path.suffix for path in tmp_path.iterdir()] == [".npz"]


def test_a_file_keeps_dtypes(tmp_path):
    x = tf.cast(tf.constant([[1.0, 2.0]]), "bfloat16")
    arrays = (x, np.ones((1, 2), np.complex64), np.array([True]), np.array([2**63], np.uint64))
    dataset = Dataset.from_tensor_slices(arrays).cache(tmp_path / "data")

    (before,), (after,) = list(dataset), list(dataset)

    assert [leaf.dtype for leaf in after] == [leaf.dtype for leaf in before]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_a_file_appears_only_when_it_is_whole(tmp_path):
    dataset = Dataset.range(4).cache(tmp_path / "data")

    iterator = dataset.iterator()
    next(iterator)
    partial = [path.suffix for path in tmp_path.iterdir()]
    iterator.close()

    assert partial == [".partial"]
    assert list(tmp_path.iterdir()) == []


def test_a_forgotten_pass_leaves_no_file(tmp_path):
    for _ in Dataset.range(4).cache(tmp_path / "data"):
        break

    assert list(tmp_path.iterdir()) == []


def test_a_file_holds_no_pickles(tmp_path):
    values(Dataset.range(4).map(Counted()).cache(tmp_path / "data"))

    with np.load(tmp_path / "data.npz", allow_pickle=False) as file:
        assert file["3.0"].item() == 3
        assert all(file[name].dtype.kind in "fiU" for name in file.files)


@pytest.mark.parametrize("content", [b"", b"not a zip file", b"PK\x03\x04broken"])
def test_a_file_of_another_kind_is_refused(tmp_path, content):
    (tmp_path / "data.npz").write_bytes(content)

    with pytest.raises(ArgumentError, match=r"data\.npz is not a cache of a tapegrad dataset"):
        values(Dataset.range(4).cache(tmp_path / "data"))


def test_an_npz_file_of_somebody_else_is_refused(tmp_path):
    np.savez(tmp_path / "data.npz", x=np.ones(3))

    with pytest.raises(ArgumentError, match="Remove it, or give cache another filename"):
        values(Dataset.range(4).cache(tmp_path / "data"))


def test_elements_that_a_file_cannot_hold_are_refused(tmp_path):
    with pytest.raises(TypeError, match=r"use cache\(\) to keep the elements in memory"):
        list(Dataset.range(4).window(2).cache(tmp_path / "data"))
    with pytest.raises(TypeError, match="dictionaries whose keys are strings"):
        list(Dataset.range(4).map(lambda n: {0: n}).cache(tmp_path / "data"))


def test_a_file_that_is_damaged_anywhere_is_refused(tmp_path):
    path = tmp_path / "data.npz"
    expected = values(Dataset.range(4).cache(path))
    content = path.read_bytes()

    refused = 0
    for place in range(0, len(content), 23):
        path.write_bytes(content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :])
        try:
            found = values(Dataset.range(4).cache(path))
        except ArgumentError:
            refused += 1
        else:
            assert found == expected

    # The others are bytes that nobody reads, such as dates.
    assert refused > len(content) // 23 // 2


@pytest.mark.parametrize("name", ["", "data"], ids=["memory", "file"])
def test_a_pass_in_which_an_element_failed_is_not_kept(name, tmp_path):
    failures = [RuntimeError("for once")]

    def fails_once(n):
        if int(n) == 2 and failures:
            raise failures.pop()
        return n

    dataset = Dataset.range(4).map(fails_once).cache(name and tmp_path / name)
    iterator = dataset.iterator()
    first = [next(iterator), next(iterator)]
    with pytest.raises(RuntimeError, match="for once"):
        next(iterator)

    assert values([*first, *iterator]) == [0, 1, 3]
    assert values(dataset) == values(dataset) == [0, 1, 2, 3]


KILLED = """
import os, signal, sys
import numpy as np
from tapegrad.data import Dataset
for number, element in enumerate(Dataset.range(100).cache(sys.argv[1])):
    if number == 50:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_pass_leaves_nothing_after_the_next_one(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, str(tmp_path / "c")]
    done = subprocess.run(command, env=environment, check=False)
    assert done.returncode == -signal.SIGKILL

    list(Dataset.range(3).cache(tmp_path / "c"))

    assert [path.name for path in tmp_path.iterdir()] == ["c.npz"]
    assert [int(x) for x in Dataset.range(9).cache(tmp_path / "c")] == [0, 1, 2]


def test_a_snapshot_keeps_elements_in_a_folder(tmp_path):
    calls = []

    def squares():
        for n in range(3):
            calls.append(n)
            yield n * n

    spec = tf.TensorSpec([], tf.int64)
    source = tf.data.Dataset.from_generator(squares, output_signature=spec)
    kept = source.snapshot(tmp_path / "a" / "kept")

    assert [int(n) for n in kept] == [int(n) for n in kept] == [0, 1, 4]
    assert calls == [0, 1, 2]
    again = source.apply(tf.data.experimental.snapshot(str(tmp_path / "a" / "kept")))
    assert [int(n) for n in again] == [0, 1, 4]
    assert calls == [0, 1, 2]
    (tmp_path / "file").write_text("")
    with pytest.raises(ArgumentError, match=r"snapshot\(\) writes to a folder, and .*file' is a"):
        source.snapshot(tmp_path / "file")
