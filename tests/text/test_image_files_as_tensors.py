"""Image files as string tensors: PNG files are read by zlib alone, others need Pillow."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import FileFormatError, ShapeError, TapegradError

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 2, 3)).astype(np.uint8)


def test_png_files_hold_the_pixels():
    data = tf.io.encode_png(PIXELS).numpy()

    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">IIBB", data[16:26]) == (2, 3, 8, 2)
    start = data.index(b"IDAT") + 4
    (size,) = struct.unpack(">I", data[start - 8 : start - 4])
    lines = np.frombuffer(zlib.decompress(data[start : start + size]), np.uint8).reshape(3, 7)
    assert (lines[:, 1:].reshape(3, 2, 3) == PIXELS).all()
    with pytest.raises(ShapeError, match="height, width, channels"):
        tf.io.encode_png(PIXELS[0])


def test_without_pillow_the_error_names_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    monkeypatch.setitem(__import__("sys").modules, "PIL.Image", None)

    with pytest.raises(TapegradError, match="decode_png needs Pillow"):
        tf.io.decode_png(tf.io.encode_png(PIXELS))


def test_files_are_decoded_as_they_were_encoded(tmp_path):
    pytest.importorskip("PIL")
    tf.io.write_file(tmp_path / "a.png", tf.io.encode_png(PIXELS))

    data = tf.io.read_file(str(tmp_path / "a.png"))
    assert (tf.image.decode_png(data).numpy() == PIXELS).all()
    assert (tf.io.decode_image(data, channels=3).numpy() == PIXELS).all()
    floats = tf.io.decode_image(data, dtype=tf.float32)
    np.testing.assert_allclose(floats.numpy(), PIXELS / 255, rtol=1e-6)
    assert tf.io.decode_jpeg(tf.io.encode_jpeg(PIXELS), channels=1).shape == (3, 2, 1)
    with pytest.raises(FileFormatError, match="not an image"):
        tf.io.decode_image(b"text")
