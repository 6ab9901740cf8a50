"""Checkpoints that all processes write together: complete or absent, for any number of processes.

Each process copies its part of the state and writes it to one file, in a thread. When all
files are on the disk, rank 0 writes a manifest; a folder without one is no checkpoint. A restore
reads one variable at a time and takes the part of this process, so the number of processes, and
whether a model is sharded, may differ from those of the save.
"""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from tapegrad.core.backend.communication import Peers
from tapegrad.core.files.atomic import StrPath, replacing
from tapegrad.core.values.variable import Variable
from tapegrad.core.world import current_world, rank_in
from tapegrad.distribute.mirrored import self_and_others
from tapegrad.errors import ArgumentError, FileFormatError
from tapegrad.keras.saving.tensor_file import TensorFile, write_tensors
from tapegrad.ops.collective.sharded_weights import ShardedWeight, sharded_weight
from tapegrad.ops.random.generator import get_global_generator

MANIFEST = "manifest.json"


class ShardedCheckpoint:
    """Save and restore models, optimizers and variables, given by name.

    All processes call the same methods. The folder must be one that all of them reach. `keep` is
    the number of checkpoints that remain; older ones are removed. The state of the global random
    generator is part of each checkpoint.

    >>> import tempfile
    >>> step = Variable(3, trainable=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = ShardedCheckpoint(folder, step=step)
    ...     checkpoint.save(3)
    ...     checkpoint.wait()
    ...     _ = step.assign(0)
    ...     checkpoint.restore(), int(step)
    (3, 3)
    """

    def __init__(self, folder: StrPath, keep: int = 3, **objects: Any) -> None:
        if not objects:
            raise ArgumentError(
                "ShardedCheckpoint needs objects by name, such as model=model, optimizer=optimizer."
            )
        if type(keep) is not int or keep < 1:
            raise ArgumentError(f"keep must be a number of checkpoints from 1. Got {keep!r}.")
        self.folder, self.keep = Path(folder), keep
        self._objects = objects
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def save(self, number: int) -> None:
        """Copy the state, and write it in a thread as the checkpoint of a number, such as a step.

        An earlier save is waited for. An error of its thread is raised here.
        """
        self.wait()
        world = current_world()
        mine, records = {}, {}
        for place, (name, (variable, weight)) in enumerate(self._variables().items()):
            is_writer = place % world.size == world.rank if weight is None else True
            if is_writer:
                mine[name] = np.array(variable.numpy(), copy=True)
                records[name] = _record(weight)
        arguments = (number, mine, records, next(world.rounds))
        self._thread = threading.Thread(target=self._write, args=arguments, name="tapegrad-save")
        self._thread.start()

    def wait(self) -> None:
        """Wait until the last save is complete, and raise its error if it failed."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def numbers(self) -> list[int]:
        """Return the numbers of the complete checkpoints in the folder, in order."""
        found = [one.parent.name for one in self.folder.glob(f"ckpt-*/{MANIFEST}")]
        return sorted(int(name.removeprefix("ckpt-")) for name in found)

    def restore(self, number: int | None = None) -> int | None:
        """Restore a checkpoint, by default the latest one, and return its number.

        Return None if there is none. If the checkpoint does not fit, nothing changes.
        """
        self.wait()
        if number is None:
            known = self.numbers()
            number = known[-1] if known else None
            if current_world().size > 1:  # all restore what rank 0 sees
                number = json.loads(self_and_others(json.dumps(number))[0])
        if number is None:
            return None
        variables = self._variables()
        with ExitStack() as opened:
            saved = _Saved(self._place(number), opened)
            saved.check(variables)
            for name, (variable, weight) in variables.items():
                value = saved.read(name)
                variable.assign(value if weight is None else weight.cut(value), read_value=False)
        return number

    def _place(self, number: int) -> Path:
        return self.folder / f"ckpt-{number:010d}"

    def _variables(self) -> dict[str, tuple[Variable, ShardedWeight | None]]:
        """Return all variables by name, with how they are sharded."""
        found: dict[str, tuple[Variable, ShardedWeight | None]] = {}
        models = [one for one in self._objects.values() if hasattr(one, "named_variables")]
        for name, one in self._objects.items():
            if hasattr(one, "named_variables"):
                for path, variable in one.named_variables().items():
                    found[f"{name}/{path}"] = variable, sharded_weight(variable)
            elif hasattr(one, "apply_gradients"):
                optimizer = getattr(one, "inner_optimizer", one)
                for model in models:
                    optimizer.build(model.trainable_variables)
                found.update(_of_optimizer(name, optimizer))
            elif isinstance(one, Variable):
                found[name] = one, sharded_weight(one)
            else:
                raise ArgumentError(
                    f"ShardedCheckpoint saves models, optimizers and variables. {name!r} is a "
                    f"{type(one).__name__}."
                )
        found["random state"] = get_global_generator().state, None
        return found

    def _write(
        self,
        number: int,
        arrays: Mapping[str, np.ndarray],
        records: Mapping[str, Any],
        turn: int,
    ) -> None:
        """Write the file of this process; rank 0 then waits for all others."""
        world, place = current_world(), self._place(number)
        try:
            place.mkdir(parents=True, exist_ok=True)
            name = f"rank-{world.rank}-of-{world.size}.safetensors"
            write_tensors(place / name, arrays, {"parts": json.dumps(records)})
            peers: Peers | None = world.peers
            if peers is not None:
                peers.publish(f"saved {turn} by {world.rank}", name)
            if world.rank == 0:
                files = [name]
                if peers is not None:
                    files = [peers.look_up(f"saved {turn} by {r}") for r in range(world.size)]
                with replacing(place / MANIFEST) as file:
                    file.write(json.dumps({"number": number, "files": files}).encode())
                self._remove_old(number)
        except BaseException as error:  # the main thread raises it at its next call
            self._error = error

    def _remove_old(self, latest: int) -> None:
        """Remove old checkpoints, and folders that interrupted saves have left."""
        complete = self.numbers()
        kept = {*complete[-self.keep :], latest}
        for one in self.folder.glob("ckpt-*"):
            found = re.fullmatch(r"ckpt-(\d+)", one.name)
            if found is not None and int(found[1]) not in kept and int(found[1]) < latest:
                (one / MANIFEST).unlink(missing_ok=True)  # first, so that it is absent at once
                shutil.rmtree(one, ignore_errors=True)


def _of_optimizer(name: str, optimizer: Any) -> dict[str, tuple[Variable, ShardedWeight | None]]:
    """Return the state of an optimizer; slots are sharded as their variables are."""
    found: dict[str, tuple[Variable, ShardedWeight | None]] = {}
    owners = {
        slot.number: sharded_weight(optimizer._known[number])
        for number, slots in optimizer._slots.items()
        for slot in slots
    }
    for place, variable in enumerate(optimizer.variables):
        label = variable.name.removesuffix(":0")
        found[f"{name}/{place} {label}"] = variable, owners.get(variable.number)
    return found


def _record(weight: ShardedWeight | None) -> Any:
    """Return what a file says of a variable: its whole shape, its axis and the number of its part.

    The axis is None for parts of the flat elements.
    """
    if weight is None:
        return None
    axis = weight.params.get("axis")
    return {"shape": [*weight.shape], "axis": axis, "part": rank_in(weight.group)}


class _Saved:
    """The files of a checkpoint, read one variable at a time."""

    def __init__(self, place: Path, opened: ExitStack) -> None:
        try:
            manifest = json.loads((place / MANIFEST).read_text())
        except FileNotFoundError:
            raise ArgumentError(f"{str(place)!r} is no complete checkpoint.") from None
        self._place = place
        self._parts: dict[str, dict[int, tuple[TensorFile, Any]]] = {}
        for file_name in manifest["files"]:
            file = opened.enter_context(TensorFile(place / file_name))
            for name, record in json.loads(file.metadata["parts"]).items():
                number = 0 if record is None else record["part"]
                self._parts.setdefault(name, {})[number] = file, record

    def check(self, variables: Mapping[str, tuple[Variable, ShardedWeight | None]]) -> None:
        """Raise unless all variables are there with the right whole shapes."""
        for name, (variable, weight) in variables.items():
            if name not in self._parts:
                raise FileFormatError(
                    f"The checkpoint {str(self._place)!r} has no {name!r}. It has: "
                    f"{', '.join(sorted(self._parts))}."
                )
            wanted = [*(variable.shape if weight is None else weight.shape)]
            if self._shape(name) != wanted:
                raise FileFormatError(
                    f"{name!r} has shape {self._shape(name)} in the checkpoint "
                    f"{str(self._place)!r}, but {wanted} in this program."
                )

    def _shape(self, name: str) -> Sequence[int]:
        file, record = next(iter(self._parts[name].values()))
        return [*file.entries[name].shape] if record is None else record["shape"]

    def read(self, name: str) -> np.ndarray:
        """Return the whole value of a variable."""
        parts = self._parts[name]
        arrays = [parts[number][0][name] for number in sorted(parts)]
        _, record = parts[0]
        if record is None:
            return arrays[0]
        if record["axis"] is not None:
            return np.concatenate(arrays, record["axis"])
        shape = tuple(record["shape"])
        count = int(np.prod(shape))
        return np.concatenate(arrays)[:count].reshape(shape)
