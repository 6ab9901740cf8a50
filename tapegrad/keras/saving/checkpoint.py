"""Checkpoints with the interface of TensorFlow: the whole state of a training run in a file.

A checkpoint is one safetensors file. Its metadata holds values that are not arrays. Nothing is
pickled.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Self
from weakref import WeakKeyDictionary

from tapegrad.core.files.atomic import StrPath, replacing
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, FileFormatError, NotFoundError
from tapegrad.keras.saving.restoration import RANDOM, Restoration, damaged
from tapegrad.keras.saving.slots import labels_of, slots_of
from tapegrad.keras.saving.tensor_file import TensorFile, write_tensors
from tapegrad.keras.saving.tracking import Tracked, track
from tapegrad.keras.saving.weights import shortened
from tapegrad.random import get_global_generator

_SUFFIX = ".safetensors"
_STATE = "tapegrad.checkpoint"
_VERSION = 1
_LIST = "checkpoint"
"""The file in a folder that lists its checkpoints, oldest first; the name is TensorFlow's."""


class CheckpointMismatchError(ArgumentError, AssertionError):
    """Objects and a checkpoint do not match; an AssertionError as in TensorFlow.

    >>> issubclass(CheckpointMismatchError, AssertionError)
    True
    """


class CheckpointStatus:
    """The result of `restore`: names `missing` in the checkpoint, and `unused` names in it.

    >>> CheckpointStatus("ckpt-1", [], ["old/kernel"]).expect_partial().unused
    ['old/kernel']
    """

    def __init__(
        self,
        path: str | None,
        missing: list[str],
        unused: list[str],
        used: Collection[str] = frozenset(),
    ) -> None:
        self.path = path
        self.missing = missing
        self.unused = unused
        self.used = used

    def assert_consumed(self) -> Self:
        """Raise unless every object was restored and everything in the checkpoint was used."""
        if self.unused:
            raise CheckpointMismatchError(
                f"Checkpoint {self.path!r} holds values that no object uses: "
                f"{shortened(self.unused)}. Pass all objects that were saved, with their variables "
                "built, or call expect_partial() instead."
            )
        return self.assert_existing_objects_matched()

    def assert_existing_objects_matched(self) -> Self:
        """Raise unless every object was restored."""
        if self.path is None:
            raise CheckpointMismatchError("No checkpoint was restored: its path is None.")
        if self.missing:
            raise CheckpointMismatchError(
                f"Checkpoint {self.path!r} has no values for: {shortened(self.missing)}. "
                "They were not changed."
            )
        return self

    def assert_nontrivial_match(self) -> Self:
        """Raise unless something besides the counter of saves and the random state was restored."""
        if self.path is None or not {*self.used} - {"save_counter", RANDOM}:
            raise CheckpointMismatchError(
                f"Nothing of checkpoint {self.path!r} was restored. It holds: "
                f"{shortened(self.unused)}."
            )
        return self

    def expect_partial(self) -> Self:
        """Accept differences between the checkpoint and the objects."""
        return self


class Checkpoint:
    """Save and restore the state of named objects.

    An object is a module, an optimizer, a variable, a random generator, a number, a string, a dict
    or list of these, or an object with state() and set_state(). The objects become attributes, and
    more attributes may be added. Every checkpoint includes the state of the global random
    generator.

    >>> import tempfile
    >>> w = Variable(1.0)
    >>> checkpoint = Checkpoint(w=w, epoch=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = checkpoint.save(f"{folder}/ckpt")
    ...     _, checkpoint.epoch = w.assign(0.0), 4
    ...     status = checkpoint.restore(path).assert_consumed()
    >>> float(w), checkpoint.epoch, path[-6:]
    (1.0, 3, 'ckpt-1')
    """

    def __init__(self, root: Any = None, **objects: Any) -> None:
        if root is not None:
            objects["root"] = root
        for name in objects:
            if name == "save_counter" or name.startswith("_") or hasattr(Checkpoint, name):
                raise ArgumentError(
                    f"{name!r} cannot be the name of an object: Checkpoint reserves it. "
                    "Choose another name."
                )
        self.save_counter = Variable(0, trainable=False, name="save_counter", dtype="int64")
        vars(self).update(objects)

    def _held_objects(self) -> dict[str, Any]:
        """Return the objects of this checkpoint, which may be a part of another one."""
        return {name: value for name, value in vars(self).items() if name != "save_counter"}

    def write(self, file_prefix: StrPath, options: Any = None) -> str:
        """Write a checkpoint to this path with ".safetensors" appended; return the path."""
        tracked = track(vars(self))
        variables = _all_variables(tracked)
        state = {
            "version": _VERSION,
            "values": {name: _as_json(name, place.get()) for name, place in tracked.places.items()},
            "optimizers": {
                name: labels_of(optimizer, tracked.variables)
                for name, optimizer in tracked.optimizers.items()
            },
            "aliases": tracked.aliases,
        }
        write_tensors(file_of(file_prefix), variables, {_STATE: json.dumps(state)})
        _call_after_write(options, os.fspath(file_prefix))
        return os.fspath(file_prefix)

    def read(self, save_path: StrPath, options: Any = None) -> CheckpointStatus:
        """Restore all objects from a checkpoint of `write` or `save`.

        If shapes or dtypes differ, nothing is changed. Names may be missing on either side: check
        the returned status.
        """
        restoration = Restoration(_file_to_read(save_path), _state_in)
        restoration.run(vars(self))
        return _status(save_path, restoration)

    def save(self, file_prefix: StrPath, options: Any = None) -> str:
        """Write the next checkpoint, `prefix-number`, and list it for `latest_checkpoint`."""
        path = self._write_numbered(file_prefix, int(self.save_counter) + 1)
        _enlist(path)
        _call_after_write(options, path)
        return path

    def _write_numbered(self, file_prefix: StrPath, number: int) -> str:
        before = self.save_counter.read_value()
        self.save_counter.assign_add(1, read_value=False)
        try:
            return self.write(f"{os.fspath(file_prefix)}-{number}")
        except BaseException:
            self.save_counter.assign(before, read_value=False)
            raise

    def restore(self, save_path: StrPath | None, options: Any = None) -> CheckpointStatus:
        """Restore all objects as `read` does; a path of None changes nothing.

        Variables that the objects get later, by a new attribute or because a layer is built,
        receive their values when they appear. A new entry of a list or dictionary receives them at
        once if the container became an attribute after `restore`, and otherwise with the next
        write to an attribute. An object is found by each of the names that it had when it was
        saved.
        """
        if save_path is None:
            return CheckpointStatus(None, [], [])
        restoration = Restoration(_file_to_read(save_path), _state_in)
        restoration.run(vars(self))
        if self in _restorations:
            _restorations[self].stop_waiting()
        restoration.wait_for(self)
        _restorations[self] = restoration
        return _status(save_path, restoration)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if self in _restorations:
            _restorations[self].watch_entries(self, name, value)
            _restorations[self].look_again()


_restorations: WeakKeyDictionary[Checkpoint, Restoration] = WeakKeyDictionary()
"""The last restoration of each checkpoint: not an attribute, since those are the objects."""


def _status(path: StrPath, found: Restoration) -> CheckpointStatus:
    return CheckpointStatus(os.fspath(path), found.missing, found.unused, found.used)


def _call_after_write(options: Any, path: str) -> None:
    """Call the functions of `CheckpointOptions`; one with a parameter gets the path."""
    for function in getattr(options, "experimental_write_callbacks", None) or ():
        function(*[path][: len(inspect.signature(function).parameters)])


def _all_variables(tracked: Tracked) -> dict[str, Variable]:
    """Return the tracked variables, the optimizer slots, and the global random state."""
    variables = dict(tracked.variables)
    for name, optimizer in tracked.optimizers.items():
        variables |= slots_of(name, optimizer, tracked.variables)
    state = get_global_generator().state
    if all(variable is not state for variable in variables.values()):
        variables[RANDOM] = state
    return variables


def _as_json(name: str, value: Any) -> Any:
    try:
        same = json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(
            f"The state of {name!r} must consist of JSON values: dicts, lists, strings, numbers, "
            f"booleans and None. {str(error).rstrip('.')}."
        ) from error
    return same


def _state_in(file: TensorFile) -> dict[str, Any]:
    """Read the values of a checkpoint that are not arrays."""
    text = file.metadata.get(_STATE)
    if text is None:
        raise ArgumentError(
            f"{file.path!r} is not a checkpoint: it holds only arrays. Load it with load_weights."
        )
    try:
        state: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(damaged(file, error)) from error
    version = state.get("version") if isinstance(state, dict) else None
    if version != _VERSION:
        raise ArgumentError(
            f"Checkpoint {file.path!r} has format version {version!r}. This tapegrad reads version "
            f"{_VERSION}; use the tapegrad that wrote it, or a newer one."
        )
    aliases = state.get("aliases", {})
    if not isinstance(aliases, dict) or not all(isinstance(n, str) for n in aliases.values()):
        raise FileFormatError(f"The state in checkpoint {file.path!r} is damaged: 'aliases'.")
    return dict(state)


def file_of(path: StrPath) -> str:
    """Return the name of the file of a checkpoint."""
    name = os.fspath(path)
    return name if name.endswith(_SUFFIX) else name + _SUFFIX


def _file_to_read(path: StrPath) -> str:
    file = file_of(path)
    if not os.path.exists(file):
        raise NotFoundError(
            f"There is no checkpoint {os.fspath(path)!r}: it would be the file {file!r}. "
            "tapegrad.train.latest_checkpoint(folder) returns the last checkpoint of a folder."
        )
    return file


def latest_checkpoint(checkpoint_dir: StrPath, latest_filename: str | None = None) -> str | None:
    """Return the path of the last checkpoint in a folder, or None.

    >>> latest_checkpoint("a folder that is not there") is None
    True
    """
    paths = checkpoints_in(checkpoint_dir, latest_filename)
    return paths[-1] if paths else None


def checkpoints_in(folder: StrPath, filename: str | None = None) -> list[str]:
    """Return the paths of the existing checkpoints in a folder, oldest first."""
    return [os.path.join(folder, name) for name in _listed(folder, filename or _LIST)]


def _listed(folder: StrPath, filename: str = _LIST) -> list[str]:
    """Return the names of the existing checkpoints in a folder, oldest first."""
    path = Path(folder, filename)
    try:
        names = json.loads(path.read_text())["checkpoints"]
        if not all(os.path.basename(name) == name for name in names):
            raise ValueError("a name with a folder")  # files in other folders must not be deleted
    except FileNotFoundError:
        names = _numbered_files(folder)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ArgumentError(
            f"{os.fspath(path)!r} is not a list of checkpoints as tapegrad writes it. Delete it: "
            "the checkpoints are then found by their numbers."
        ) from error
    return [name for name in names if os.path.exists(file_of(os.path.join(folder, name)))]


def _numbered_files(folder: StrPath) -> list[str]:
    """Return file names of checkpoints, sorted by number, for a folder without a list."""
    pattern = re.compile(rf"[^.].*-(\d+){re.escape(_SUFFIX)}")
    files = [pattern.fullmatch(path.name) for path in Path(folder).glob(f"*{_SUFFIX}")]
    found = sorted([(int(match[1]), match[0]) for match in files if match])
    return [name.removesuffix(_SUFFIX) for _, name in found]


def _enlist(path: str) -> list[str]:
    """Append a checkpoint to the list of its folder, and return the list."""
    folder, name = os.path.split(path)
    names = [*[other for other in _listed(folder) if other != name], name]
    with replacing(os.path.join(folder, _LIST)) as file:
        file.write(json.dumps({"checkpoints": names}, indent=1).encode())
    return names


class CheckpointManager:
    """Save checkpoints to a folder and delete old ones.

    After the first `save` there is always a complete checkpoint: an old one is deleted only when
    the new one is on disk. `max_to_keep=None` keeps all. With `checkpoint_interval`, `save` does
    nothing and returns None until `step_counter` has grown by so many steps since the last one.

    >>> import tempfile
    >>> w = Variable(1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     manager = CheckpointManager(Checkpoint(w=w), folder, max_to_keep=2)
    ...     for _ in range(3):
    ...         path = manager.save()
    ...     [os.path.basename(path) for path in manager.checkpoints]
    ['ckpt-2', 'ckpt-3']
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: StrPath,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
        step_counter: Any = None,
        checkpoint_interval: int | None = None,
        init_fn: Callable[[], Any] | None = None,
        last_checkpoint_step: int | None = None,
    ) -> None:
        if keep_checkpoint_every_n_hours is not None:
            raise ArgumentError(
                "Checkpoints are not kept by the hour: use max_to_keep=None to keep all. "
                f"Got keep_checkpoint_every_n_hours={keep_checkpoint_every_n_hours!r}."
            )
        if checkpoint_interval is not None and step_counter is None:
            raise ArgumentError("checkpoint_interval needs a step_counter.")
        if max_to_keep is not None and max_to_keep < 1:
            raise ArgumentError(f"max_to_keep must be positive or None. Got {max_to_keep!r}.")
        self.checkpoint = checkpoint
        self.directory = os.fspath(directory)
        self.max_to_keep = max_to_keep
        self._name = checkpoint_name
        self._init_fn = init_fn
        self._steps, self.checkpoint_interval = step_counter, checkpoint_interval
        self._last_step = last_checkpoint_step

    @property
    def checkpoints(self) -> list[str]:
        """The paths of all checkpoints, oldest first."""
        return checkpoints_in(self.directory)

    @property
    def latest_checkpoint(self) -> str | None:
        """The path of the last checkpoint, or None."""
        return latest_checkpoint(self.directory)

    def save(
        self, checkpoint_number: Any = None, check_interval: bool = True, options: Any = None
    ) -> str | None:
        """Save the next checkpoint, or one with this number; then delete old checkpoints."""
        if check_interval and not self._is_due():
            return None
        prefix = os.path.join(self.directory, self._name)
        counter = self.checkpoint.save_counter
        number = int(counter) + 1 if checkpoint_number is None else int(checkpoint_number)
        path = self.checkpoint._write_numbered(prefix, number)
        # The list still has the old ones: if the process dies now, the next save deletes them.
        names = _enlist(path)
        if self.max_to_keep is not None:
            for name in names[: -self.max_to_keep]:
                Path(self.directory, name + _SUFFIX).unlink(missing_ok=True)
        _call_after_write(options, path)
        self._last_step = None if self._steps is None else int(self._steps)
        return path

    def _is_due(self) -> bool:
        interval, last = self.checkpoint_interval, self._last_step
        return interval is None or last is None or int(self._steps) >= last + interval

    def restore_or_initialize(self) -> str | None:
        """Restore the latest checkpoint and return its path; without one, call `init_fn`."""
        path = self.latest_checkpoint
        if path is not None:
            self.checkpoint.restore(path)
        elif self._init_fn is not None:
            self._init_fn()
        return path
