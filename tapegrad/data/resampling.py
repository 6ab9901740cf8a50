"""Datasets of random numbers, and resampling of a dataset to other shares of its classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, ShapeError

_EQUAL = 10
"""The elements of each class that are assumed before the first, if the shares are unknown."""
_MOST = np.iinfo(np.int64).max


class Resampling:
    """Random numbers as a dataset, and resampling by rejection."""

    @classmethod
    def random(
        cls,
        seed: int | None = None,
        rerandomize_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Any:
        """Return a dataset of random integers without an end; each pass has the same.

        >>> from tapegrad.data import Dataset
        >>> numbers = [int(n) for n in Dataset.random(seed=4).take(2)]
        >>> numbers == [int(n) for n in Dataset.random(seed=4).take(2)]
        True
        """
        dataset: Any = cls
        if rerandomize_each_iteration:
            raise ArgumentError(
                "Each pass over Dataset.random has the same numbers. "
                "Got rerandomize_each_iteration=True."
            )
        start = _seed(seed)
        return dataset.counter().map(lambda n: _draw(start, n).integers(_MOST, dtype=np.int64))

    def rejection_resample(
        self,
        class_func: Callable[..., Any],
        target_dist: Any,
        initial_dist: Any = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Any:
        """Leave out elements at random, so that classes have the shares `target_dist`.

        `class_func` returns the class of an element, an integer. The result has pairs of class and
        element. The present shares are counted during the pass, unless `initial_dist` has them.

        >>> import numpy as np
        >>> from tapegrad.data import Dataset
        >>> labels = Dataset.from_tensor_slices(np.arange(1000) % 10 == 0)
        >>> pairs = labels.rejection_resample(lambda x: x, [0.5, 0.5], [0.9, 0.1], seed=1)
        >>> sum(int(label) for label, _ in pairs), len([*pairs]) < 250
        (100, True)
        """
        dataset: Any = self
        target = _shares("target_dist", target_dist)
        initial = None if initial_dist is None else _shares("initial_dist", initial_dist)
        if initial is not None and initial.shape != target.shape:
            raise ShapeError(
                f"initial_dist and target_dist need one share for each class. Got {initial.size} "
                f"and {target.size} shares."
            )
        start = _seed(seed)

        def choose(state: Any, pair: Any) -> Any:
            number, seen = state
            label = int(pair[0])
            if not 0 <= label < target.size:
                raise ArgumentError(f"Classes are 0 to {target.size - 1}. Got class {label}.")
            seen = np.asarray(seen) + np.eye(target.size)[label]
            ratios = target / np.maximum(seen / seen.sum() if initial is None else initial, 1e-12)
            is_kept = _draw(start, number).random() * ratios.max() < ratios[label]
            return (number + 1, seen), (is_kept, *pair)

        def classified(*parts: Any) -> Any:
            return class_func(*parts), parts[0] if len(parts) == 1 else parts

        before = (0, np.full(target.size, float(_EQUAL)))
        chosen = dataset.map(classified).scan(before, choose)
        return chosen.filter(lambda kept, *_: kept).map(lambda _, label, rest: (label, rest))


def _seed(seed: int | None) -> int:
    return int(np.random.default_rng().integers(2**31)) if seed is None else int(seed)


def _draw(seed: int, number: Any) -> np.random.Generator:
    """Return a generator that depends on the seed and the number of the element only."""
    return np.random.default_rng([seed & _MOST, int(number)])


def _shares(name: str, value: Any) -> np.ndarray:
    shares = np.asarray(value, np.float64)
    if shares.ndim != 1 or not shares.size or (shares < 0).any() or not np.isfinite(shares).all():
        raise ArgumentError(f"{name} must be a vector of shares of 0 or more. Got {value!r}.")
    return np.asarray(shares / shares.sum())
