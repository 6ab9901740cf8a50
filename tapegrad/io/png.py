"""Images as PNG files, which need no library but zlib."""

from __future__ import annotations

import struct
import zlib

import numpy as np

_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
"""PNG's numbers for grey and colours, both also with transparency, by their channels."""


def png_file(pixels: np.ndarray, compression: int = -1) -> bytes:
    """Return uint8 pixels of shape (height, width, channels) as the bytes of a PNG file.

    >>> png_file(np.zeros((2, 2, 3), np.uint8))[1:4]
    b'PNG'
    """
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)  # 8 bits
    lines = np.pad(pixels.reshape(height, -1), ((0, 0), (1, 0)))  # lines start with filter type 0
    data = zlib.compress(lines.tobytes(), compression)
    parts = {b"IHDR": header, b"IDAT": data, b"IEND": b""}
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts.items()
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
