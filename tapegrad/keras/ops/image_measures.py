"""keras.ops.image: edges and similarity of images, and patches of volumes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice, check_wholes
from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.config import image_data_format
from tapegrad.keras.ops.image_functions import Images
from tapegrad.keras.ops.neural import conv
from tapegrad.ops.casting.cast import in_dtype
from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.image import edges, similarity
from tapegrad.ops.image.pixels import in_single
from tapegrad.ops.indexing.gather import place_next_to
from tapegrad.ops.shape.functions import moveaxis


def sobel_edges(images: Any, data_format: str | None = None) -> Any:
    """Return the Sobel derivatives `[..., 2]` of images: down, then across.

    >>> sobel_edges([[[0.0], [1.0], [2.0]]] * 3).numpy()[1, 1, 0].tolist()
    [0.0, 8.0]
    """
    x = Images(images, data_format, "sobel_edges")
    is_one = len(x.last.shape) == 3
    found = edges.sobel_edges(x.last[None] if is_one else x.last)
    found = moveaxis(found, -2, -4) if x.is_first else found
    return found[0] if is_one else found


def ssim(
    image1: Any,
    image2: Any,
    max_val: float = 1.0,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    data_format: str | None = None,
) -> Any:
    """Return the structural similarity of each pair of images, 1 for equal images.

    >>> import tapegrad
    >>> x = tapegrad.reshape(tapegrad.range(64.0), (8, 8, 1))
    >>> float(ssim(x, x, 64.0, filter_size=5))
    1.0
    """
    first = Images(image1, data_format, "ssim")
    second = Images(image2, data_format, "ssim")
    found = similarity.ssim(
        in_single(first.last), in_single(second.last), max_val, filter_size, filter_sigma, k1, k2
    )
    return in_dtype(found, first.dtype)


def extract_patches_3d(
    volumes: Any,
    size: Any,
    strides: Any = None,
    dilation_rate: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
) -> Any:
    """Return patches of volumes; each has its elements and channels along the axis of channels.

    Without `strides`, patches do not overlap.

    >>> import tapegrad
    >>> extract_patches_3d(tapegrad.ones([4, 4, 4, 3]), 2).shape
    (2, 2, 2, 24)
    """
    x = as_operand(volumes)
    form = data_format or image_data_format()
    check_choice("data_format", form, ("channels_last", "channels_first"))
    check_choice("padding", padding.lower(), ("valid", "same"))
    if len(x.shape) not in (4, 5):
        raise ShapeError(
            "keras.ops.image.extract_patches_3d takes volumes of 4 dimensions, or 5 with a batch. "
            f"Got shape {tuple(x.shape)}."
        )
    sizes, rates = _three("size", size), _three("dilation_rate", dilation_rate)
    steps = sizes if strides is None else _three("strides", strides)
    batch = x if len(x.shape) == 5 else x[None]
    depth = batch.shape[-1 if form == "channels_last" else 1]
    width = int(np.prod(sizes)) * depth
    filters = np.eye(width, dtype=numpy_dtype_of(batch)).reshape(*sizes, depth, width)
    found = conv(batch, place_next_to(batch, filters), steps, padding, form, rates)
    return found if len(x.shape) == 5 else found[0]


def _three(what: str, value: Any) -> tuple[int, ...]:
    found = check_wholes(what, value, "keras.ops.image.extract_patches_3d")
    found = found * 3 if len(found) == 1 else found
    if len(found) != 3 or min(found) < 1:
        raise ArgumentError(
            f"keras.ops.image.extract_patches_3d needs {what} of one or three numbers of 1 or "
            f"more. Got {value!r}."
        )
    return found
