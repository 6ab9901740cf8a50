"""Keras' TensorBoard callback writes with `tapegrad.summary` where TensorFlow is not installed."""

from __future__ import annotations

from functools import wraps
from typing import Any

import tapegrad
from tapegrad.core.call_site import warn_outside


def with_own_summaries(callback: Any) -> Any:
    """Return Keras' callback, whose writers and summaries are those of tapegrad.

    The structure of the model is not written, and batches are not profiled: both need TensorFlow.
    """
    usual = callback.__init__

    @wraps(usual)
    def create(self: Any, *args: Any, profile_batch: Any = 0, **kwargs: Any) -> None:
        if profile_batch:
            warn_outside(
                "keras.callbacks.TensorBoard does not profile batches without TensorFlow; "
                f"profile_batch={profile_batch!r} is ignored."
            )
        usual(self, *args, profile_batch=0, **kwargs)

    callback.__init__ = create
    callback.summary = property(lambda self: tapegrad.summary)
    callback._write_keras_model_summary = lambda self: None
    return callback
