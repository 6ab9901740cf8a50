"""Progbar: the progress of a loop in one line."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from tapegrad.core.argument_checks import check_choice
from tapegrad.keras.callbacks.logs import say, shown


class Progbar:
    """Print how far a loop is, with the averages of values since its start.

    `stateful_metrics` names the values that are shown as they are. With `verbose=2`, one line is
    printed at the end; with `verbose=0`, none.

    >>> bar = Progbar(2, verbose=2)
    >>> bar.add(1, [("loss", 1.0)])
    >>> bar.add(1, [("loss", 3.0)])
    2/2 - loss: 2.0000
    """

    def __init__(
        self,
        target: int | None,
        width: int = 20,
        verbose: int = 1,
        interval: float = 0.05,
        stateful_metrics: Sequence[str] | None = None,
        unit_name: str = "step",
    ) -> None:
        check_choice("verbose", verbose, (0, 1, 2))
        self.target, self.width, self.verbose = target, width, verbose
        self.interval, self.unit_name = interval, unit_name
        self.stateful_metrics = set(stateful_metrics or ())
        self._sums: dict[str, tuple[float, float]] = {}
        self._current = 0
        self._start, self._last = time.perf_counter(), 0.0

    def add(self, n: int, values: Iterable[tuple[str, Any]] | None = None) -> None:
        """Advance by `n` steps."""
        self.update(self._current + n, values)

    def update(
        self,
        current: int,
        values: Iterable[tuple[str, Any]] | None = None,
        finalize: bool | None = None,
    ) -> None:
        """Set the number of steps done, and add values, pairs of a name and a number."""
        steps = current - self._current
        for name, value in values or ():
            total, weight = self._sums.get(name, (0.0, 0.0))
            share = max(steps, 1)
            is_kept = name in self.stateful_metrics
            self._sums[name] = (
                (float(value), 1.0) if is_kept else (total + float(value) * share, weight + share)
            )
        self._current = current
        is_last = self.target is not None and current >= self.target
        is_last = is_last if finalize is None else finalize
        if self.verbose and (is_last or self._is_due()):
            self._write(is_last)

    def _is_due(self) -> bool:
        now = time.perf_counter()
        if self.verbose == 2 or now - self._last < self.interval:
            return False
        self._last = now
        return True

    def _write(self, is_last: bool) -> None:
        count = f"{self._current}" if self.target is None else f"{self._current}/{self.target}"
        parts = [count]
        if self.verbose == 1:
            if self.target:
                done = min(self.width, self.width * self._current // self.target)
                parts.append("[" + "=" * done + "." * (self.width - done) + "]")
            seconds = time.perf_counter() - self._start
            each = 1e3 * seconds / max(1, self._current)
            parts.append(f"{seconds:.0f}s {each:.0f}ms/{self.unit_name}")
        parts += [f"{name}: {shown(total / n)}" for name, (total, n) in self._sums.items()]
        is_live = self.verbose == 1 and sys.stdout.isatty()
        if is_last or is_live:
            say(("\r" if is_live else "") + " - ".join(parts), "\n" if is_last else "")
