"""TensorFlow's `tf.config.optimizer`: switches of its graph optimizer, which are only kept.

Recorded functions always go through the same passes; `explain()` of a function says what they did.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.checked_calls import check_calls as _check_calls

__all__ = ["get_experimental_options", "get_jit", "set_experimental_options", "set_jit"]

_options: dict[str, Any] = {}
_jit: list[str] = []


def set_experimental_options(options: dict[str, Any]) -> None:
    """Keep options for `get_experimental_options`; they change nothing.

    >>> set_experimental_options({"constant_folding": True})
    >>> get_experimental_options()["constant_folding"]
    True
    """
    _options.update(options)


def get_experimental_options() -> dict[str, Any]:
    """Return the options that `set_experimental_options` has set.

    >>> get_experimental_options().get("an unknown option") is None
    True
    """
    return dict(_options)


def set_jit(enabled: bool | str) -> None:
    """Keep this for `get_jit`; it changes nothing: `tapegrad.function` compiles functions.

    >>> set_jit(True)
    >>> get_jit()
    'autoclustering'
    >>> set_jit(False)
    """
    _jit[:] = ["autoclustering"] if enabled else []


def get_jit() -> str:
    """Return what `set_jit` has set: "autoclustering", or "" by default.

    >>> set_jit(False)
    >>> get_jit()
    ''
    """
    return "".join(_jit)


_check_calls(globals(), __all__)
