"""Array functions of keras.backend whose arguments or results differ from those of tapegrad."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError
from tapegrad.keras.config import epsilon, floatx
from tapegrad.ops import creation
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.control.stop_gradient import stop_gradient as without_gradient
from tapegrad.ops.elementwise import activations
from tapegrad.ops.elementwise.exponential import exp, log
from tapegrad.ops.elementwise.powers import sqrt as square_root
from tapegrad.ops.elementwise.selection import clip as clip_between, maximum, minimum
from tapegrad.ops.elementwise.sigmoids import sigmoid
from tapegrad.ops.indexing import sorting
from tapegrad.ops.nn.losses import sigmoid_cross_entropy_with_logits
from tapegrad.ops.nn.softmax import softmax as softmax_of_rows
from tapegrad.ops.products.einsum import einsum
from tapegrad.ops.products.functions import matmul, tensordot
from tapegrad.ops.reduction import functions as reductions
from tapegrad.ops.reduction.cumulative import cumprod as running_product
from tapegrad.ops.shape import functions as shapes
from tapegrad.ops.shape.joining import concat
from tapegrad.ops.shape.rearranging import (
    repeat as repeat_each,
    reverse as reverse_axes,
    tile as tiled,
)


def _numbers(x: Any) -> Any:
    """Return a tensor; booleans become numbers, so that they have a mean."""
    x = as_operand(x)
    return cast(x, floatx()) if x.dtype == "bool" else x


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the mean along axes; booleans count as 0 and 1.

    >>> mean([True, False]).tolist()
    0.5
    """
    return reductions.reduce_mean(_numbers(x), axis, keepdims)


def std(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the standard deviation along axes.

    >>> std([1.0, 3.0]).tolist()
    1.0
    """
    return reductions.reduce_std(_numbers(x), axis, keepdims)


def var(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the variance along axes.

    >>> var([1.0, 5.0]).tolist()
    4.0
    """
    return reductions.reduce_variance(_numbers(x), axis, keepdims)


def any(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return whether any element along the axes is not zero.

    >>> any([0, 2]).tolist()
    True
    """
    return reductions.reduce_any(cast(x, "bool"), axis, keepdims)


def all(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return whether no element along the axes is zero.

    >>> all([0, 2]).tolist()
    False
    """
    return reductions.reduce_all(cast(x, "bool"), axis, keepdims)


def argmax(x: Any, axis: int = -1) -> Any:
    """Return the index of the largest element along an axis, by default the last.

    >>> argmax([[1.0, 3.0], [5.0, 2.0]]).tolist()
    [1, 0]
    """
    return reductions.argmax(x, axis)


def argmin(x: Any, axis: int = -1) -> Any:
    """Return the index of the smallest element along an axis, by default the last.

    >>> argmin([[1.0, 3.0], [5.0, 2.0]]).tolist()
    [0, 1]
    """
    return reductions.argmin(x, axis)


def cumprod(x: Any, axis: int = 0) -> Any:
    """Return the products of all elements up to each one along an axis.

    >>> cumprod([2.0, 3.0]).tolist()
    [2.0, 6.0]
    """
    return running_product(x, axis)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = "int32") -> Any:
    """Return numbers from `start`, or 0, to `stop`, by default integers.

    >>> arange(3).dtype.name, arange(-2).tolist()
    ('int32', [])
    """
    if stop is None:
        start, stop = 0, start
    return creation.range(start, stop, step, dtype)


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str | None = None) -> Any:
    """Return a constant tensor of the default dtype.

    >>> constant([1, 2]).dtype.name
    'float32'
    """
    return creation.constant(value, dtype or floatx(), shape)


def one_hot(indices: Any, num_classes: int) -> Any:
    """Return the one-hot encoding along a new last axis.

    >>> one_hot([0, 2], 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    return creation.one_hot(indices, num_classes)


def expand_dims(x: Any, axis: int = -1) -> Any:
    """Return a tensor with a new axis of length 1, by default the last.

    >>> expand_dims([1.0, 2.0]).shape
    (2, 1)
    """
    return shapes.expand_dims(x, axis)


def flatten(x: Any) -> Any:
    """Return all elements in one row.

    >>> flatten([[1.0], [2.0]]).tolist()
    [1.0, 2.0]
    """
    return shapes.reshape(x, (-1,))


def batch_flatten(x: Any) -> Any:
    """Flatten all axes but the first.

    >>> batch_flatten([[[1.0], [2.0]]]).shape
    (1, 2)
    """
    x = as_operand(x)
    return shapes.reshape(x, (x.shape[0], -1))


def permute_dimensions(x: Any, pattern: Sequence[int]) -> Any:
    """Return a tensor with its axes in another order.

    >>> permute_dimensions([[1.0, 2.0]], (1, 0)).shape
    (2, 1)
    """
    return shapes.transpose(x, pattern)


def concatenate(tensors: Sequence[Any], axis: int = -1) -> Any:
    """Join tensors along an axis, by default the last.

    >>> concatenate([[[1.0]], [[2.0]]]).tolist()
    [[1.0, 2.0]]
    """
    return concat(tensors, axis)


def repeat(x: Any, n: int) -> Any:
    """Return `[batch, n, features]` with the rows of `[batch, features]` repeated.

    >>> repeat([[1.0, 2.0]], 3).shape
    (1, 3, 2)
    """
    x = as_operand(x)
    if len(x.shape) != 2:
        raise ArgumentError(f"repeat takes a batch of vectors. Got shape {x.shape}.")
    return tiled(shapes.expand_dims(x, 1), (1, n, 1))


def repeat_elements(x: Any, rep: int, axis: int) -> Any:
    """Repeat each element along an axis.

    >>> repeat_elements([1.0, 2.0], 2, 0).tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    return repeat_each(x, rep, axis)


def tile(x: Any, n: Any) -> Any:
    """Return a tensor repeated `n` times, a number or one number for each axis.

    >>> tile([1.0, 2.0], 2).tolist()
    [1.0, 2.0, 1.0, 2.0]
    """
    return tiled(x, [n] if isinstance(n, int) else n)


def reverse(x: Any, axes: Any) -> Any:
    """Return the elements in reverse order along one axis or several.

    >>> reverse([1.0, 2.0], 0).tolist()
    [2.0, 1.0]
    """
    return reverse_axes(x, [axes] if isinstance(axes, int) else axes)


def squeeze(x: Any, axis: int) -> Any:
    """Remove an axis of length 1.

    >>> squeeze([[1.0, 2.0]], 0).tolist()
    [1.0, 2.0]
    """
    return shapes.squeeze(x, [axis])


def transpose(x: Any) -> Any:
    """Return a tensor with its axes in reverse order.

    >>> transpose([[1.0, 2.0]]).shape
    (2, 1)
    """
    return shapes.transpose(x)


def clip(x: Any, min_value: Any, max_value: Any) -> Any:
    """Limit elements to an interval; None is no bound, and an upper bound is at least the lower.

    >>> clip([-2.0, 0.5, 3.0], None, 1.0).tolist()
    [-2.0, 0.5, 1.0]
    """
    if min_value is not None and isinstance(max_value, int | float):
        max_value = max(min_value, max_value) if isinstance(min_value, int | float) else max_value
    if min_value is None or max_value is None:
        low = as_operand(x) if min_value is None else maximum(x, min_value)
        return low if max_value is None else minimum(low, max_value)
    return clip_between(x, min_value, max_value)


def sqrt(x: Any) -> Any:
    """Return the square root, and 0 for negative numbers.

    >>> sqrt([4.0, -1.0]).tolist()
    [2.0, 0.0]
    """
    return square_root(maximum(as_operand(x), 0.0))


def relu(x: Any, alpha: float = 0.0, max_value: float | None = None, threshold: float = 0.0) -> Any:
    """Return x above `threshold`, at most `max_value`, and alpha * (x - threshold) below.

    >>> relu([-2.0, 0.5, 9.0], alpha=0.5, max_value=6.0).tolist()
    [-1.0, 0.5, 6.0]
    """
    x = as_operand(x)
    if not threshold:
        above = activations.relu(x)
    else:
        above = x * cast(x > threshold, x.dtype)
    if max_value is not None:
        above = minimum(above, max_value)
    return above if not alpha else above - alpha * activations.relu(threshold - x)


def hard_sigmoid(x: Any) -> Any:
    """Return 0.2 * x + 0.5 between 0 and 1, the formula of earlier versions.

    >>> hard_sigmoid([-4.0, 0.0, 4.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    return clip_between(0.2 * as_operand(x) + 0.5, 0.0, 1.0)


def softmax(x: Any, axis: Any = -1) -> Any:
    """Return the softmax along one axis or several.

    >>> softmax([[0.0, 0.0]]).tolist()
    [[0.5, 0.5]]
    """
    x = as_operand(x)
    if len(x.shape) < 2:
        raise ArgumentError(f"softmax takes two dimensions or more. Got shape {x.shape}.")
    if isinstance(axis, int):
        return softmax_of_rows(x, axis)
    logs = x - reductions.reduce_logsumexp(x, list(axis), True)
    return exp(logs)


def in_top_k(predictions: Any, targets: Any, k: int) -> Any:
    """Return whether the target is among the k largest predictions of each row.

    >>> in_top_k([[0.1, 0.7, 0.2]], [2], 2).tolist()
    [True]
    """
    return sorting.in_top_k(targets, predictions, k)


def stop_gradient(variables: Any) -> Any:
    """Return the values as constants; a list gives a list.

    >>> [x.tolist() for x in stop_gradient([[1.0], [2.0]])]
    [[1.0], [2.0]]
    """
    if isinstance(variables, list | tuple):
        return [without_gradient(one) for one in variables]
    return without_gradient(variables)


def binary_crossentropy(target: Any, output: Any, from_logits: bool = False) -> Any:
    """Return the cross entropy of each binary label.

    >>> [f"{x:.4f}" for x in binary_crossentropy([0.0, 1.0], [0.5, 0.5]).tolist()]
    ['0.6931', '0.6931']
    """
    output = as_operand(output)
    target = cast(target, output.dtype)
    if from_logits:
        return sigmoid_cross_entropy_with_logits(labels=target, logits=output)
    small = epsilon()
    chance = clip_between(output, small, 1.0 - small)
    return -(target * log(chance + small) + (1.0 - target) * log(1.0 - chance + small))


def binary_focal_crossentropy(
    target: Any,
    output: Any,
    apply_class_balancing: bool = False,
    alpha: float = 0.25,
    gamma: float = 2.0,
    from_logits: bool = False,
) -> Any:
    """Return the focal cross entropy of each binary label.

    >>> f"{binary_focal_crossentropy([1.0], [0.5]).tolist()[0]:.4f}"
    '0.1733'
    """
    output = as_operand(output)
    target = cast(target, output.dtype)
    chance = sigmoid(output) if from_logits else output
    of_target = target * chance + (1.0 - target) * (1.0 - chance)
    terms = (1.0 - of_target) ** gamma * binary_crossentropy(target, output, from_logits)
    return (
        (target * alpha + (1.0 - target) * (1.0 - alpha)) * terms
        if apply_class_balancing
        else terms
    )


def categorical_focal_crossentropy(
    target: Any,
    output: Any,
    alpha: float = 0.25,
    gamma: float = 2.0,
    from_logits: bool = False,
    axis: int = -1,
) -> Any:
    """Return the focal cross entropy of class probabilities, such as one-hot labels.

    >>> f"{categorical_focal_crossentropy([[0.0, 1.0]], [[0.5, 0.5]]).tolist()[0]:.4f}"
    '0.0433'
    """
    output = as_operand(output)
    chances = softmax_of_rows(output, axis) if from_logits else output
    chances = chances / reductions.reduce_sum(chances, axis, True)
    chances = clip_between(chances, epsilon(), 1.0 - epsilon())
    terms = -cast(target, output.dtype) * log(chances)
    return reductions.reduce_sum(alpha * (1.0 - chances) ** gamma * terms, axis)


def dot(x: Any, y: Any) -> Any:
    """Sum the products along the last axis of x and the last but one of y.

    >>> dot([[1.0, 2.0]], [[3.0], [4.0]]).tolist()
    [[11.0]]
    """
    x, y = as_operand(x), as_operand(y)
    if builtins.max(len(x.shape), len(y.shape)) <= 2:
        return matmul(x, y)
    return tensordot(x, y, ([len(x.shape) - 1], [len(y.shape) - 2]))


def batch_dot(x: Any, y: Any, axes: Any = None) -> Any:
    """Sum the products of two batches along one axis of each, `axes`; the batch stays apart.

    The default axes are the last of x and the last but one of y.

    >>> batch_dot([[1.0, 2.0]], [[3.0, 4.0]], axes=1).tolist()
    [[11.0]]
    """
    x, y = as_operand(x), as_operand(y)
    ranks = len(x.shape), len(y.shape)
    if builtins.min(ranks) < 2:
        raise ArgumentError(f"batch_dot takes batches of vectors. Got shapes {x.shape}, {y.shape}.")
    if axes is None:
        axes = (ranks[0] - 1, 1 if ranks[1] == 2 else ranks[1] - 2)
    pair = (axes, axes) if isinstance(axes, int) else tuple(axes)
    one, other = (axis % rank for axis, rank in zip(pair, ranks))
    if not one or not other:
        raise ArgumentError(f"batch_dot cannot sum along axis 0, the batch. Got axes={axes!r}.")
    left = ["a", *"bcdefgh"[: ranks[0] - 1]]
    right = ["a", *"ijklmno"[: ranks[1] - 1]]
    left[one] = right[other] = "z"
    kept = ["a", *(c for c in left[1:] + right[1:] if c != "z")]
    result = einsum(f"{''.join(left)},{''.join(right)}->{''.join(kept)}", x, y)
    return shapes.reshape(result, (-1, 1)) if len(kept) == 1 else result
