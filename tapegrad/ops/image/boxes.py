"""Non-maximum suppression of boxes, on the host: the number of results depends on values."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.argument_checks import check_count
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.convert import read_on_host
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.indexing.gather import place_next_to
from tapegrad.ops.kinds import kind_of

Host = np.ndarray[Any, Any]


def _overlap(box: Host, boxes: Host) -> Host:
    """Return the intersection over union of one box with others, 0 for boxes without an area."""
    low, high = np.minimum(box[:2], box[2:]), np.maximum(box[:2], box[2:])
    lows, highs = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    common = np.maximum(np.minimum(high, highs) - np.maximum(low, lows), 0.0).prod(axis=1)
    area, areas = (high - low).prod(), (highs - lows).prod(axis=1)
    union = area + areas - common
    is_box = (area > 0) & (areas > 0)
    found: Host = np.where(is_box, common / np.where(is_box, union, 1.0), 0.0)
    return found


def _select(
    boxes: Host, scores: Host, most: int, overlap: float, least: float, sigma: float = 0.0
) -> tuple[Host, Host]:
    """Return the chosen boxes by falling score, and their scores.

    Each choice removes the boxes that overlap it by more than `overlap`. With `sigma` it also
    lowers the scores of the others by exp(-overlap^2 / (2 sigma)).
    """
    left = np.array(scores, np.float64)
    left[~(left > least)] = -math.inf
    chosen: list[int] = []
    kept: list[float] = []
    while len(chosen) < most and left.size:
        best = int(np.argmax(left))  # of equal scores the first
        if left[best] == -math.inf:
            break
        chosen.append(best)
        kept.append(left[best])
        shared = _overlap(boxes[best], boxes)
        left[shared > overlap] = -math.inf
        if sigma > 0:
            left = left * np.exp(-(shared**2) / (2 * sigma))
            left[~(left > least)] = -math.inf
        left[best] = -math.inf
    return np.array(chosen, np.int32), np.array(kept, scores.dtype)


def _check_overlap(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ArgumentError(f"{name} needs an iou_threshold from 0 to 1. Got {value!r}.")


def _read(name: str, boxes: Any, scores: Any) -> tuple[Any, Host, Host]:
    """Return a tensor that shows the device, the boxes and their scores."""
    x, y = as_operand(boxes), as_operand(scores)
    if len(x.shape) != 2 or x.shape[1] != 4 or tuple(y.shape) != (x.shape[0],):
        raise ShapeError(
            f"{name} needs boxes of shape (boxes, 4) and scores of shape (boxes,). "
            f"Got {tuple(x.shape)} and {tuple(y.shape)}."
        )
    if kind_of(x) != "f" or kind_of(y) != "f":
        raise ArgumentError(
            f"{name} needs boxes and scores of floating-point numbers. Got {x.dtype} and {y.dtype}."
        )
    return x, read_on_host(x, name), read_on_host(y, name)


def non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: float = 0.5,
    score_threshold: float = -math.inf,
    name: str | None = None,
) -> Any:
    """Return the indices of at most `max_output_size` boxes, by falling score.

    Boxes are (y1, x1, y2, x2). A box is left out if its intersection over union with a better one
    is above `iou_threshold`, or if its score is not above `score_threshold`.

    >>> boxes = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.9], [2.0, 2.0, 3.0, 3.0]]
    >>> non_max_suppression(boxes, [0.5, 0.9, 0.7], 3).tolist()
    [1, 2]
    """
    x, corners, values = _read("non_max_suppression", boxes, scores)
    _check_overlap("non_max_suppression", iou_threshold)
    most = check_count("max_output_size", max_output_size, "non_max_suppression")
    chosen, _ = _select(corners, values, most, float(iou_threshold), float(score_threshold))
    return place_next_to(x, chosen)


def non_max_suppression_with_scores(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: float = 0.5,
    score_threshold: float = -math.inf,
    soft_nms_sigma: float = 0.0,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Return the indices of boxes by falling score, and these scores.

    With `soft_nms_sigma` above 0, overlaps lower the scores of boxes instead of removing them; set
    `iou_threshold` to 1 for it.

    >>> boxes = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.5]]
    >>> found = non_max_suppression_with_scores(boxes, [0.5, 0.25], 2, 1.0, soft_nms_sigma=0.5)
    >>> found[0].tolist()
    [0, 1]
    """
    called = "non_max_suppression_with_scores"
    x, corners, values = _read(called, boxes, scores)
    _check_overlap(called, iou_threshold)
    if not soft_nms_sigma >= 0:
        raise ArgumentError(f"{called} needs a soft_nms_sigma of at least 0. Got {soft_nms_sigma}.")
    most = check_count("max_output_size", max_output_size, called)
    limits = float(iou_threshold), float(score_threshold), float(soft_nms_sigma)
    chosen, kept = _select(corners, values, most, *limits)
    return place_next_to(x, chosen), place_next_to(x, kept)


def non_max_suppression_padded(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: float = 0.5,
    score_threshold: float = -math.inf,
    pad_to_max_output_size: bool = False,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Return the indices of boxes, padded with zeros if wanted, and how many of them are valid.

    >>> found = non_max_suppression_padded([[0.0, 0.0, 1.0, 1.0]], [0.5], 3, 0.5, 0.0, True)
    >>> found[0].tolist(), int(found[1])
    ([0, 0, 0], 1)
    """
    called = "non_max_suppression_padded"
    x, corners, values = _read(called, boxes, scores)
    _check_overlap(called, iou_threshold)
    most = check_count("max_output_size", max_output_size, called)
    chosen, _ = _select(corners, values, most, float(iou_threshold), float(score_threshold))
    count = np.array(len(chosen), np.int32)
    if pad_to_max_output_size:
        chosen = np.pad(chosen, (0, most - len(chosen)))
    return place_next_to(x, chosen), place_next_to(x, count)


class CombinedDetections(NamedTuple):
    """The boxes that `combined_non_max_suppression` keeps for each image, padded with zeros."""

    nmsed_boxes: Any
    nmsed_scores: Any
    nmsed_classes: Any
    valid_detections: Any


def combined_non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size_per_class: Any,
    max_total_size: Any,
    iou_threshold: float = 0.5,
    score_threshold: float = -math.inf,
    pad_per_class: bool = False,
    clip_boxes: bool = True,
    name: str | None = None,
) -> CombinedDetections:
    """Return the best boxes of each image over all classes, after suppression within each class.

    `boxes` has shape (batch, boxes, 1 or classes, 4) and `scores` (batch, boxes, classes). With
    `clip_boxes`, corners are clipped to [0, 1]. With `pad_per_class`, the results have at most
    `max_output_size_per_class` times the number of classes entries.

    >>> boxes, scores = [[[[0.0, 0.0, 1.0, 1.0]]]], [[[0.25, 0.5]]]
    >>> found = combined_non_max_suppression(boxes, scores, 1, 3)
    >>> found.nmsed_classes.tolist(), found.valid_detections.tolist()
    ([[1.0, 0.0, 0.0]], [2])
    """
    called = "combined_non_max_suppression"
    x, y = as_operand(boxes), as_operand(scores)
    classes = y.shape[-1] if len(y.shape) == 3 else -1
    if (
        len(x.shape) != 4
        or x.shape[3] != 4
        or x.shape[2] not in (1, classes)
        or (tuple(y.shape[:2]) != tuple(x.shape[:2]))
    ):
        raise ShapeError(
            f"{called} needs boxes of shape (batch, boxes, 1 or classes, 4) and scores of shape "
            f"(batch, boxes, classes). Got {tuple(x.shape)} and {tuple(y.shape)}."
        )
    _check_overlap(called, iou_threshold)
    each = check_count("max_output_size_per_class", max_output_size_per_class, called)
    total = check_count("max_total_size", max_total_size, called)
    if pad_per_class:
        total = min(total, each * classes)
    limits = each, float(iou_threshold), float(score_threshold)
    corners, values = read_on_host(x, called), read_on_host(y, called)
    found = [_of_image(corners[k], values[k], limits, total) for k in range(len(corners))]
    kept, best, label = (
        np.array([image[part] for image in found], corners.dtype).reshape(
            (len(found), total, *rest)
        )
        for part, rest in ((0, (4,)), (1, ()), (2, ()))
    )
    counts = np.array([image[3] for image in found], np.int32)
    kept = np.clip(kept, 0.0, 1.0) if clip_boxes else kept
    return CombinedDetections(*(place_next_to(x, part) for part in (kept, best, label, counts)))


def _of_image(
    boxes: Host, scores: Host, limits: tuple[int, float, float], total: int
) -> tuple[Host, Host, Host, int]:
    rows = []
    for label in range(scores.shape[1]):
        corners = boxes[:, min(label, boxes.shape[1] - 1)]
        chosen, kept = _select(corners, scores[:, label], *limits)
        rows += [(-score, label, *corners[k]) for k, score in zip(chosen, kept, strict=True)]
    rows.sort(key=lambda row: row[0])
    table = np.zeros((total, 6))
    best = rows[:total]
    if best:
        table[: len(best)] = best
    return table[:, 2:], -table[:, 0] + 0.0, table[:, 1], len(best)


def non_max_suppression_overlaps(
    overlaps: Any,
    scores: Any,
    max_output_size: Any,
    overlap_threshold: float = 0.5,
    score_threshold: float = -math.inf,
    name: str | None = None,
) -> Any:
    """Return the indices of boxes by falling score, with their overlaps given as a matrix.

    >>> non_max_suppression_overlaps([[1.0, 0.8], [0.8, 1.0]], [0.5, 0.75], 2).tolist()
    [1]
    """
    called = "non_max_suppression_overlaps"
    x, y = as_operand(overlaps), as_operand(scores)
    count = y.shape[0] if len(y.shape) == 1 else -1
    if tuple(x.shape) != (count, count):
        raise ShapeError(
            f"{called} needs overlaps of shape (boxes, boxes) and scores of shape (boxes,). "
            f"Got {tuple(x.shape)} and {tuple(y.shape)}."
        )
    most = check_count("max_output_size", max_output_size, called)
    shared, values = read_on_host(x, called), read_on_host(y, called)
    chosen: list[int] = []
    for k in np.argsort(-values, kind="stable"):
        if len(chosen) == most or not values[k] > score_threshold:
            break
        if not (shared[k, chosen] > overlap_threshold).any():
            chosen.append(int(k))
    return place_next_to(x, np.array(chosen, np.int32))
