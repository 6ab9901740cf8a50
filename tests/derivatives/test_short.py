"""A part of the variants in all modes, others for each commit; and a wrong rule is noticed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.testing.sample import Sample, fixed, normal
from tapegrad.testing.samples import all_samples, scipy_special
from tapegrad.testing.variants import (
    LAYOUTS,
    SHAPES,
    variant_of,
    variants_of,
    with_layout,
    with_shapes,
)
from tests.derivatives.categories import categories_of
from tests.derivatives.modes import MODES, applies
from tests.derivatives.reasons import NOT_CHECKED
from tests.derivatives.run import cases, check, check_all, table
from tests.seeds import LONG

ONE_IN = 1 if LONG else 24
SLOW = {sample.name for sample in scipy_special.SAMPLES}
"""Formulas of thousands of calls; their variants are for long runs."""

SAMPLES = [sample for sample in all_samples() if LONG or sample.name not in SLOW]


@pytest.mark.usefixtures("quick_compiler")
@pytest.mark.parametrize("sample", cases(SAMPLES, ONE_IN), ids=repr)
def test_a_variant_in_all_modes(sample: Sample) -> None:
    counts: Counter[str] = Counter()

    faults = {mode: check(sample, mode, counts) for mode in MODES}

    assert not {mode: text for mode, text in faults.items() if text}


def as_in_memory(x: Any) -> Any:
    """Return the numbers in the order in which they are in memory, which is wrong for a view."""
    return tf.constant(x.array.ravel("K").reshape(x.shape))


def test_a_function_that_reads_memory_in_its_order_is_noticed() -> None:
    sample = Sample("wrong", as_in_memory, [normal(2, 3)], lambda x: x)

    counts = check_all([sample, *variants_of(sample)], ["value"])

    assert counts["faults"] == 1
    assert counts["checks"] == 5


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_reaches_the_function(layout: str) -> None:
    seen = []

    def square(x: Any) -> Any:
        seen.append(x.array)
        return x * x

    sample = Sample("square", square, [normal(3, 4)], lambda x: x * x)
    variant = with_layout(sample, layout)
    assert variant is not None
    variant.function(*[tf.constant(x) for x in variant.make()])

    (array,) = seen
    assert not array.flags.c_contiguous
    assert array.flags.f_contiguous == (layout == "fortran")
    assert (min(array.strides) < 0) == (layout == "reversed")
    np.testing.assert_array_equal(array, LAYOUTS[layout][1](variant.make()[0]))


def test_shapes_are_for_elementwise_functions_alone() -> None:
    total = Sample("total", lambda x: tf.reduce_sum(x), [normal(3)], lambda x: x.sum())
    both = Sample("both", lambda x, y: x * y, [normal(2, 3)] * 2, lambda x, y: x * y)

    assert all(with_shapes(total, shapes) is None for shapes in SHAPES)
    made = {name: with_shapes(both, name) for name in SHAPES}
    assert {name: [x.shape for x in v.make()] for name, v in made.items() if v} == {
        "0d": [(), ()],
        "empty": [(0, 3), (0, 3)],
        "broadcast": [(2, 1), (1, 3)],
    }


def test_categories_are_seen_in_the_arguments() -> None:
    def likeness(*makers: Any) -> set[str]:
        return categories_of(Sample("x", lambda *x: x, makers))

    assert likeness(fixed([1.0, 2.0])) == {"floating point"}
    assert likeness(fixed([1.0, 1.0])) == {"floating point", "ties"}
    assert likeness(fixed(1.0), fixed([2.0, 1.0])) == {"floating point", "0-d", "broadcasting"}
    assert likeness(fixed(np.zeros((0, 2)))) == {"floating point", "no elements"}
    assert likeness(fixed([1e-300, 2.0]), fixed([3, 3])) == {
        *("floating point", "extreme values", "integers")
    }
    assert likeness(fixed([np.inf])) == {"floating point", "extreme values"}
    assert likeness(fixed([True]), fixed([1j])) == {"booleans", "complex"}


def test_what_is_not_checked_would_be_and_has_a_reason() -> None:
    known = {sample.name: sample for sample in all_samples()}

    for (name, mode), reason in NOT_CHECKED.items():
        base, _, variant = name.partition("@")
        sample = variant_of(known[base], variant) if variant else known[base]
        assert sample is not None
        assert applies(sample, mode)
        assert reason.endswith(".")


def test_the_table_has_a_row_for_each_kind_of_argument() -> None:
    text = table(Counter({"fortran, reverse": 1200, "ties, vmap": 3}))

    assert "| fortran | 0 | 1,200 |" in text
    assert text.count("\n") == 1 + 1 + 9 + len(LAYOUTS) + len(SHAPES)
