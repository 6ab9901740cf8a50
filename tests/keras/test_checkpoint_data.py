"""Checkpoints of where a dataset stands."""

from __future__ import annotations

from pathlib import Path

import tapegrad as tf


def test_a_checkpoint_holds_the_position_in_a_shuffled_dataset(tmp_path: Path) -> None:
    dataset = tf.data.Dataset.range(20).shuffle(20, seed=3).batch(4)
    reading = dataset.iterator()
    for _ in range(2):
        next(reading)
    path = tf.train.Checkpoint(data=reading).write(str(tmp_path / "ckpt"))
    expected = [element.numpy().tolist() for element in reading]
    other = dataset.iterator()
    next(other)

    tf.train.Checkpoint(data=other).read(path).assert_consumed()

    assert [element.numpy().tolist() for element in other] == expected
    assert len(expected) == 3
