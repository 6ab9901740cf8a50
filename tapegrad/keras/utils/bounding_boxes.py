"""keras.utils.bounding_boxes: formats of boxes, overlaps, and boxes relative to anchors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.absent import absent_name as _absent_name
from tapegrad.keras.config import epsilon
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise.comparison import logical_or
from tapegrad.ops.elementwise.exponential import exp, log
from tapegrad.ops.elementwise.selection import clip, maximum, minimum, where
from tapegrad.ops.elementwise.trigonometric import atan
from tapegrad.ops.reduction.functions import reduce_max
from tapegrad.ops.shape.joining import concat, stack

_SHAPES = ("xyxy", "yxyx", "xywh", "center_xywh", "center_yxhw")
_RELATIVE = ("rel_xyxy", "rel_yxyx", "rel_xywh", "rel_center_xywh")
FORMATS = (*_SHAPES, *_RELATIVE)


def _format(name: str, what: str) -> str:
    found = name.lower()
    if found not in FORMATS:
        raise ArgumentError(f"{what} must be one of {', '.join(FORMATS)}. Got {name!r}.")
    return found


def _parts(boxes: Any) -> list[Any]:
    if not boxes.shape or boxes.shape[-1] != 4:
        raise ShapeError(
            f"Boxes have four numbers along their last axis. Got shape {tuple(boxes.shape)}."
        )
    return [boxes[..., k] for k in range(4)]


def convert_format(
    boxes: Any,
    source: str,
    target: str,
    height: Any = None,
    width: Any = None,
    dtype: Any = "float32",
) -> Any:
    """Return boxes in another format, such as "xyxy", "center_xywh" or "rel_yxyx".

    Formats that begin with "rel_" have coordinates from 0 to 1 and need the height and width of the
    images. Boxes may be the entry "boxes" of a dict.

    >>> convert_format([[10, 20, 30, 60]], "xyxy", "xywh").tolist()
    [[10.0, 20.0, 20.0, 40.0]]
    """
    if isinstance(boxes, Mapping):
        converted = convert_format(boxes["boxes"], source, target, height, width, dtype)
        return {**boxes, "boxes": converted}
    old, new = _format(source, "source"), _format(target, "target")
    x = cast(as_operand(boxes), as_dtype(dtype))
    _parts(x)
    is_relative = old.startswith("rel_"), new.startswith("rel_")
    if any(is_relative) and (height is None or width is None):
        raise ArgumentError(
            f"convert_format from {source!r} to {target!r} needs the height and width of images."
        )
    if old == new:
        return x
    x1, y1, x2, y2 = _corners(x, old.removeprefix("rel_"))
    if is_relative[0] != is_relative[1]:
        across, down = cast(as_operand(width), x.dtype), cast(as_operand(height), x.dtype)
        if is_relative[0]:
            x1, y1, x2, y2 = x1 * across, y1 * down, x2 * across, y2 * down
        else:
            x1, y1, x2, y2 = x1 / across, y1 / down, x2 / across, y2 / down
    return stack(_from_corners(x1, y1, x2, y2, new.removeprefix("rel_")), -1)


def _is_down_first(form: str) -> bool:
    return form.removeprefix("center_").startswith("yx")


def _corners(x: Any, form: str) -> tuple[Any, Any, Any, Any]:
    a, b, c, d = _parts(x)
    if _is_down_first(form):
        a, b, c, d = b, a, d, c
    if form.startswith("center"):
        return a - c / 2, b - d / 2, a + c / 2, b + d / 2
    return (a, b, a + c, b + d) if form == "xywh" else (a, b, c, d)


def _from_corners(x1: Any, y1: Any, x2: Any, y2: Any, form: str) -> list[Any]:
    if form.startswith("center"):
        a, b, c, d = (x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1
    else:
        a, b, c, d = (x1, y1, x2 - x1, y2 - y1) if form == "xywh" else (x1, y1, x2, y2)
    return [b, a, d, c] if _is_down_first(form) else [a, b, c, d]


def clip_to_image_size(
    bounding_boxes: Mapping[str, Any],
    height: Any = None,
    width: Any = None,
    bounding_box_format: str = "xyxy",
) -> dict[str, Any]:
    """Clip the "boxes" of a dict to images; "labels" of boxes that vanish become -1.

    >>> found = clip_to_image_size({"boxes": [[-5.0, 2.0, 3.0, 30.0]], "labels": [7]}, 10, 10)
    >>> found["boxes"].tolist(), found["labels"].tolist()
    ([[0.0, 2.0, 3.0, 10.0]], [7])
    """
    if bounding_box_format not in ("xyxy", "rel_xyxy"):
        raise ArgumentError(
            "clip_to_image_size takes the formats 'xyxy' and 'rel_xyxy'. "
            f"Got {bounding_box_format!r}; convert_format converts others."
        )
    if not hasattr(bounding_boxes, "get") or bounding_boxes.get("boxes") is None:
        raise ArgumentError(f"clip_to_image_size takes a dict with boxes. Got {bounding_boxes!r}.")
    if bounding_box_format == "rel_xyxy":
        height = width = 1
    elif height is None or width is None:
        raise ArgumentError("clip_to_image_size needs the height and width of images for 'xyxy'.")
    boxes = as_operand(bounding_boxes["boxes"])
    x1, y1, x2, y2 = _clipped(_parts(boxes), height, width)
    found = {**bounding_boxes, "boxes": stack([x1, y1, x2, y2], -1)}
    if bounding_boxes.get("labels") is not None:
        labels = as_operand(bounding_boxes["labels"])
        found["labels"] = where((x2 - x1) * (y2 - y1) > 0, labels, cast(-1, labels.dtype))
    return found


def _clipped(parts: list[Any], height: Any, width: Any) -> list[Any]:
    limits = [cast(as_operand(limit), parts[0].dtype) for limit in (width, height) * 2]
    return [clip(part, 0, limit) for part, limit in zip(parts, limits, strict=True)]


def _check_corners(name: str, form: str) -> None:
    if form != "xyxy":
        raise ArgumentError(
            f"{name} takes the format 'xyxy'. Got {form!r}; convert_format converts others."
        )


def crop(
    boxes: Any,
    top: Any,
    left: Any,
    height: Any,
    width: Any,
    bounding_box_format: str = "xyxy",
) -> Any:
    """Return the boxes in a part of the image.

    >>> crop([[10.0, 20.0, 50.0, 60.0]], 10, 20, 40, 30).tolist()
    [[0.0, 10.0, 30.0, 40.0]]
    """
    _check_corners("crop", bounding_box_format)
    x1, y1, x2, y2 = _parts(as_operand(boxes))
    return stack(_clipped([x1 - left, y1 - top, x2 - left, y2 - top], height, width), -1)


def pad(
    boxes: Any,
    top: Any,
    left: Any,
    height: Any = None,
    width: Any = None,
    bounding_box_format: str = "xyxy",
) -> Any:
    """Return the boxes in an image that is padded at its top and left.

    >>> pad([[10.0, 20.0, 50.0, 60.0]], 1, 2).tolist()
    [[12.0, 21.0, 52.0, 61.0]]
    """
    _check_corners("pad", bounding_box_format)
    x1, y1, x2, y2 = _parts(as_operand(boxes))
    return stack([x1 + left, y1 + top, x2 + left, y2 + top], -1)


def encode_box_to_deltas(
    anchors: Any,
    boxes: Any,
    anchor_format: str,
    box_format: str,
    encoding_format: str = "center_yxhw",
    variance: Any = None,
    image_shape: Any = None,
) -> Any:
    """Return boxes relative to anchors: differences of centres, and logarithms of sizes.

    >>> anchors, boxes = [[0.0, 0.0, 10.0, 10.0]], [[0.0, 5.0, 10.0, 15.0]]
    >>> encode_box_to_deltas(anchors, boxes, "xyxy", "xyxy").tolist()
    [[0.5, 0.0, 0.0, 0.0]]
    """
    scale = _variance(variance, encoding_format)
    size = _size_of(image_shape)
    first = convert_format(anchors, anchor_format, encoding_format, *size)
    second = convert_format(boxes, box_format, encoding_format, *size)
    sides, others = maximum(first[..., 2:], epsilon()), maximum(second[..., 2:], epsilon())
    found = concat([(second[..., :2] - first[..., :2]) / sides, log(others / sides)], -1)
    return found if scale is None else found / scale


def decode_deltas_to_boxes(
    anchors: Any,
    boxes_delta: Any,
    anchor_format: str,
    box_format: str,
    encoded_format: str = "center_yxhw",
    variance: Any = None,
    image_shape: Any = None,
) -> Any:
    """Return the boxes of `encode_box_to_deltas`; anchors and deltas may be dicts of levels.

    >>> anchors, deltas = [[0.0, 0.0, 10.0, 10.0]], [[0.5, 0.0, 0.0, 0.0]]
    >>> decode_deltas_to_boxes(anchors, deltas, "xyxy", "xyxy").tolist()
    [[0.0, 5.0, 10.0, 15.0]]
    """
    rest = (anchor_format, box_format, encoded_format, variance, image_shape)
    if isinstance(anchors, Mapping):
        return {
            level: decode_deltas_to_boxes(one, boxes_delta[level], *rest)
            for level, one in anchors.items()
        }
    scale = _variance(variance, encoded_format)
    size = _size_of(image_shape)
    first = convert_format(anchors, anchor_format, encoded_format, *size)
    deltas = cast(as_operand(boxes_delta), first.dtype)
    _parts(deltas)
    deltas = deltas if scale is None else deltas * scale
    sides = first[..., 2:]
    found = concat([deltas[..., :2] * sides + first[..., :2], exp(deltas[..., 2:]) * sides], -1)
    return convert_format(found, encoded_format, box_format, *size)


def _variance(variance: Any, form: str) -> Any:
    if form not in ("center_xywh", "center_yxhw"):
        raise ArgumentError(f"Boxes are encoded as 'center_xywh' or 'center_yxhw'. Got {form!r}.")
    if variance is None:
        return None
    found = cast(as_operand(variance), "float32")
    if not found.shape or found.shape[-1] != 4:
        raise ShapeError(f"variance has four numbers. Got shape {tuple(found.shape)}.")
    return found


def _size_of(image_shape: Any) -> tuple[Any, Any]:
    return (None, None) if image_shape is None else (image_shape[0], image_shape[1])


def compute_iou(
    boxes1: Any,
    boxes2: Any,
    bounding_box_format: str,
    use_masking: bool = False,
    mask_val: Any = -1,
    image_shape: Any = None,
) -> Any:
    """Return the intersection over the union of all pairs of boxes.

    With `use_masking`, pairs with a box of negative numbers get `mask_val`.

    >>> x = [[0.0, 0.0, 2.0, 2.0]]
    >>> [f"{n:.4f}" for n in compute_iou(x, [[1.0, 0.0, 3.0, 2.0]], "xyxy").numpy().ravel()]
    ['0.3333']
    """
    first, second = (
        convert_format(boxes, bounding_box_format, "xyxy", *_size_of(image_shape))
        for boxes in (boxes1, boxes2)
    )
    if len(first.shape) not in (2, 3) or len(second.shape) not in (2, 3):
        raise ShapeError(
            "compute_iou takes boxes of 2 dimensions, or 3 with a batch. "
            f"Got shapes {tuple(first.shape)} and {tuple(second.shape)}."
        )
    a, b = first[..., :, None, :], second[..., None, :, :]
    both, either = _overlap(a, b)
    found = both / (either + epsilon())
    if not use_masking:
        return found
    hidden = logical_or(reduce_max(a, -1) < 0, reduce_max(b, -1) < 0)
    return where(hidden, cast(as_operand(mask_val), found.dtype), found)


def _overlap(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the areas of the intersection and of the union of boxes "xyxy"."""
    low, high = maximum(a[..., :2], b[..., :2]), minimum(a[..., 2:], b[..., 2:])
    sides = maximum(high - low, 0.0)
    both = sides[..., 0] * sides[..., 1]
    areas = [(x[..., 2] - x[..., 0]) * (x[..., 3] - x[..., 1]) for x in (a, b)]
    return both, areas[0] + areas[1] - both


def compute_ciou(
    boxes1: Any, boxes2: Any, bounding_box_format: str, image_shape: Any = None
) -> Any:
    """Return the complete intersection over union of boxes at the same places.

    It also punishes the distance of centres and the difference of the ratios of sides.

    >>> f"{compute_ciou([[0.0, 0.0, 2.0, 2.0]], [[0.0, 0.0, 2.0, 2.0]], 'xyxy').tolist()[0]:.4f}"
    '1.0000'
    """
    a, b = (
        convert_format(boxes, bounding_box_format, "xyxy", *_size_of(image_shape))
        for boxes in (boxes1, boxes2)
    )
    both, either = _overlap(a, b)
    iou = both / (either + epsilon())
    around = maximum(a[..., 2:], b[..., 2:]) - minimum(a[..., :2], b[..., :2])
    between = (a[..., :2] + a[..., 2:] - b[..., :2] - b[..., 2:]) / 2
    far = _squares(between) / (_squares(around) + epsilon())
    angles = [atan((x[..., 2] - x[..., 0]) / (x[..., 3] - x[..., 1] + epsilon())) for x in (a, b)]
    shape = (4 / math.pi**2) * (angles[1] - angles[0]) ** 2
    return iou - far - shape * (shape / (shape - iou + (1 + epsilon())))


def _squares(x: Any) -> Any:
    return x[..., 0] ** 2 + x[..., 1] ** 2


__all__ = [
    "clip_to_image_size",
    "compute_ciou",
    "compute_iou",
    "convert_format",
    "crop",
    "decode_deltas_to_boxes",
    "encode_box_to_deltas",
    "pad",
]

_check_calls(globals(), __all__)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise _absent_name("keras.utils.bounding_boxes", name, __all__)
