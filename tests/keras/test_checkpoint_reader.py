"""Checkpoints are read without the objects that they were saved from."""

from __future__ import annotations

from pathlib import Path

import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError


def test_variables_are_listed_and_read(tmp_path: Path) -> None:
    inner = tf.train.Checkpoint(w=tf.Variable([[1.0, 2.0]]))
    path = tf.train.Checkpoint(net=inner, step=tf.Variable(3)).save(str(tmp_path / "ckpt"))
    name = "net/w/.ATTRIBUTES/VARIABLE_VALUE"

    assert (name, [1, 2]) in tf.train.list_variables(path)
    reader = tf.train.load_checkpoint(tmp_path)
    assert reader.get_variable_to_shape_map()[name] == [1, 2]
    assert reader.get_variable_to_dtype_map()[name] == tf.float32
    assert reader.has_tensor(name)
    assert reader.get_tensor(name).tolist() == [[1.0, 2.0]]
    assert tf.train.load_variable(path, "step") == 3


def test_unknown_names_and_paths_are_named(tmp_path: Path) -> None:
    path = tf.train.Checkpoint(w=tf.Variable(1.0)).write(str(tmp_path / "one"))

    with pytest.raises(ArgumentError, match=r"has no variable 'v'. It has: .*w"):
        tf.train.load_variable(path, "v")
    with pytest.raises(ArgumentError, match="There is no checkpoint at"):
        tf.train.load_checkpoint(tmp_path / "two")
