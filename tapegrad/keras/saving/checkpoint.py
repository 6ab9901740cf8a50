"""Checkpoints with TensorFlow's interface: the whole state of a training run in a file.

A checkpoint is one safetensors file, whose metadata hold what is no array. Nothing is pickled.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from glob import escape
from pathlib import Path
from typing import Any, Self

from tapegrad.core.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras.saving.atomic import TEMPORARY, StrPath, replacing
from tapegrad.keras.saving.slots import clear_slots, labels_of, make_slots, slots_of, tables_of
from tapegrad.keras.saving.tensor_file import TensorFile, write_tensors
from tapegrad.keras.saving.tracking import Tracked, track
from tapegrad.keras.saving.weights import assign_all, differences, shortened
from tapegrad.random import get_global_generator

_SUFFIX = ".safetensors"
_STATE = "tapegrad.checkpoint"
_VERSION = 1
_RANDOM = "~random"  # the names of objects never begin with a "~" and a letter
_LIST = "checkpoint"
"""The file in a folder that lists its checkpoints, oldest first; TensorFlow calls it so too."""


class CheckpointMismatchError(ArgumentError, AssertionError):
    """Objects and a checkpoint do not hold the same; an AssertionError as in TensorFlow.

    >>> issubclass(CheckpointMismatchError, AssertionError)
    True
    """


class CheckpointStatus:
    """What `restore` found: `missing` names are not in the checkpoint, `unused` ones only there.

    >>> CheckpointStatus("ckpt-1", [], ["old/kernel"]).expect_partial().unused
    ['old/kernel']
    """

    def __init__(self, path: str | None, missing: list[str], unused: list[str]) -> None:
        self.path = path
        self.missing = missing
        self.unused = unused

    def assert_consumed(self) -> Self:
        """Raise unless every object was restored and everything in the checkpoint was used."""
        if self.unused:
            raise CheckpointMismatchError(
                f"Checkpoint {self.path!r} holds values that no object took: "
                f"{shortened(self.unused)}. Give all objects that were saved, with their variables "
                "built, or call expect_partial() instead."
            )
        return self.assert_existing_objects_matched()

    def assert_existing_objects_matched(self) -> Self:
        """Raise unless every object was restored."""
        if self.path is None:
            raise CheckpointMismatchError("There was no checkpoint to restore: its path is None.")
        if self.missing:
            raise CheckpointMismatchError(
                f"Checkpoint {self.path!r} has no values for: {shortened(self.missing)}. "
                "They are as they were."
            )
        return self

    def expect_partial(self) -> Self:
        """Say that it is meant if the checkpoint and the objects do not hold the same."""
        return self


class Checkpoint:
    """Objects whose state is saved to files and restored from them, by their names.

    An object is a module, an optimizer, a variable, a random generator, a number, a text, a dict or
    list of these, or something with state() and set_state(). All are attributes, and more may be
    added. The state of the global random generator is part of every checkpoint.

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
                    f"{name!r} cannot be the name of an object: a checkpoint needs it itself. "
                    "Choose another name."
                )
        self.save_counter = Variable(0, trainable=False, name="save_counter", dtype="int64")
        vars(self).update(objects)

    def write(self, file_prefix: StrPath, options: Any = None) -> str:
        """Write a checkpoint to this path, to which ".safetensors" is added; return the path."""
        tracked = track(vars(self))
        variables = _all_variables(tracked)
        state = {
            "version": _VERSION,
            "values": {name: _as_json(name, place.get()) for name, place in tracked.places.items()},
            "optimizers": {
                name: labels_of(optimizer, tracked.variables)
                for name, optimizer in tracked.optimizers.items()
            },
        }
        write_tensors(_file_of(file_prefix), variables, {_STATE: json.dumps(state)})
        return os.fspath(file_prefix)

    def read(self, save_path: StrPath, options: Any = None) -> CheckpointStatus:
        """Restore all objects from a checkpoint that `write` or `save` made.

        Nothing changes if shapes or dtypes differ. Names may be missing on either side: ask the
        status that is returned.
        """
        tracked = track(vars(self))
        with TensorFile(_file_of(save_path)) as file, _undoing() as undo:
            state = _state_in(file)
            _refuse_differences(file, tracked.variables)
            try:
                values = {name: v for name, v in state["values"].items() if name in tracked.places}
                labels = state["optimizers"]
                optimizers = {n: one for n, one in tracked.optimizers.items() if n in labels}
                for optimizer in tracked.optimizers.values():
                    undo += [partial(_refill, *table) for table in tables_of(optimizer)]
                for name, optimizer in optimizers.items():
                    make_slots(optimizer, labels[name], tracked.variables)
            except (AttributeError, KeyError, TypeError) as error:
                raise ArgumentError(_damaged(file, error)) from error
            variables = _all_variables(tracked)
            _refuse_differences(file, variables)
            # All of them before any is assigned: a file that cannot be read changes nothing.
            arrays = {name: file[name] for name in variables if name in file}
            saved = set(file)
            # The objects' own methods come first: if one raises, no variable has changed.
            for name, value in values.items():
                place = tracked.places[name]
                undo.append(partial(place.put, place.get()))
                place.put(value)
        assign_all(variables, arrays)
        cleared: list[str] = []
        for name, optimizer in optimizers.items():
            cleared += clear_slots(name, optimizer, tracked.variables, saved)
        done = {*arrays, *values, *cleared}
        missing = [name for name in [*variables, *tracked.places] if name not in done]
        unused = sorted({*saved, *state["values"]} - done)
        return CheckpointStatus(os.fspath(save_path), missing, unused)

    def save(self, file_prefix: StrPath, options: Any = None) -> str:
        """Write the next checkpoint, `prefix-number`, which `latest_checkpoint` then finds."""
        path = self._write_numbered(file_prefix, int(self.save_counter) + 1)
        _enlist(path)
        return path

    def _write_numbered(self, file_prefix: StrPath, number: int) -> str:
        before = self.save_counter.value()
        self.save_counter.assign_add(1, read_value=False)
        try:
            return self.write(f"{os.fspath(file_prefix)}-{number}")
        except BaseException:
            self.save_counter.assign(before, read_value=False)
            raise

    def restore(self, save_path: StrPath | None, options: Any = None) -> CheckpointStatus:
        """Restore all objects as `read` does; None (there is no checkpoint) changes nothing."""
        if save_path is None:
            return CheckpointStatus(None, [], [])
        return self.read(save_path)


def _all_variables(tracked: Tracked) -> dict[str, Variable]:
    """The tracked variables, the slots that optimizers have now, and the global random state."""
    variables = dict(tracked.variables)
    for name, optimizer in tracked.optimizers.items():
        variables |= slots_of(name, optimizer, tracked.variables)
    state = get_global_generator().state
    if all(variable is not state for variable in variables.values()):
        variables[_RANDOM] = state
    return variables


@contextmanager
def _undoing() -> Iterator[list[Callable[[], Any]]]:
    """Call what the block puts on a list, the last first, if it raises."""
    undo: list[Callable[[], Any]] = []
    try:
        yield undo
    except BaseException:
        for one in reversed(undo):
            one()
        raise


def _refill(table: dict[Any, Any], content: dict[Any, Any]) -> None:
    table.clear()
    table.update(content)


def _as_json(name: str, value: Any) -> Any:
    try:
        same = json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(
            f"The state of {name!r} must consist of what JSON holds: dicts, lists, texts, numbers, "
            f"truths and None. {str(error).rstrip('.')}."
        ) from error
    return same


def _state_in(file: TensorFile) -> dict[str, Any]:
    """Read what a checkpoint holds besides arrays."""
    text = file.metadata.get(_STATE)
    if text is None:
        raise ArgumentError(
            f"{file.path!r} is no checkpoint: it holds arrays only. Load it with load_weights."
        )
    try:
        state: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(_damaged(file, error)) from error
    version = state.get("version") if isinstance(state, dict) else None
    if version != _VERSION:
        raise ArgumentError(
            f"Checkpoint {file.path!r} has a state of version {version!r}. This tapegrad reads "
            f"version {_VERSION}; use the one that wrote it, or a newer one."
        )
    return dict(state)


def _damaged(file: TensorFile, error: Exception) -> str:
    return f"The state in checkpoint {file.path!r} is damaged: {error!r}."


def _refuse_differences(file: TensorFile, variables: dict[str, Variable]) -> None:
    different = list(differences(variables, file.entries).values())
    if different:
        raise ArgumentError(
            f"Checkpoint {file.path!r} does not fit, and nothing was restored: "
            f"{shortened(different)}."
        )


def _file_of(path: StrPath) -> str:
    name = os.fspath(path)
    return name if name.endswith(_SUFFIX) else name + _SUFFIX


def latest_checkpoint(checkpoint_dir: StrPath, latest_filename: str | None = None) -> str | None:
    """Return the path of the checkpoint that was saved last in a folder, or None.

    >>> latest_checkpoint("a folder that is not there") is None
    True
    """
    names = _listed(checkpoint_dir, latest_filename or _LIST)
    return os.path.join(checkpoint_dir, names[-1]) if names else None


def _listed(folder: StrPath, filename: str = _LIST) -> list[str]:
    """Names of the checkpoints in a folder that are there, oldest first."""
    path = Path(folder, filename)
    try:
        names = json.loads(path.read_text())["checkpoints"]
        if not all(os.path.basename(name) == name for name in names):
            raise ValueError("a name with a folder")  # whose files are not ours to delete
    except FileNotFoundError:
        names = _numbered_files(folder)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ArgumentError(
            f"{os.fspath(path)!r} does not list the checkpoints of its folder as tapegrad writes "
            "it. Delete it: then they are found by their numbers."
        ) from error
    return [name for name in names if os.path.exists(_file_of(os.path.join(folder, name)))]


def _numbered_files(folder: StrPath) -> list[str]:
    """Names like those of checkpoints by number, for a folder whose list is lost."""
    pattern = re.compile(rf"[^.].*-(\d+){re.escape(_SUFFIX)}")
    files = [pattern.fullmatch(path.name) for path in Path(folder).glob(f"*{_SUFFIX}")]
    found = sorted([(int(match[1]), match[0]) for match in files if match])
    return [name.removesuffix(_SUFFIX) for _, name in found]


def _enlist(path: str) -> list[str]:
    """Put a checkpoint at the end of its folder's list, and return that."""
    folder, name = os.path.split(path)
    names = [*[other for other in _listed(folder) if other != name], name]
    with replacing(os.path.join(folder, _LIST)) as file:
        file.write(json.dumps({"checkpoints": names}, indent=1).encode())
    return names


class CheckpointManager:
    """Saves checkpoints to a folder of its own and deletes old ones.

    There is a complete checkpoint at every moment after the first `save`: an old one goes only
    when the new one is on the disk. `max_to_keep=None` keeps all.

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
        checkpoint_name: str = "ckpt",
        init_fn: Callable[[], Any] | None = None,
    ) -> None:
        if max_to_keep is not None and max_to_keep < 1:
            raise ArgumentError(f"max_to_keep must be positive or None. Got {max_to_keep!r}.")
        self.checkpoint = checkpoint
        self.directory = os.fspath(directory)
        self.max_to_keep = max_to_keep
        self._name = checkpoint_name
        self._init_fn = init_fn

    @property
    def checkpoints(self) -> list[str]:
        """Paths of all checkpoints that are kept, oldest first."""
        return [os.path.join(self.directory, name) for name in _listed(self.directory)]

    @property
    def latest_checkpoint(self) -> str | None:
        """Path of the checkpoint that was saved last, or None."""
        return latest_checkpoint(self.directory)

    def save(self, checkpoint_number: Any = None) -> str:
        """Save the next checkpoint, or one of this number; then delete what is too old."""
        prefix = os.path.join(self.directory, self._name)
        counter = self.checkpoint.save_counter
        number = int(counter) + 1 if checkpoint_number is None else int(checkpoint_number)
        path = self.checkpoint._write_numbered(prefix, number)
        # Still with those to be deleted: if we die before that, the next one deletes them.
        names = _enlist(path)
        if self.max_to_keep is not None:
            for name in names[: -self.max_to_keep]:
                Path(self.directory, name + _SUFFIX).unlink(missing_ok=True)
        self._sweep()
        return path

    def _sweep(self) -> None:
        """Delete what savers that were killed left behind."""
        name = escape(self._name)
        for pattern in (f".{name}-*{_SUFFIX}.*{TEMPORARY}", f".{_LIST}.*{TEMPORARY}"):
            for path in Path(self.directory).glob(pattern):
                path.unlink(missing_ok=True)

    def restore_or_initialize(self) -> str | None:
        """Restore the latest checkpoint and return its path; without one, call `init_fn`."""
        path = self.latest_checkpoint
        if path is not None:
            self.checkpoint.restore(path)
        elif self._init_fn is not None:
            self._init_fn()
        return path
