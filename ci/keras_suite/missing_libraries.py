"""Stand-ins for libraries that are not installed, for the imports of Keras' test files.

A test file that imports TensorFlow for two of its fifty tests can then be imported: the two raise
ModuleNotFoundError and are counted as missing, the others run. Keras' own modules get no stand-in.
"""

from __future__ import annotations

import builtins
import types
from importlib.util import find_spec
from typing import Any, NoReturn

LIBRARIES = (
    *("tensorflow", "tensorboard", "jax", "torch", "grain", "orbax"),
    *("onnxruntime", "sklearn", "pandas"),
)
_MESSAGES = (
    "requires TensorFlow",
    "requires installing TensorFlow",
    *(
        text.format(name)
        for name in LIBRARIES
        for text in ("No module named '{}", "requires the {} module", "requires the '{}")
    ),
)


def is_cause_of(error: str) -> bool:
    """Whether the text of an error says that one of the libraries is missing."""
    return any(message in error for message in _MESSAGES)


class StandIn(types.ModuleType):
    """A module or a name in it; attributes are stand-ins, too, and calls raise an error."""

    def __getattr__(self, name: str) -> StandIn:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ModuleNotFoundError(f"No module named '{self.__name__}'")

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return ()

    def __instancecheck__(self, instance: Any) -> bool:
        return False


def serve_test_files() -> None:
    """Answer imports of missing libraries in modules whose name ends with `_test`."""
    missing = {name for name in LIBRARIES if find_spec(name) is None}
    usual = builtins.__import__

    def find(
        name: str, scope: Any = None, local: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        root = name.partition(".")[0]
        if root not in missing or not str((scope or {}).get("__name__")).endswith("_test"):
            return usual(name, scope, local, fromlist, level)
        return StandIn(name if fromlist else root)

    builtins.__import__ = find
