"""While code is recorded the garbage collector runs less often, but it runs."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.gc_pause import RARELY, gc_rarely


def test_the_collector_runs_less_often_while_code_is_recorded() -> None:
    before = gc.get_threshold()
    inside: list[Any] = []

    @tf.function
    def noting(x: Any) -> Any:
        inside.append((gc.isenabled(), gc.get_threshold()[0]))
        return tf.sin(x)

    noting(tf.constant(np.ones(3)))

    assert inside[0] == (True, RARELY)
    assert gc.get_threshold() == before


def test_the_threshold_returns_after_an_error_and_from_nested_blocks() -> None:
    before = gc.get_threshold()

    with pytest.raises(ValueError, match="inside"), gc_rarely(), gc_rarely():
        raise ValueError("inside")

    assert gc.get_threshold() == before


@pytest.mark.parametrize("threshold", [0, 2 * RARELY])
def test_a_threshold_of_the_user_stays(threshold: int) -> None:
    before = gc.get_threshold()
    gc.set_threshold(threshold)
    try:
        with gc_rarely():
            assert gc.get_threshold()[0] == threshold
        assert gc.get_threshold()[0] == threshold
    finally:
        gc.set_threshold(*before)
