"""CallbackList: calls the callbacks of a run in order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tapegrad.core.event_log import LOGS
from tapegrad.errors import ArgumentTypeError
from tapegrad.keras.callbacks.callback import Callback
from tapegrad.keras.callbacks.history import History
from tapegrad.keras.callbacks.progress import ProgbarLogger
from tapegrad.keras.callbacks.reported import ReportedLosses


class CallbackList:
    """Calls a method of all callbacks; it has the methods of `Callback`.

    A callback that does not override a method is not called for it.
    """

    def __init__(
        self,
        callbacks: Any,
        model: Any,
        verbose: Any = 0,
        epochs: int = 1,
        steps: int | None = None,
        is_test: bool = False,
    ) -> None:
        given = callbacks if isinstance(callbacks, list | tuple) else [callbacks]
        self.callbacks: list[Any] = [one for one in given if one is not None]
        for one in self.callbacks:
            if not isinstance(one, Callback):
                raise ArgumentTypeError(
                    f"callbacks must be instances of Callback. Got {type(one).__name__}."
                )
        known = [one for one in self.callbacks if isinstance(one, History)]
        self.history = known[0] if known else History()
        if not known and not is_test:
            self.callbacks.append(self.history)
        if verbose not in (0, False):
            self.callbacks.append(ProgbarLogger(None if verbose in ("auto", 1, True) else False))
        if LOGS:
            self.callbacks.append(ReportedLosses())
        params = {"epochs": epochs, "steps": steps, "verbose": verbose, "is_test": is_test}
        for one in self.callbacks:
            one.set_params(params)
            one.set_model(model)

    def has_listeners(self, name: str) -> bool:
        """Return whether a callback overrides a method, such as "on_train_batch_end"."""
        return bool(getattr(self, name).args[0])

    def __getattr__(self, name: str) -> Any:
        """Create a method on its first use."""
        if not name.startswith("on_"):
            raise AttributeError(name)
        plain = getattr(Callback, name)
        listeners = [
            getattr(one, name)
            for one in self.callbacks
            if getattr(type(one), name) is not plain or name in vars(one)
        ]
        method = partial(_call_each, listeners)
        setattr(self, name, method)
        return method


def _call_each(listeners: Sequence[Any], *args: Any) -> None:
    for listener in listeners:
        listener(*args)
