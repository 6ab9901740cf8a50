"""Event files of tf.summary, read by their own records."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.io.records import read_records
from tapegrad.io.wire import fields


def events(folder):
    """Return (step, tag, plugin, tensor fields) of each summary in the one file of a folder."""
    (path,) = folder.iterdir()
    found = []
    for record in read_records(path):
        event = {number: value for number, _, value in fields(record)}
        if 5 in event:
            ((_, _, value),) = fields(event[5])
            parts = {number: part for number, _, part in fields(value)}
            ((_, _, plugin),) = fields(dict_of(parts[9])[1])
            tensor = [(number, part) for number, _, part in fields(parts[8])]
            found.append((event.get(2, 0), parts[1].decode(), plugin.decode(), tensor))
    return found


def dict_of(data):
    return {number: value for number, _, value in fields(data)}


def test_numbers_are_written_with_their_steps(tmp_path):
    writer = tf.summary.create_file_writer(str(tmp_path))
    with writer.as_default():
        assert tf.summary.scalar("loss", 0.5, step=3)
        tf.summary.scalar("loss", tf.constant(2.0), step=tf.Variable(4, dtype=tf.int64))
    with writer.as_default(step=9):
        tf.summary.scalar("rate", 1)
    writer.close()

    found = [(step, tag, plugin, dict(tensor)[4]) for step, tag, plugin, tensor in events(tmp_path)]
    wanted = [(3, "loss", 0.5), (4, "loss", 2.0), (9, "rate", 1.0)]
    assert found == [(s, tag, "scalars", struct.pack("<f", x)) for s, tag, x in wanted]


def test_nothing_is_written_without_a_writer_or_against_a_condition(tmp_path):
    assert not tf.summary.scalar("loss", 0.5, step=0)
    writer = tf.summary.create_file_writer(tmp_path)
    with writer.as_default(), tf.summary.record_if(lambda: False):
        assert not tf.summary.scalar("loss", 0.5, step=0)
    with tf.summary.create_noop_writer().as_default():
        assert not tf.summary.scalar("loss", 0.5, step=0)
    writer.close()

    assert events(tmp_path) == []
    with pytest.raises(ArgumentError, match="is closed"), writer.as_default():
        tf.summary.scalar("loss", 0.5, step=0)


def test_recorded_functions_write_on_each_call(tmp_path):
    writer, count = tf.summary.create_file_writer(tmp_path), tf.Variable(0, dtype=tf.int64)

    @tf.function
    def step(x):
        tf.summary.scalar("x", x, step=count)
        count.assign_add(1)

    with writer.as_default():
        for value in (1.0, 2.0, 3.0):
            step(tf.constant(value))
    writer.close()

    assert [(at, dict(tensor)[4]) for at, _, _, tensor in events(tmp_path)] == [
        (k, struct.pack("<f", k + 1.0)) for k in range(3)
    ]


def test_histograms_images_and_text(tmp_path):
    writer = tf.summary.create_file_writer(tmp_path)
    pixels = np.random.default_rng(0).integers(0, 256, (1, 3, 2, 3)).astype(np.uint8)
    with writer.as_default(step=0):
        tf.summary.histogram("h", tf.range(30.0), buckets=10)
        tf.summary.image("i", pixels)
        tf.summary.text("t", "some *words*")
    writer.close()
    (_, _, first, counts), (_, _, second, image), (_, _, third, text) = events(tmp_path)

    assert (first, second, third) == ("histograms", "images", "text")
    rows = np.frombuffer(dict(counts)[4]).reshape(-1, 3)
    assert len(rows) == 10
    assert rows[:, 2].tolist() == [3.0] * 10
    width, height, png = [part for number, part in image if number == 8]
    assert (width, height) == (b"2", b"3")
    start = png.index(b"IDAT") + 4
    (size,) = struct.unpack(">I", png[start - 8 : start - 4])
    lines = np.frombuffer(zlib.decompress(png[start : start + size]), np.uint8).reshape(3, 7)
    assert (lines[:, 1:].reshape(3, 2, 3) == pixels[0]).all()
    assert not lines[:, 0].any()
    assert dict(text)[8] == b"some *words*"


def test_wrong_summaries_are_refused(tmp_path):
    with tf.summary.create_file_writer(tmp_path).as_default():
        with pytest.raises(ArgumentError, match="needs a step"):
            tf.summary.scalar("x", 1.0)
        with pytest.raises(ShapeError, match="takes one number"):
            tf.summary.scalar("x", [1.0, 2.0], step=0)
        with pytest.raises(ShapeError, match="count, height, width, channels"):
            tf.summary.image("x", np.zeros((2, 2)), step=0)


def test_the_step_of_a_block_ends_with_it(tmp_path):
    writer = tf.summary.create_file_writer(str(tmp_path))
    before = tf.summary.experimental.get_step()

    with writer.as_default(step=7):
        assert tf.summary.experimental.get_step() == 7
        with writer.as_default(step=8), writer.as_default():
            assert tf.summary.experimental.get_step() == 8
        assert tf.summary.experimental.get_step() == 7

    assert tf.summary.experimental.get_step() is before
