"""What a folder of checkpoints holds, waiting for new ones, and the options of a checkpoint."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tapegrad.core.files.atomic import StrPath
from tapegrad.errors import ArgumentError
from tapegrad.keras.saving.checkpoint import checkpoints_in, file_of, latest_checkpoint

_SECONDS_BETWEEN_LOOKS = 1.0


@dataclass
class CheckpointState:
    """The paths and times of the checkpoints in a folder, oldest first.

    >>> CheckpointState("ckpt-2", ["ckpt-1", "ckpt-2"]).model_checkpoint_path
    'ckpt-2'
    """

    model_checkpoint_path: str
    all_model_checkpoint_paths: list[str]
    all_model_checkpoint_timestamps: list[float] = field(default_factory=list)
    last_preserved_timestamp: float = 0.0


def get_checkpoint_state(
    checkpoint_dir: StrPath, latest_filename: str | None = None
) -> CheckpointState | None:
    """Return which checkpoints a folder holds, or None if it holds none.

    >>> get_checkpoint_state("a folder that is not there") is None
    True
    """
    paths = checkpoints_in(checkpoint_dir, latest_filename)
    if not paths:
        return None
    return CheckpointState(paths[-1], paths, [os.path.getmtime(file_of(path)) for path in paths])


def checkpoints_iterator(
    checkpoint_dir: StrPath,
    min_interval_secs: float = 0,
    timeout: float | None = None,
    timeout_fn: Callable[[], Any] | None = None,
) -> Iterator[str]:
    """Yield the path of each new checkpoint in a folder; several at once count as one.

    After `timeout` seconds without a new one, the iteration ends if `timeout_fn` returns true or
    is missing. Without a timeout it waits forever.

    >>> list(checkpoints_iterator("a folder that is not there", timeout=0))
    []
    """
    if timeout_fn is not None and not callable(timeout_fn):
        raise ArgumentError(f"timeout_fn must be a function or None. Got {timeout_fn!r}.")
    return _new_checkpoints(os.fspath(checkpoint_dir), min_interval_secs, timeout, timeout_fn)


def _new_checkpoints(
    folder: StrPath, interval: float, timeout: float | None, may_end: Callable[[], Any] | None
) -> Iterator[str]:
    seen: str | None = None
    while True:
        path = _wait_for_another(folder, seen, timeout)
        if path is None:
            if may_end is None or may_end():
                return
            continue
        seen, found_at = path, time.monotonic()
        yield path
        time.sleep(max(0.0, found_at + interval - time.monotonic()))


def _wait_for_another(folder: StrPath, seen: str | None, timeout: float | None) -> str | None:
    """Return the latest checkpoint once it is another one than `seen`, or None after a timeout."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        path = latest_checkpoint(folder)
        if path is not None and path != seen:
            return path
        left = _SECONDS_BETWEEN_LOOKS if end is None else end - time.monotonic()
        if left <= 0:
            return None
        time.sleep(min(left, _SECONDS_BETWEEN_LOOKS))


class CheckpointOptions:
    """How a checkpoint is written: functions to call afterwards, which may take its path.

    Files are complete when `save` returns, so that `enable_async` has no effect, and so have
    devices and shards.

    >>> options = CheckpointOptions(experimental_write_callbacks=[print])
    >>> options.experimental_enable_async_checkpoint
    False
    """

    def __init__(
        self,
        experimental_io_device: str | None = None,
        experimental_enable_async_checkpoint: bool = False,
        experimental_write_callbacks: Sequence[Callable[..., Any]] | None = None,
        enable_async: bool = False,
        experimental_sharding_callback: Any = None,
        experimental_skip_slot_variables: bool = False,
    ) -> None:
        callbacks = experimental_write_callbacks or []
        if not isinstance(callbacks, list | tuple) or not all(map(callable, callbacks)):
            raise ArgumentError(
                f"experimental_write_callbacks must be a list of functions. Got {callbacks!r}."
            )
        if experimental_skip_slot_variables:
            raise ArgumentError(
                "experimental_skip_slot_variables is not supported. Save and restore a Checkpoint "
                "without the optimizer."
            )
        self.experimental_io_device = experimental_io_device
        self.experimental_enable_async_checkpoint = (
            experimental_enable_async_checkpoint or enable_async
        )
        self.enable_async = self.experimental_enable_async_checkpoint
        self.experimental_write_callbacks = experimental_write_callbacks
        self.experimental_sharding_callback = experimental_sharding_callback
        self.experimental_skip_slot_variables = experimental_skip_slot_variables
