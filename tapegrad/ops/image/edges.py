"""Differences of neighbouring pixels: total variation, gradients, Sobel edges."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ShapeError
from tapegrad.ops.elementwise.magnitude import abs as magnitude
from tapegrad.ops.image.pixels import as_batch, as_images
from tapegrad.ops.reduction.functions import reduce_sum
from tapegrad.ops.shape.joining import stack
from tapegrad.ops.shape.padding import pad


def _differences(x: Any) -> tuple[Any, Any]:
    """Return the differences of neighbours down and across."""
    return x[..., 1:, :, :] - x[..., :-1, :, :], x[..., 1:, :] - x[..., :-1, :]


def total_variation(images: Any, name: str | None = None) -> Any:
    """Return the sum of the absolute differences of neighbouring pixels of each image.

    >>> float(total_variation([[[1.0], [4.0]]]))
    3.0
    """
    down, across = _differences(as_images(images, "total_variation"))
    axes = (-3, -2, -1)
    return reduce_sum(magnitude(down), axes) + reduce_sum(magnitude(across), axes)


def image_gradients(image: Any) -> tuple[Any, Any]:
    """Return the differences to the next pixel down and across, with zeros at the last one.

    >>> [part.numpy().ravel().tolist() for part in image_gradients([[[[1.0], [4.0]]]])]
    [[0.0, 0.0], [3.0, 0.0]]
    """
    down, across = _differences(as_batch(image, "image_gradients"))
    return (
        pad(down, [(0, 0), (0, 1), (0, 0), (0, 0)]),
        pad(across, [(0, 0), (0, 0), (0, 1), (0, 0)]),
    )


def sobel_edges(image: Any) -> Any:
    """Return the Sobel derivatives `[..., 2]` of images: down, then across.

    >>> sobel_edges([[[[0.0], [1.0], [2.0]]] * 3]).numpy()[0, 1, 1, 0].tolist()
    [0.0, 8.0]
    """
    x = as_batch(image, "sobel_edges")
    if min(x.shape[1:3]) < 2:
        raise ShapeError(
            "sobel_edges reflects images at their edges, so it needs at least 2 rows and 2 "
            f"columns. Got shape {tuple(x.shape)}."
        )
    x = pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)], "REFLECT")
    rows = x[:, :-2] + 2 * x[:, 1:-1] + x[:, 2:]
    columns = x[:, :, :-2] + 2 * x[:, :, 1:-1] + x[:, :, 2:]
    down = columns[:, 2:] - columns[:, :-2]
    across = rows[:, :, 2:] - rows[:, :, :-2]
    return stack([down, across], -1)
