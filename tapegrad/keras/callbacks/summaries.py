"""Scalars, histograms, images and graphs as TensorBoard protocol buffers."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tapegrad.io.png import png_file
from tapegrad.io.wire import Fields, message
from tapegrad.keras.utils.model_graph import Box

BUCKETS = 30
"""The number of buckets of a histogram."""
_MOST_IMAGES = 3
_FLOAT, _DOUBLE, _STRING = 1, 2, 7
"""DataType enum values."""


def scalar(tag: str, value: float) -> bytes:
    """Return a summary of one number.

    >>> b"scalars" in scalar("epoch_loss", 0.5)
    True
    """
    return _summary(tag, "scalars", _tensor(_FLOAT, (), [(4, struct.pack("<f", value))]))


def text(tag: str, shape: Sequence[int], texts: Sequence[bytes]) -> bytes:
    """Return a summary of texts.

    >>> b"text" in text("note", (), [b"words"])
    True
    """
    return _summary(tag, "text", _tensor(_STRING, shape, [(8, one) for one in texts]))


def histogram(tag: str, values: Any, count: int = BUCKETS) -> bytes:
    """Return a histogram summary of the values with buckets of equal width.

    >>> import numpy as np
    >>> b"histograms" in histogram("dense/kernel/histogram", np.arange(5))
    True
    """
    rows = buckets(values, count)
    return _summary(tag, "histograms", _tensor(_DOUBLE, rows.shape, [(4, rows.tobytes())]))


def buckets(values: Any, count: int = BUCKETS) -> Any:
    """Return rows of left edge, right edge and count; values that are not finite are ignored.

    If all values are equal, they are counted in the last row.

    >>> import numpy as np
    >>> buckets(np.array([0.0, 1.0, 30.0]))[[0, 1, 29]].tolist()
    [[0.0, 1.0, 1.0], [1.0, 2.0, 1.0], [29.0, 30.0, 1.0]]
    """
    flat = np.asarray(values, np.float64).reshape(-1)
    flat = flat[np.isfinite(flat)]
    if not flat.size:
        return np.zeros((count, 3))
    low, high = flat.min(), flat.max()
    width = (high - low) / count
    places = np.full(flat.shape, count - 1)
    if width > 0:
        places = np.minimum(((flat - low) / width).astype(np.int64), count - 1)
    edges = np.linspace(low, high, count + 1)
    counts = np.bincount(places, minlength=count)
    return np.stack([edges[:-1], edges[1:], counts], axis=1)


def image(tag: str, weight: Any) -> bytes | None:
    """Return a summary of a weight as grey images, black for its minimum, white for its maximum.

    A vector is a line and a matrix a rectangle. Of three axes, the first three channels are shown.
    A weight with more axes gives None.

    >>> import numpy as np
    >>> b"PNG" in image("dense/kernel/image", np.eye(3))
    True
    """
    pictures = _pictures(np.squeeze(np.asarray(weight, np.float64)))
    if pictures is None or not pictures.size:
        return None
    low, high = np.nanmin(pictures), np.nanmax(pictures)
    grey = np.nan_to_num((pictures - low) / (high - low if high > low else 1.0) * 255)
    return images(tag, grey.astype(np.uint8)[..., None], _MOST_IMAGES)


def images(tag: str, pixels: Any, most: int) -> bytes:
    """Return a summary of images: uint8 of shape (count, height, width, channels).

    >>> import numpy as np
    >>> b"PNG" in images("input", np.zeros((1, 2, 2, 3), np.uint8), 3)
    True
    """
    files = [png_file(one) for one in pixels[:most]]
    _, height, width, _ = pixels.shape
    parts = [str(width).encode(), str(height).encode(), *files]
    return _summary(tag, "images", _tensor(_STRING, [len(parts)], [(8, part) for part in parts]))


def sounds(tag: str, files: Sequence[bytes]) -> bytes:
    """Return a summary of sounds, each the bytes of a WAV file.

    >>> b"RIFF" in sounds("voice", [b"RIFF"])
    True
    """
    pairs = [(8, part) for file in files for part in (file, b"")]  # the second has a label
    return _summary(tag, "audio", _tensor(_STRING, [len(files), 2], pairs))


def _pictures(weight: Any) -> Any:
    if weight.ndim <= 1:
        return weight.reshape(1, -1, 1)
    if weight.ndim == 2:
        return (weight.T if weight.shape[0] > weight.shape[1] else weight)[None]
    return weight.transpose(2, 0, 1) if weight.ndim == 3 else None


def _summary(tag: str, plugin: str, tensor: bytes) -> bytes:
    metadata = message([(1, message([(1, plugin)]))])
    return message([(1, message([(1, tag), (9, metadata), (8, tensor)]))])


def _tensor(dtype: int, shape: Sequence[int], content: Fields) -> bytes:
    return message([(1, dtype), (2, _shape(shape)), *content])


def _shape(sizes: Iterable[int | None]) -> bytes:
    """Return a TensorShapeProto; unknown sizes are -1."""
    return message([(2, message([(1, -1 if size is None else size)])) for size in sizes])


def graph(boxes: Sequence[Box]) -> bytes:
    """Return the layers of a model as a GraphDef; inner models are scopes.

    >>> from tapegrad.keras.layers import Dense, Input
    >>> from tapegrad.keras.models import Sequential
    >>> from tapegrad.keras.utils.model_graph import boxes_of
    >>> b"Dense" in graph(boxes_of(Sequential([Input((2,)), Dense(1)])))
    True
    """
    names = _names(boxes)
    nodes = [(1, _node(box, names)) for box in boxes]
    return message([*nodes, (4, message([(1, 22)]))])  # the producer version


def _names(boxes: Sequence[Box]) -> list[str]:
    """Return unique node names; further calls of a layer get a number."""
    taken: dict[str, int] = {}
    found = []
    for box in boxes:
        name = "/".join([*box.path, box.name])
        times = taken[name] = taken.get(name, 0) + 1
        found.append(name if times == 1 else f"{name}_call_{times}")
    return found


def _node(box: Box, names: Sequence[str]) -> bytes:
    shapes = message([(7, _shape(x.shape)) for x in box.outputs])
    # TensorBoard labels edges with the shapes in this attribute.
    attribute = message([(1, "_output_shapes"), (2, message([(1, shapes)]))])
    reads = [(3, names[place]) for place in box.reads]
    return message([(1, names[box.number]), (2, box.kind), *reads, (5, attribute)])
