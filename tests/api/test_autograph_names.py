"""tf.autograph, and switches of TensorFlow that programs set and tapegrad only keeps."""

from __future__ import annotations

from typing import Any

import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentTypeError


def relu(x: Any) -> Any:
    if x > 0:
        return x
    return 0 * x


def test_to_code_shows_the_converted_function() -> None:
    code = tf.autograph.to_code(relu)

    assert code.startswith("def relu(x")
    assert "ag__.if_(x > 0" in code
    assert tf.autograph.to_code(tf.function(relu)) == code


def test_to_code_needs_a_function_with_source() -> None:
    with pytest.raises(ArgumentTypeError, match=r"Python function with source code. Got len"):
        tf.autograph.to_code(len)


def test_functions_that_are_not_to_be_converted_are_themselves() -> None:
    assert tf.autograph.experimental.do_not_convert(relu) is relu
    assert tf.autograph.experimental.do_not_convert()(relu) is relu
    assert tf.autograph.to_graph(relu) is relu


def test_a_function_lists_and_counts_its_recordings() -> None:
    double = tf.function(lambda x: 2 * x)
    double(tf.constant(1.0))
    double(tf.constant([1.0]))

    assert double.experimental_get_tracing_count() == 2
    assert "first call" in double.pretty_printed_concrete_signatures()


def test_switches_are_kept() -> None:
    tf.config.optimizer.set_experimental_options({"constant_folding": False})
    tf.debugging.set_log_device_placement(True)

    assert tf.config.optimizer.get_experimental_options()["constant_folding"] is False
    assert tf.debugging.get_log_device_placement()
    tf.debugging.set_log_device_placement(False)


def test_a_trace_warns_that_no_graph_is_written() -> None:
    with pytest.warns(UserWarning, match="Graphs are not written"):
        tf.summary.trace_on(graph=True)
    tf.summary.trace_export("graph", step=0)
    tf.summary.trace_off()
