"""`debug.memory` names the lines that hold memory, and so does the error when it runs out."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.memory_trace import note_array, site_of
from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive
from tapegrad.program.program import Program

SOURCE = Path(__file__).read_text(encoding="utf-8").splitlines()
MIB = 2**20


def place_of(marker: str) -> str:
    """The file and line of the line that ends with a marker."""
    (number,) = [k for k, line in enumerate(SOURCE, 1) if line.endswith(f"# {marker}")]
    return f"test_memory_lines.py:{number}"


def held_here() -> dict[tuple[str, str], tuple[int, int]]:
    """The bytes and counts of holders in this file, by file name and line, and by kind."""
    gc.collect()
    found = tf.debug.memory("cpu").holders
    return {
        (Path(holder.where).name, holder.what): (holder.bytes, holder.count)
        for holder in found
        if Path(__file__).name in holder.where
    }


def test_tensors_variables_and_tapes_are_named_by_line() -> None:
    with tf.device("cpu"), tf.debug.trace_memory():
        v = tf.Variable(np.ones((512, 512)))  # variable
        data = tf.constant(np.ones((256, 512)))  # data
        with tf.GradientTape() as tape:
            y = tf.exp(v)  # exp
            parts = [tf.tanh(y) for _ in range(3)]  # tanh
        alone = [data * float(k) for k in range(4)]  # alone
        view = tf.reshape(alone[0], [-1])
        held = held_here()

    assert held == {
        (place_of("variable"), "variables"): (2 * MIB, 1),
        (place_of("data"), "tensors"): (1 * MIB, 1),
        (place_of("exp"), "kept for gradients"): (2 * MIB, 1),
        (place_of("tanh"), "kept for gradients"): (6 * MIB, 3),
        (place_of("alone"), "tensors"): (4 * MIB, 4),
    }
    assert (tape, parts, view) is not None


def test_arrays_that_died_are_not_counted_and_lines_outlive_the_block() -> None:
    with tf.device("cpu"), tf.debug.trace_memory():
        kept = tf.zeros([512, 512]) + 1.0  # kept
        gone = kept + 1.0  # gone
    del gone

    held = held_here()

    assert held == {(place_of("kept"), "tensors"): (MIB, 1)}
    del kept
    assert held_here() == {}


class Allocation:
    """Memory without weak references, as CuPy's."""

    __slots__ = ("size",)


class Part:
    """An array of a device: a part of an allocation."""

    def __init__(self, allocation: Allocation) -> None:
        self.data = SimpleNamespace(mem=allocation)


def test_views_in_memory_without_weak_references_have_the_line_of_the_first_array() -> None:
    allocation, other = Allocation(), Allocation()
    with tf.debug.trace_memory():
        whole, alone = Part(allocation), Part(other)
        note_array(whole, "first.py:1")
        view, unnoted = Part(allocation), Part(allocation)
        note_array(view, "second.py:2")
        note_array(alone, "third.py:3")

    assert [site_of(x) for x in (whole, view, unnoted)] == ["first.py:1"] * 3
    del whole
    assert site_of(view) == "first.py:1"
    assert site_of(alone) == "third.py:3"
    del alone
    assert site_of(Part(other)) == ""


def test_without_a_trace_variables_have_their_name() -> None:
    with tf.device("cpu"):
        v = tf.Variable(np.ones((1024, 1024)), name="large")
        found = {holder.where: holder for holder in tf.debug.memory().holders}

    named = found[f"variable {v.name!r}"]
    assert (named.bytes, named.count, named.what) == (8 * MIB, 1, "variables")


def test_intermediate_values_of_a_program_are_named_without_a_trace() -> None:
    @tf.function(wait=True)
    def step(x: Any) -> Any:
        first = tf.tanh(x @ x)  # first product
        second = tf.tanh(first @ x)  # second product
        return tf.reduce_sum(second @ first)  # last product

    with tf.device("cpu"):
        step(tf.constant(np.ones((512, 512))))
        held = held_here()

    # The last product reads two arrays and makes a third one, whose sum is the result.
    sizes = {where: size for (where, what), (size, _) in held.items() if "programs" in what}
    assert sum(sizes.values()) == 3 * 2 * MIB
    assert sizes[place_of("first product")] == 2 * MIB
    assert sizes[place_of("second product")] == 2 * MIB
    assert sizes[place_of("last product")] == 2 * MIB


def test_the_report_shows_five_holders() -> None:
    with tf.device("cpu"), tf.debug.trace_memory():
        a = tf.ones([1000, 1000]) * 1.0
        b = tf.ones([900, 1000]) * 1.0
        c = tf.ones([800, 1000]) * 1.0
        d = tf.ones([700, 1000]) * 1.0
        e = tf.ones([600, 1000]) * 1.0  # fifth
        f = tf.ones([50, 50]) * 1.0
        report, shorter = tf.debug.memory(), tf.debug.memory(most=2)

    lines = str(report).splitlines()
    assert lines[0].endswith(" are held on cpu")
    assert len(lines) == 7
    assert lines[-1].endswith(" by others")
    assert report.total == sum(holder.bytes for holder in report.holders)
    assert len(str(shorter).splitlines()) == 4
    assert (a, b, c, d, e, f) is not None


class _Touchy:
    """An object that warns when it is asked for anything, its class included."""

    def __getattribute__(self, name: str) -> Any:
        warnings.warn(f"{name} is deprecated", FutureWarning, stacklevel=2)
        return object.__getattribute__(self, name)


def test_objects_of_other_libraries_are_not_asked_for_anything() -> None:
    touchy = [_Touchy()]
    with tf.device("cpu"):
        kept = tf.ones([1000, 1000]) * 1.0
        report = tf.debug.memory()

    assert report.total >= kept.numpy().nbytes
    assert len(touchy) == 1


def test_the_error_when_memory_runs_out_names_the_lines() -> None:
    def fail(xp: Any, x: Any) -> Any:
        raise MemoryError("no room for 4,000 bytes")

    hungry = Primitive("hungry_for_lines", fail)
    try:
        with tf.device("cpu"), tf.debug.trace_memory():
            large = tf.ones([2000, 2000]) * 1.0  # large
            with pytest.raises(tf.errors.OutOfMemoryError) as caught:
                hungry(tf.constant(1.0))
    finally:
        del PRIMITIVES["hungry_for_lines"]

    message = str(caught.value)
    assert "The largest holders of memory are: " in message
    assert "15.3 MiB in 1 array, tensors, from " in message
    assert place_of("large") in message
    assert "tapegrad.recompute_grad" in message
    assert large.shape == (2000, 2000)


def test_a_program_that_is_still_being_compiled_is_left_out() -> None:
    assert float(tf.function(lambda x: x + 1.0)(tf.constant(1.0))) == 2.0  # loads the module
    unfinished = object.__new__(Program)  # as another thread has it meanwhile

    assert tf.debug.memory().total >= 0
    assert not hasattr(unfinished, "order")
