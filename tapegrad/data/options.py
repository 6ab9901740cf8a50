"""Options: TensorFlow's settings of a dataset, which are kept and change nothing.

Elements always come in the same order, unless `map(deterministic=False)` says otherwise, and the
number of threads is that of `num_parallel_calls`.
"""

from __future__ import annotations

import enum
from typing import Any

_GROUPS = {
    "autotune": (
        "enabled",
        "cpu_budget",
        "ram_budget",
        "autotune_algorithm",
        "initial_parallelism",
    ),
    "experimental_distribute": ("auto_shard_policy", "num_devices"),
    "experimental_optimization": (
        *("apply_default_optimizations", "filter_fusion", "filter_parallelization"),
        *("inject_prefetch", "map_and_batch_fusion", "map_and_filter_fusion", "map_fusion"),
        *("map_parallelization", "noop_elimination", "parallel_batch", "seq_interleave_prefetch"),
        *("shuffle_and_repeat_fusion", "warm_start"),
    ),
    "threading": ("max_intra_op_parallelism", "private_threadpool_size"),
}
_SINGLE = (
    *("dataset_name", "deterministic", "experimental_deterministic", "experimental_external_state"),
    *(
        "experimental_external_state_policy",
        "experimental_slack",
        "experimental_symbolic_checkpoint",
    ),
    *("experimental_warm_start", "framework_type"),
)


class AutoShardPolicy(enum.IntEnum):
    """How a dataset is divided among replicas.

    With OFF, each process computes all batches of its dataset, which the program has divided by
    `Dataset.shard`. Otherwise each replica has its rows of every batch.

    >>> AutoShardPolicy.OFF.name
    'OFF'
    """

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


class _Settings:
    """Settings with fixed names, None until they are set."""

    _names: tuple[str, ...]
    _kind: str

    def __init__(self, kind: str, names: tuple[str, ...]) -> None:
        vars(self).update(_kind=kind, _names=names, **dict.fromkeys(names))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._names:
            known = ", ".join(self._names)
            raise AttributeError(f"{self._kind} has no setting {name!r}. It has: {known}.")
        vars(self)[name] = value

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]  # settings change

    def __repr__(self) -> str:
        found = [
            f"{name}={vars(self)[name]!r}" for name in self._names if _is_set(vars(self)[name])
        ]
        return f"{self._kind}({', '.join(found)})"

    def update(self, other: _Settings) -> None:
        """Take over the settings that another one has."""
        for name in self._names:
            value = vars(other)[name]
            if isinstance(value, _Settings):
                vars(self)[name].update(value)
            elif value is not None:
                vars(self)[name] = value


def _is_set(value: Any) -> bool:
    if isinstance(value, _Settings):
        return any(_is_set(vars(value)[name]) for name in value._names)
    return value is not None


class Options(_Settings):
    """Settings for `Dataset.with_options`, which `Dataset.options` returns.

    They are kept and change nothing: the order of elements is always deterministic.

    >>> options = Options()
    >>> options.deterministic = False
    >>> options.autotune.enabled = True
    >>> options
    Options(autotune=autotune(enabled=True), deterministic=False)
    """

    def __init__(self) -> None:
        super().__init__("Options", tuple(sorted((*_GROUPS, *_SINGLE))))
        for name, names in _GROUPS.items():
            vars(self)[name] = _Settings(name, names)

    def merge(self, options: Options) -> Options:
        """Return these settings with those of other ones, which win.

        >>> first, second = Options(), Options()
        >>> first.deterministic, second.deterministic = True, False
        >>> first.merge(second).deterministic
        False
        """
        merged = Options()
        merged.update(self)
        merged.update(options)
        return merged
