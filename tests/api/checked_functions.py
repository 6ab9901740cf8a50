"""Functions with assertions; pytest rewrites `assert` in test modules, so they are apart."""

from __future__ import annotations

from typing import Any

import tapegrad as tf


def checked() -> Any:
    class Checked(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
        def root(self, x: Any) -> Any:
            tf.debugging.assert_positive(x, "roots of positive numbers only")
            tf.debugging.assert_near(x, 2.0, atol=4.0)
            tf.debugging.check_numerics(x, "the input")
            tf.Assert(tf.reduce_sum(x) < 9.0, ["too much"])
            return tf.sqrt(x)

        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
        def half(self, x: Any) -> Any:
            if x > 1.0:
                assert x < 5.0, "x is large"
                assert x > 2.0, x
            return x / 2.0

    return Checked()
