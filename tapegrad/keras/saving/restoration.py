"""Restore objects from a checkpoint: what is there at once, and what appears later when it does.

A `Restoration` remembers which values of its file were used. After a write to an attribute of one
of the objects it looks for variables that were not there before, and gives them their values.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self

from tapegrad.core.commit import array_of, assign_together, store
from tapegrad.core.files.formats import damage_explained
from tapegrad.core.observed import ON_WRITE
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, FileFormatError, RecordingError
from tapegrad.keras.saving.slots import cleared_slots, make_slots, slots_of, tables_of
from tapegrad.keras.saving.tensor_file import TensorFile
from tapegrad.keras.saving.tracking import HasState, HasVariables, Matcher, Place, Tracked, track
from tapegrad.keras.saving.watched_containers import watched
from tapegrad.keras.saving.weights import differences, placed_like, shortened
from tapegrad.optimizers.base import Optimizer
from tapegrad.program.record.recording import current_recording, set_recording
from tapegrad.random import get_global_generator

RANDOM = "~random"  # names of objects never start with "~" and a letter


class Restoration:
    """Gives objects the values of one file; `missing` and `unused` are the current differences."""

    def __init__(self, path: str, read_state: Callable[[TensorFile], dict[str, Any]]) -> None:
        self.path = path
        self.missing: list[str] = []
        self.unused: list[str] = []
        self.used: set[str] = set()
        """The names in the file whose values were given to an object."""
        self._read_state = read_state
        self._state: dict[str, Any] | None = None
        self._saved: set[str] = set()
        self._identity: tuple[int, ...] = ()
        self._done: set[int] = set()
        self._optimizers: set[int] = set()
        self._known: set[str] = set()
        """The names of objects, in this program, that were there before."""
        self._owners: set[int] = set()
        self._entries: dict[int, int] = {}
        self._is_busy = False

    def run(self, objects: dict[str, Any]) -> None:
        """Restore what was not there when this was called before; nothing changes on an error."""
        tracked = track(objects)
        self._owners = tracked.owners
        is_first = self._state is None
        if not is_first and not self._has_news(_Named(tracked, self._state, self._saved)):
            return
        with TensorFile(self.path) as file, _Undo() as undo:
            self._check_identity(file)
            if is_first:
                self._take_state(file)
            named = _Named(tracked, self._state, self._saved)
            named.drop_other_shapes(file)
            self._give(file, named, undo, is_first)
        self._known.update(named.owners)
        state_names = self._state["values"] if self._state else ()
        self.missing[:] = [
            name for name in [*named.with_slots(), *named.places] if name not in self.used
        ]
        self.unused[:] = sorted({*self._saved, *state_names} - self.used)

    def _take_state(self, file: TensorFile) -> None:
        state, self._saved = self._read_state(file), set(file)
        try:
            state["values"].items(), iter(state["optimizers"])
            set(state.get("aliases", {}).values())  # names, which have a hash
        except (AttributeError, LookupError, TypeError) as error:
            raise FileFormatError(damaged(file, error)) from error
        self._state = state

    def _give(self, file: TensorFile, named: _Named, undo: _Undo, is_first: bool) -> None:
        state: Any = self._state
        labels = state["optimizers"]
        values = {n: v for n, v in state["values"].items() if n in named.places}
        if not is_first:
            values = {name: value for name, value in values.items() if name not in self.used}
        self._refuse_differences(file, self._new(named.variables, is_first))
        try:
            optimizers = {n: one for n, one in named.optimizers.items() if n in labels}
            for optimizer in named.optimizers.values():
                undo += [partial(_refill, *table) for table in tables_of(optimizer)]
            for name, optimizer in optimizers.items():
                make_slots(optimizer, labels[name], named.variables)
        except (AttributeError, LookupError, TypeError) as error:
            raise FileFormatError(damaged(file, error)) from error
        new = self._new({**named.with_slots(), **(_random(named) if is_first else {})}, is_first)
        self._refuse_differences(file, new)
        # Variables that were one when the file was written, and of which one was there before.
        twins = [(n, v) for n, v in self._twins(named) if not differences({n: v}, file.entries)]
        # Read all arrays before the first assignment: an unreadable file changes nothing.
        arrays = {name: file[name] for name in new if name in file}
        arrays |= {name: file[name] for name, _ in twins}
        # Call set_state() first: if one raises, no variable has changed.
        for name, value in values.items():
            place = named.places[name]
            undo.append(partial(place.put, place.get()))
            with damage_explained(file.path, f"the state of {name!r}"):
                place.put(value)
        cleared: dict[str, Any] = {}
        for name, optimizer in optimizers.items():
            if id(optimizer) not in self._optimizers:
                cleared |= cleared_slots(name, optimizer, named.variables, self._saved)
        changes = [(new[n], placed_like(new[n], array)) for n, array in arrays.items() if n in new]
        changes += [
            (v, placed_like(v, arrays[n])) for n, v in named.further if n in new and n in arrays
        ]
        changes += [(v, placed_like(v, arrays[n])) for n, v in twins]
        changes += list(cleared.values())
        # All variables change in one call; an exception after it changes them back.
        changed = [variable for variable, _ in changes]
        undo.append(partial(store, changed, [variable.array for variable in changed]))
        assign_together(changed, [value for _, value in changes])
        self._done.update(variable.number for variable in changed)
        self._optimizers.update(map(id, optimizers.values()))
        self.used.update(arrays, values, cleared)

    def _new(self, variables: Mapping[str, Variable], is_first: bool) -> dict[str, Variable]:
        return {
            name: variable
            for name, variable in variables.items()
            if variable.number not in self._done and (is_first or name not in self.used)
        }

    def _twins(self, named: _Named) -> list[tuple[str, Variable]]:
        """Return new variables whose values were used for another one, which had another name."""
        return [
            (name, variable)
            for name, own, variable in named.all_variables
            if name in self.used
            and name in self._saved
            and variable.number not in self._done
            and not self._is_known(own)
        ]

    def _is_known(self, own: str) -> bool:
        """Whether there was a variable of this name, or an object that it belonged to twice."""
        parts = own.split("/")
        return any("/".join(parts[:k]) in self._known for k in range(1, len(parts) + 1))

    def _has_news(self, named: _Named) -> bool:
        state: Any = self._state
        return (
            bool(self._twins(named))
            or any(name in self._saved for name in self._new(named.variables, False))
            or any(name in state["values"] and name not in self.used for name in named.places)
            or any(
                name in state["optimizers"] and id(one) not in self._optimizers
                for name, one in named.optimizers.items()
            )
        )

    def _check_identity(self, file: TensorFile) -> None:
        found = os.stat(file.path)
        identity = (found.st_ino, found.st_size, found.st_mtime_ns)
        if self._identity and self._identity != identity:
            raise ArgumentError(
                f"Checkpoint {self.path!r} was replaced after it was restored, and now objects "
                "appeared whose values it held. Create all objects before you call restore."
            )
        self._identity = identity

    def _refuse_differences(self, file: TensorFile, variables: Mapping[str, Variable]) -> None:
        different = list(differences(variables, file.entries).values())
        if different:
            raise ArgumentError(
                f"Checkpoint {file.path!r} does not match, and nothing was restored: "
                f"{shortened(different)}."
            )

    # Later

    def wait_for(self, checkpoint: Any) -> None:
        """Restore what appears later, as long as the checkpoint or one of its objects lives."""
        self._checkpoint = weakref.ref(checkpoint, self._stop_without_objects)
        objects = vars(checkpoint).items()
        self._roots = {
            name: weakref.ref(value, self._stop_without_objects)
            for name, value in objects
            if isinstance(value, HasVariables) and hasattr(value, "__weakref__")
        }
        for other in _waiting():
            if self._replaces(other):
                other.stop_waiting()
        if self._may_come() and self.notice not in ON_WRITE:
            ON_WRITE.append(self.notice)

    def _may_come(self) -> bool:
        """Whether the file has names that no object has had."""
        aliases = self._state.get("aliases", {}) if self._state else {}
        names = {*aliases, *self._saved.intersection(aliases.values())}
        return bool(self.unused) or not names <= self._known

    def _replaces(self, other: Restoration) -> bool:
        """Whether another restoration waits for nothing but what this one gives."""
        state_names = self._state["values"] if self._state else ()
        return {*other.unused} <= {*self._saved, *state_names} and all(
            root() is None or (name in self._roots and self._roots[name]() is root())
            for name, root in other._roots.items()
        )

    def _stop_without_objects(self, _: Any) -> None:
        """Stop when the last of the objects is deleted; each waiting one costs time at a write."""
        if all(one() is None for one in [self._checkpoint, *self._roots.values()]):
            self.stop_waiting()

    def stop_waiting(self) -> None:
        """Do not restore what appears from now on."""
        if self.waits:
            ON_WRITE.remove(self.notice)

    def notice(self, owner: Any, name: str, value: Any) -> None:
        """Look for new variables after a write to an attribute of one of the objects."""
        if self._is_busy or id(owner) not in self._owners or name in owner.unobserved:
            return
        self.watch_entries(owner, name, value)
        if not _may_hold_state(value, name) and not self._has_new_entries(owner):
            return
        if not getattr(owner, "built", True):  # the end of `build` is another write
            return
        self.look_again()

    def watch_entries(self, owner: Any, name: str, value: Any) -> None:
        """Put a container that says when it grows into an attribute for which entries wait."""
        if type(value) not in (list, dict) or not any(f"{name}/" in one for one in self.unused):
            return
        this = weakref.ref(self)

        def notify() -> None:
            restoration = this()
            if restoration is not None and restoration.waits and not restoration._is_busy:
                restoration.look_again()

        vars(owner)[name] = watched(value, notify)

    @property
    def waits(self) -> bool:
        """Whether what appears later is restored."""
        return self.notice in ON_WRITE

    def _has_new_entries(self, owner: Any) -> bool:
        """Whether lists and dictionaries of an object grew; they do not notice it themselves."""
        held = vars(owner).values() if hasattr(owner, "__dict__") else ()
        entries = sum([len(one) for one in held if isinstance(one, list | dict)])
        before, self._entries[id(owner)] = self._entries.get(id(owner), 0), entries
        return entries > before

    def look_again(self) -> None:
        """Restore what was not there before."""
        checkpoint = self._checkpoint()
        roots = {name: root() for name, root in self._roots.items()}
        objects = {n: v for n, v in roots.items() if v is not None}
        objects = objects if checkpoint is None else vars(checkpoint)
        if not objects:
            self.stop_waiting()
            return
        recording, self._is_busy = current_recording(), True
        before = set(self._done)
        set_recording(None)  # what is restored is an initial value, and no step of the function
        try:
            self.run(objects)
        except FileNotFoundError as error:
            raise ArgumentError(
                f"Checkpoint {self.path!r} was deleted after it was restored, and now objects "
                "appeared whose values it held. Create all objects before you call restore."
            ) from error
        finally:
            set_recording(recording)
            self._is_busy = False
        if recording is not None:
            self._set_initial(recording, track(objects), self._done - before)
        if not self._may_come():
            self.stop_waiting()

    def _set_initial(self, recording: Any, tracked: Tracked, numbers: set[int]) -> None:
        for variable in tracked.variables.values():
            if variable.number in numbers and not recording.set_initial(
                variable, array_of(variable)
            ):
                raise RecordingError(
                    f"A checkpoint was restored before variable {variable.name!r} belonged to its "
                    "objects, and now a function that is being recorded has already used it. "
                    "Build the model before you call the function."
                )


def _waiting() -> list[Restoration]:
    owners = [getattr(notify, "__self__", None) for notify in ON_WRITE]
    return [owner for owner in owners if isinstance(owner, Restoration)]


def _may_hold_state(value: Any, name: str) -> bool:
    """Whether a value of an attribute may have its values in a file; tensors have not."""
    if name == "built" or isinstance(value, Variable | HasVariables | HasState):
        return True
    if not isinstance(value, list | dict | tuple):
        return False
    items = value.values() if isinstance(value, dict) else value
    return not all([isinstance(item, Tensor) for item in items])


class _Named:
    """Tracked objects by the names that the file has for them, otherwise by their own."""

    def __init__(self, tracked: Tracked, state: Any, saved: set[str]) -> None:
        theirs = state.get("aliases", {})
        find = Matcher(saved, theirs, tracked.aliases).find
        self.variables: dict[str, Variable] = {}
        self.further: list[tuple[str, Variable]] = []
        """Variables that were one when the file was written."""
        self._own_names: dict[str, str] = {}
        self.all_variables: list[tuple[str, str, Variable]] = []
        """Each with its name in the file and its own name."""
        self.owners = {*tracked.variables, *tracked.aliases}
        """The names of variables, and the further names of objects."""
        for own, variable in tracked.variables.items():
            name = find(own) or own
            self.all_variables.append((name, own, variable))
            if name in self.variables:
                self.further.append((name, variable))
            else:
                self.variables[name], self._own_names[name] = variable, own
        find = Matcher(state["optimizers"], theirs, tracked.aliases).find
        self.optimizers: dict[str, Optimizer] = {
            find(name) or name: optimizer for name, optimizer in tracked.optimizers.items()
        }
        find = Matcher(state["values"], theirs, tracked.aliases).find
        self.places: dict[str, Place] = {
            find(name) or name: place for name, place in tracked.places.items()
        }

    def drop_other_shapes(self, file: TensorFile) -> None:
        """Undo renamings to arrays that do not fit: those were other variables."""
        for name in differences(self.variables, file.entries):
            own = self._own_names[name]
            if own != name and own not in self.variables:
                self.variables[own] = self.variables.pop(name)
        wrong = [bool(differences({n: v}, file.entries)) for n, v in self.further]
        self.further = [pair for pair, is_wrong in zip(self.further, wrong) if not is_wrong]

    def with_slots(self) -> dict[str, Variable]:
        """Return the variables and the state of the optimizers."""
        found = dict(self.variables)
        for name, optimizer in self.optimizers.items():
            found |= slots_of(name, optimizer, self.variables)
        return found


def _random(named: _Named) -> dict[str, Variable]:
    """Return the global random state, unless it is one of the objects."""
    state = get_global_generator().state
    is_apart = all(variable is not state for variable in named.with_slots().values())
    return {RANDOM: state} if is_apart else {}


def damaged(file: TensorFile, error: Exception) -> str:
    """Return the sentence about a state that cannot be read."""
    return f"The state in checkpoint {file.path!r} is damaged: {error!r}."


class _Undo(list[Callable[[], Any]]):
    """A list of undo functions, which are called in reverse order if the block raises."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            for one in reversed(self):
                one()


def _refill(table: dict[Any, Any], content: dict[Any, Any]) -> None:
    table.clear()
    table.update(content)
