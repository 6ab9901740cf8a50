"""Einstein summation by diagonals, sums, transposes and matrix products.

equation.py parses the equation. Every step here works on tensors with one letter per axis.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.operand import common_operands
from tapegrad.errors import ArgumentError
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.products.equation import read_equation
from tapegrad.ops.products.primitives import matmul_p
from tapegrad.ops.shape.primitives import permute_p, reshape_p, sum_p

Labelled = tuple[Any, str]
"""A tensor and one label per axis."""


def einsum(equation: Any, *inputs: Any, name: str | None = None, optimize: Any = None) -> Any:
    """Evaluate the Einstein summation convention on tensors.

    Both call styles of NumPy work: `einsum("ij,jk->ik", a, b)` and
    `einsum(a, [0, 1], b, [1, 2], [0, 2])`. Repeated labels (diagonals), `...` and equations
    without an output are supported. Three or more operands are contracted in pairs, the pair with
    the smallest result first. `optimize` is accepted for compatibility and ignored.

    >>> a = [[1.0, 2.0], [3.0, 4.0]]
    >>> float(einsum("ii", a)), einsum("ij,kj->ik", a, a).tolist()
    (5.0, [[5.0, 11.0], [11.0, 25.0]])
    """
    if not isinstance(equation, str):
        equation, inputs = _from_lists(equation, *inputs)
    operands = common_operands(*inputs)
    terms, output = read_equation(equation, [tuple(x.shape) for x in operands])
    labelled = [_drop_units(x, term, terms, operands) for x, term in zip(operands, terms)]
    while len(labelled) > 1:
        first, second = _cheapest_pair(labelled, output)
        others = [pair for i, pair in enumerate(labelled) if i not in (first, second)]
        rest = "".join(labels for _, labels in others) + output
        labelled = [*others, _contract(labelled[first], labelled[second], rest, output)]
    x, labels = _reduce(labelled[0], output)
    return _permute(x, labels, output)


def _from_lists(*arguments: Any) -> tuple[str, tuple[Any, ...]]:
    """Convert NumPy's second call style to the first."""
    has_output = len(arguments) % 2 == 1
    if len(arguments) < 2:
        raise ArgumentError(
            "einsum needs an equation, or pairs of a tensor and a list of its axis labels."
        )
    tensors, lists = arguments[: len(arguments) - has_output : 2], arguments[1::2]
    equation = ",".join(_letters(numbers) for numbers in lists)
    return (f"{equation}->{_letters(arguments[-1])}" if has_output else equation), tensors


def _letters(numbers: Any) -> str:
    return "".join("..." if n is Ellipsis else chr(ord("a") + int(n)) for n in numbers)


def _drop_units(x: Any, term: str, terms: list[str], operands: list[Any]) -> Labelled:
    """Drop axes of length 1 whose label is longer in another operand: they broadcast."""
    sizes: dict[str, int] = {}
    for labels, operand in zip(terms, operands):
        for label, n in zip(labels, operand.shape):
            sizes[label] = n if sizes.get(label, 1) == 1 else sizes[label]
    keep = [i for i, label in enumerate(term) if x.shape[i] == sizes[label]]
    if len(keep) == len(term):
        return _diagonals(x, term)
    kept = "".join(term[i] for i in keep)
    return _diagonals(reshape_p(x, shape=tuple(x.shape[i] for i in keep)), kept)


def _diagonals(x: Any, labels: str) -> Labelled:
    """Take the diagonal of each repeated label."""
    for label in labels:
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            others = [i for i in range(len(labels)) if i not in (first, second)]
            x = _diagonal(permute_p(x, axes=(*others, first, second)))
            labels = "".join(labels[i] for i in others) + label
    return x, labels


def _diagonal(x: Any) -> Any:
    """Return the diagonals of square matrices: every (n + 1)th of their n² elements."""
    *lead, n, _ = x.shape
    flat = reshape_p(x, shape=(*lead, n * n))
    return slice_p(flat, index=(*[slice(None)] * len(lead), slice(None, None, n + 1)))


def _reduce(pair: Labelled, needed: str) -> Labelled:
    """Sum over the axes whose labels are not in `needed`."""
    x, labels = pair
    summed = tuple(i for i, label in enumerate(labels) if label not in needed)
    if summed:
        x = sum_p(x, axis=summed, keepdims=False)
    return x, "".join(label for label in labels if label in needed)


def _permute(x: Any, labels: str, wanted: str) -> Any:
    if labels == wanted:
        return x
    return permute_p(x, axes=tuple(labels.index(label) for label in wanted))


def _cheapest_pair(labelled: list[Labelled], output: str) -> tuple[int, int]:
    """Return the pair whose contraction reduces the total size most."""
    if len(labelled) == 2:
        return 0, 1
    sizes = {label: n for x, labels in labelled for label, n in zip(labels, x.shape)}

    def growth(i: int, j: int) -> int:
        rest = output + "".join(labels for k, (_, labels) in enumerate(labelled) if k not in (i, j))
        left, right = set(labelled[i][1]), set(labelled[j][1])
        result = _volume((left | right) & set(rest), sizes)
        return result - _volume(left, sizes) - _volume(right, sizes)

    pairs = [(i, j) for i in range(len(labelled)) for j in range(i + 1, len(labelled))]
    return min(pairs, key=lambda pair: growth(*pair))


def _volume(labels: set[str], sizes: dict[str, int]) -> int:
    volume = 1
    for label in labels:
        volume *= sizes[label]
    return volume


def _contract(first: Labelled, second: Labelled, needed: str, output: str) -> Labelled:
    """Multiply two tensors and sum over the shared labels that are not `needed`."""
    first, second = _reduce(first, second[1] + needed), _reduce(second, first[1] + needed)
    summed = [label for label in first[1] if label in second[1] and label not in needed]
    if not summed:
        return _multiply(first, second, output)
    if _wants_swap(first[1], second[1], output):
        first, second = second, first
        summed = [label for label in first[1] if label in summed]
    return _multiply_matrices(first, second, "".join(summed))


def _multiply(first: Labelled, second: Labelled, output: str) -> Labelled:
    """Multiply two tensors without summing: align the axes and broadcast."""
    found = set(first[1]) | set(second[1])
    labels = "".join(label for label in output if label in found)
    labels += "".join(sorted(found - set(labels)))
    return _align(first, labels) * _align(second, labels), labels


def _align(pair: Labelled, labels: str) -> Any:
    x, own = pair
    x = _permute(x, own, "".join(label for label in labels if label in own))
    sizes = iter(x.shape)
    shape = tuple(next(sizes) if label in own else 1 for label in labels)
    return x if tuple(x.shape) == shape else reshape_p(x, shape=shape)


def _wants_swap(first: str, second: str, output: str) -> bool:
    """Return whether labels of only the second operand come first in the output."""
    for label in output:
        if (label in first) != (label in second):
            return label in second
    return False


def _multiply_matrices(first: Labelled, second: Labelled, summed: str) -> Labelled:
    """Contract two tensors by one matrix product.

    Labels are batch labels (kept, in both), own labels (in one operand) and summed labels.
    """
    batch = "".join(label for label in first[1] if label in second[1] and label not in summed)
    own_a = "".join(label for label in first[1] if label not in second[1])
    own_b = "".join(label for label in second[1] if label not in first[1])
    a, transpose_a = _as_matrices(first, batch, own_a, summed)
    b, not_transposed = _as_matrices(second, batch, own_b, summed)
    product = matmul_p(a, b, transpose_a=transpose_a, transpose_b=not not_transposed)
    sizes = {label: n for x, labels in (first, second) for label, n in zip(labels, x.shape)}
    labels = batch + own_a + own_b
    shape = tuple(sizes[label] for label in labels)
    return (product if product.shape == shape else reshape_p(product, shape=shape)), labels


def _as_matrices(pair: Labelled, batch: str, own: str, summed: str) -> tuple[Any, bool]:
    """Return [batch, own, summed] and False, or [batch, summed, own] and True if in this order."""
    x, labels = pair
    swapped = labels == batch + summed + own
    order = (batch, summed, own) if swapped else (batch, own, summed)
    sizes = dict(zip(labels, x.shape))
    x = _permute(x, labels, "".join(order))
    shape = (
        *(sizes[label] for label in batch),
        _volume(set(order[1]), sizes),
        _volume(set(order[2]), sizes),
    )
    return (x if x.shape == shape else reshape_p(x, shape=shape)), swapped
