"""Boxes drawn into images, on the host: the places of the lines depend on values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.convert import read_on_host
from tapegrad.errors import ShapeError
from tapegrad.ops.image.pixels import as_batch
from tapegrad.ops.indexing.gather import place_next_to

Host = np.ndarray[Any, Any]

_COLOURS = np.array(
    [
        [1, 1, 0, 1],
        [0, 0, 1, 1],
        [1, 0, 0, 1],
        [0, 1, 0, 1],
        [0.5, 0, 0.5, 1],
        [0.5, 0.5, 0, 1],
        [0.5, 0, 0, 1],
        [0, 0, 0.5, 1],
        [0, 1, 1, 1],
        [1, 0, 1, 1],
    ],
    np.float32,
)
"""TensorFlow's colours of the first boxes, which are used again after ten boxes."""


def draw_bounding_boxes(
    images: Any, boxes: Any, colors: Any = None, name: str | None = None
) -> Any:
    """Return images with the edges of boxes (y1, x1, y2, x2), given in parts of the image.

    `colors` has a row of channels per box; the rows are used again if there are more boxes. Edges
    outside of the image are not drawn. Gradients do not pass through this function.

    >>> images = np.zeros((1, 3, 3, 1), np.float32)
    >>> y = draw_bounding_boxes(images, [[[0.0, 0.0, 1.0, 0.5]]], [[7.0]])
    >>> y[0, :, :, 0].tolist()
    [[7.0, 7.0, 0.0], [7.0, 7.0, 0.0], [7.0, 7.0, 0.0]]
    """
    x, corners = as_batch(images, "draw_bounding_boxes"), as_operand(boxes)
    if len(corners.shape) != 3 or corners.shape[0] != x.shape[0] or corners.shape[2] != 4:
        raise ShapeError(
            "draw_bounding_boxes needs boxes of shape (images, boxes, 4) for "
            f"{x.shape[0]} images. Got shape {tuple(corners.shape)}."
        )
    palette = _palette(colors, x.shape[-1])
    found = np.array(read_on_host(x, "draw_bounding_boxes"))
    for image, places in zip(found, read_on_host(corners, "draw_bounding_boxes"), strict=True):
        for number, box in enumerate(places):
            _draw(image, box, palette[number % len(palette)])
    return place_next_to(x, found)


def _palette(colors: Any, channels: int) -> Host:
    if colors is not None:
        rows = read_on_host(as_operand(colors), "draw_bounding_boxes")
        if rows.ndim == 2 and len(rows) and rows.shape[1] >= channels:
            return rows[:, :channels]
        if rows.size:
            raise ShapeError(
                f"draw_bounding_boxes needs colors of shape (colours, {channels}). "
                f"Got shape {rows.shape}."
            )
    if channels == 1:  # every default colour is white in grey
        return np.ones((1, 1), np.float32)
    return _COLOURS[:, :channels]


def _draw(image: Host, box: Host, colour: Host) -> None:
    """Write the four edges of a box into an image."""
    height, width = image.shape[:2]
    y1, x1, y2, x2 = np.trunc(box * [height - 1, width - 1, height - 1, width - 1]).astype(int)
    rows = slice(max(y1, 0), max(min(y2, height - 1) + 1, 0))
    columns = slice(max(x1, 0), max(min(x2, width - 1) + 1, 0))
    if y1 > y2 or x1 > x2:
        return
    for y in (y1, y2):
        if 0 <= y < height:
            image[y, columns] = colour
    for x in (x1, x2):
        if 0 <= x < width:
            image[rows, x] = colour
