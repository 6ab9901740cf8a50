"""Samples made from other samples: other layouts in memory, other shapes, complex arguments.

A variant is a sample with the same function, so that every check runs on it. A layout is made
inside the call, by a view of an argument: a contiguous tensor reaches the function with the strides
of the variant, and its derivatives pass through the view.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tapegrad.ops.shape.functions import transpose
from tapegrad.testing.sample import Function, Maker, Sample

Array = np.ndarray

_EVERY_SECOND = slice(1, None, 2)
_BACKWARDS = slice(None, None, -1)


def with_imaginary_part(maker: Maker) -> Maker:
    """Return a maker of complex numbers with the real parts of another one.

    >>> from tapegrad.testing.sample import fixed
    >>> with_imaginary_part(fixed([1.0, 2.0]))(np.random.default_rng(0)).real.tolist()
    [1.0, 2.0]
    """

    def make(rng: np.random.Generator) -> Array:
        x = maker(rng)
        return x + 0.3j * rng.normal(size=x.shape) if x.dtype.kind == "f" else x

    return make


def complex_form(sample: Sample) -> Sample:
    """Return a sample whose real arguments are complex; whole numbers stay.

    >>> from tapegrad.testing.sample import Sample, normal
    >>> complex_form(Sample("square", lambda x: x * x, [normal(3)])).make()[0].dtype.name
    'complex128'
    """
    return replace(sample, args=[with_imaginary_part(maker) for maker in sample.args])


# Layouts: how an argument is stored, and the view that the function gets


def _interleaved(x: Array) -> Array:
    """Put other numbers around and between those of an array along every axis."""
    big = np.repeat(x, 2, 0) if x.ndim else x
    for axis in range(1, x.ndim):
        big = np.repeat(big, 2, axis)
    return np.array(big, order="C")  # ascontiguousarray would add an axis to a number


def _part(x: Any) -> Any:
    return x[(_EVERY_SECOND,) * len(x.shape)] if len(x.shape) else x


def _reversed(x: Any) -> Any:
    return x[(_BACKWARDS,) * len(x.shape)] if len(x.shape) else x


def _transposed(x: Any) -> Any:
    return np.transpose(x) if isinstance(x, np.ndarray) else transpose(x)


LAYOUTS: dict[str, tuple[Callable[[Array], Array], Callable[[Any], Any]]] = {
    "strided": (_interleaved, _part),
    "reversed": (lambda x: np.array(_reversed(x), order="C"), _reversed),
    "fortran": (lambda x: np.array(np.transpose(x), order="C"), _transposed),
}
"""By name: how an argument is stored, and how the function sees it."""


def with_layout(sample: Sample, layout: str) -> Sample | None:
    """Return a sample whose arguments are views; None if no argument has axes for that.

    >>> from tapegrad.testing.sample import Sample, normal
    >>> sample = Sample("square", lambda x: x * x, [normal(2, 3)], lambda x: x * x)
    >>> with_layout(sample, "fortran").make()[0].shape
    (3, 2)
    """
    store, view = LAYOUTS[layout]
    least = 2 if layout == "fortran" else 1
    if all(x.ndim < least for x in sample.make()):
        return None

    def viewed(function: Function) -> Function:
        return lambda *args: function(*[view(x) for x in args])

    def stored(maker: Maker) -> Maker:
        return lambda rng: np.asarray(store(maker(rng)))

    return replace(
        sample,
        name=f"{sample.name}@{layout}",
        function=viewed(sample.function),
        args=[stored(maker) for maker in sample.args],
        reference=None if sample.reference is None else viewed(sample.reference),
    )


# Shapes: for functions that work element by element


def is_elementwise(sample: Sample) -> bool:
    """Return whether the reference gives one number per element, from that element alone.

    >>> from tapegrad.testing.sample import Sample, normal
    >>> is_elementwise(Sample("square", lambda x: x * x, [normal(3)], lambda x: x * x))
    True
    >>> is_elementwise(Sample("sum", lambda x: x.sum(), [normal(3)], lambda x: x.sum()))
    False
    """
    arrays = sample.make()
    shapes = {x.shape for x in arrays}
    if sample.reference is None or len(shapes) != 1 or math.prod(*shapes) < 2:
        return False
    (shape,) = shapes
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a reference may complain about a single number
        try:
            whole = _as_tuple(sample.reference(*arrays))
            places = [(0,) * len(shape), tuple(n - 1 for n in shape)]
            return all(
                np.shape(all_of) == shape
                and np.shape(one) == ()
                and np.allclose(np.asarray(all_of)[place], one, equal_nan=True)
                for place in places
                for all_of, one in zip(
                    whole,
                    _as_tuple(sample.reference(*[np.asarray(x[place]) for x in arrays])),
                    strict=True,
                )
            )
        except (TypeError, ValueError, IndexError, AttributeError):
            return False


def _as_tuple(results: Any) -> Sequence[Any]:
    return results if isinstance(results, list | tuple) else (results,)


def _first_element(x: Array, place: int) -> Array:
    return np.asarray(x[(0,) * x.ndim])


def _nothing(x: Array, place: int) -> Array:
    return x[:0]


def _alternating(x: Array, place: int) -> Array:
    """A column of the first argument, a row of the second, and so on."""
    rows = x.reshape(x.shape[0], -1)
    return rows[:, :1].copy() if place % 2 == 0 else rows[:1].copy()


SHAPES: dict[str, Callable[[Array, int], Array]] = {
    "0d": _first_element,
    "empty": _nothing,
    "broadcast": _alternating,
}
"""By name: the part of an argument that is kept; `place` is its place among the arguments."""


def with_shapes(sample: Sample, shapes: str) -> Sample | None:
    """Return an elementwise sample with arguments of other shapes; None for another function.

    >>> from tapegrad.testing.sample import Sample, normal
    >>> sample = Sample("square", lambda x: x * x, [normal(2, 3)], lambda x: x * x)
    >>> with_shapes(sample, "0d").make()[0].shape
    ()
    """
    if not is_elementwise(sample) or (shapes == "broadcast" and len(sample.args) < 2):
        return None
    keep = SHAPES[shapes]

    def kept(maker: Maker, place: int) -> Maker:
        return lambda rng: np.asarray(keep(maker(rng), place))

    args = [kept(maker, place) for place, maker in enumerate(sample.args)]
    return replace(sample, name=f"{sample.name}@{shapes}", args=args)


VARIANTS = (*LAYOUTS, *SHAPES)


def variant_of(sample: Sample, name: str) -> Sample | None:
    """Return the variant of a sample with one of the names in VARIANTS, if it allows that.

    >>> from tapegrad.testing.sample import Sample, normal
    >>> variant_of(Sample("sum", lambda x: x.sum(), [normal(2)], lambda x: x.sum()), "reversed")
    sum@reversed
    """
    return with_layout(sample, name) if name in LAYOUTS else with_shapes(sample, name)


def variants_of(sample: Sample) -> list[Sample]:
    """Return the layouts and the shapes that a sample allows.

    >>> from tapegrad.testing.sample import Sample, normal
    >>> variants_of(Sample("square", lambda x: x * x, [normal(2, 3)], lambda x: x * x))
    [square@strided, square@reversed, square@fortran, square@0d, square@empty]
    """
    found = [variant_of(sample, name) for name in VARIANTS]
    return [variant for variant in found if variant is not None]
