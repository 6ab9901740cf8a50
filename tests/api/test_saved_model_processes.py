"""Several processes that save to one folder, or load from it, at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tapegrad as tf
from tapegrad.keras.saving import saved_model, saved_model_loading


def module(value: float) -> tf.Module:
    made = tf.Module()
    made.v = tf.Variable(value)
    return made


def test_the_last_of_two_processes_that_save_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replacing, others = saved_model.replacing, [module(2.0)]

    @contextmanager
    def followed(path: Any) -> Iterator[Any]:
        with replacing(path) as file:
            yield file
        if others:  # the other process saves before this one removes older arrays
            tf.saved_model.save(others.pop(), tmp_path)

    monkeypatch.setattr(saved_model, "replacing", followed)
    tf.saved_model.save(module(1.0), tmp_path)
    assert float(tf.saved_model.load(tmp_path).v) == 2.0
    tf.saved_model.save(module(3.0), tmp_path)
    assert float(tf.saved_model.load(tmp_path).v) == 3.0
    assert len([*tmp_path.iterdir()]) == 2


def test_a_process_can_load_while_another_one_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored, others = saved_model_loading._restored, [module(2.0)]

    def late(folder: Path, tree: Any) -> Any:
        if others:  # the other process replaces the programs that were read just now
            tf.saved_model.save(others.pop(), tmp_path)
        return restored(folder, tree)

    tf.saved_model.save(module(1.0), tmp_path)
    monkeypatch.setattr(saved_model_loading, "_restored", late)
    assert float(tf.saved_model.load(tmp_path).v) == 2.0
    next(tmp_path.glob("arrays-*")).unlink()
    with pytest.raises(tf.errors.InvalidArgumentError, match="lacks its file of arrays"):
        tf.saved_model.load(tmp_path)
