"""The recording side of a tape: its life cycle, watched values and the nodes of values."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self

from tapegrad.autodiff import batching
from tapegrad.autodiff.arguments import (
    check_watchable,
    variable_in,
    warn_few_times,
    warn_once,
)
from tapegrad.autodiff.plan import FAILED, USED_UP, Plan
from tapegrad.autodiff.sweep import release
from tapegrad.autodiff.watch import follow
from tapegrad.core.call_site import warn_outside
from tapegrad.core.exits import CutLog
from tapegrad.core.recorder import (
    Node,
    Operation,
    Stack,
    Token,
    active_stack,
    enter_recorder,
    leave_recorder,
    make_leaf,
    replace_recorder,
    using_stack,
)
from tapegrad.core.uninterrupted import starts_uninterrupted
from tapegrad.core.values import nest
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, TapeError

_NONE: tuple[int, ...] = ()


class Recording(CutLog):
    """Base class of GradientTape: a recorder that keeps the history of watched values."""

    # The targets and sources of the last sweep, and the sources that it reached, by the ids of
    # their nodes.
    _swept = _asked = _found = _NONE

    def __init__(self, persistent: bool, watch_accessed_variables: bool) -> None:
        self.listens = persistent
        self.watches_variables = watch_accessed_variables
        self.frame = batching.current_frame()
        around = () if self.frame is None else batching.frames_around(self.frame)
        self._levels = [frame.level for frame in around]
        self._persistent = persistent
        self._recording = False
        self._was_entered = False
        self._used_up = ""
        self._variables: dict[int, tuple[Variable, list[Node]]] = {}
        self._per_example: dict[Any, Tensor] = {}
        if persistent:
            self._history: weakref.WeakSet[Node] = weakref.WeakSet()
        self.token = self._new_token()  # last: `__del__` reads all of these once it exists

    def _new_token(self) -> Token:
        return Token(keeps_history=True, levels=tuple(self._levels))

    def __repr__(self) -> str:
        state = "not entered"
        if self._recording:
            state = "recording"
        elif self._used_up:
            state = "used up"
        elif self._was_entered:
            state = "recorded"
        kind = ", persistent" if self._persistent else ""
        watched = f", {len(self._variables)} variables watched" if self._variables else ""
        return f"<tapegrad.{type(self).__name__}: {state}{kind}{watched}>"

    # Life cycle

    def __enter__(self) -> Self:
        if self._recording:
            raise ArgumentError("Tape is still recording: it cannot be entered twice at a time.")
        if self._used_up:
            self._start_anew()
        try:
            enter_recorder(self)
            self._recording = self._was_entered = True
            return self
        except BaseException:  # an interrupt, after which `__exit__` is not called
            leave_recorder(self)
            self._recording = False
            raise

    @starts_uninterrupted
    def __exit__(self, kind: Any = None, error: Any = None, traceback: Any = None) -> None:
        if self._recording:
            try:
                leave_recorder(self)
            finally:
                self._recording = False

    def _start_anew(self) -> None:
        """Forget everything recorded: the nodes of the old token no longer belong to this tape."""
        self.token.open = False
        self.token = self._new_token()
        self._used_up = ""
        self._swept = self._asked = self._found = _NONE
        self._variables.clear()
        self._per_example.clear()
        self.forget_cuts()

    @contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Stop this tape, and only this one, from recording inside the block."""
        if not self._recording:
            raise TapeError("stop_recording() needs a tape that is recording: enter it first.")
        try:
            with using_stack(active_stack().without(self)):
                yield
        finally:
            self._leave_if_stopped()

    def _leave_if_stopped(self) -> None:
        """Leave the stack if gradient() inside stop_recording() has ended the recording."""
        if not self._recording:
            leave_recorder(self)

    def reset(self) -> None:
        """Forget everything recorded and watched, and continue to record."""
        if not self._recording:
            raise ArgumentError("reset() needs a tape that is recording. Call it in its block.")
        self._start_anew()
        replace_recorder(self)

    def clear(self) -> None:
        """Free everything that this tape keeps alive. It can be entered again."""
        if self._recording:
            raise TapeError("clear() needs a tape that is not recording. Leave its block first.")
        self._release_history()
        self._start_anew()

    def _release_history(self) -> None:
        self.token.open = False
        if not self._persistent:
            return
        for node in self._history:
            if not any(token.open and token.keeps_history for token in node.tokens):
                release(node)
        self._history.clear()

    def __del__(self) -> None:
        if hasattr(self, "token"):  # absent when __init__ raised
            self._release_history()

    def __reduce__(self) -> Any:
        raise ArgumentTypeError(
            "A GradientTape cannot be pickled: it belongs to the computation it recorded. "
            "Pickle the variables or the gradients instead."
        )

    # The interface to the recorder stack

    def on_operation(self, operation: Operation) -> None:
        """Remember weakly which nodes a persistent tape must release at its end."""
        for node in operation.outputs:
            if node is not None:
                self._history.add(node)
                self._history.update(source for source in node.inputs if source is not None)

    def follows_variable(self, variable: Variable, node: Node) -> bool:
        """Return whether the tape follows reads of the variable, and remember the leaf."""
        known = self._variables.get(variable.number)
        if known is not None:
            known[1].append(node)
        elif self.watches_variables and variable.trainable:
            self._variables[variable.number] = (variable, [node])
        else:
            return False
        return variable.dtype.is_differentiable

    def read_per_example(self, variable: Variable, is_own: bool = False) -> Any:
        """Read a variable for a tape inside vmap: one copy (a view) per example.

        With `is_own`, the result is a separate source; otherwise reads share one.
        """
        stack = active_stack()
        key = (variable.number, id(variable.array), stack.tokens)
        known = None if is_own else self._per_example.get(key)
        if known is None:
            inside = [r for r in stack.recorders if r.frame is self.frame]
            with using_stack(Stack(tuple(r for r in stack.recorders if r not in inside))):
                known = batching.per_example(variable.shared_value(), self.frame)
            for recorder in inside:
                node = follow(batching.unwrap(known)[0], recorder.token)
                recorder.follows_variable(variable, node)
            if not is_own:
                self._per_example[key] = known
        return known

    # Watching

    def watch(self, tensor: Any) -> None:
        """Watch a tensor, a variable, or all of them in a nested structure."""
        leaves = [variable_in(leaf) for leaf in nest.flatten(tensor)]
        for position, leaf in enumerate(leaves):
            check_watchable(leaf, position)
        if not self._recording:
            raise TapeError("watch() works while the tape records: enter the tape first.")
        if not leaves:
            warn_outside("watch() got an empty structure: nothing is watched.")
        for leaf in leaves:
            self._watch_leaf(leaf)

    def _watch_leaf(self, leaf: Any) -> None:
        if not leaf.dtype.is_differentiable:
            warn_few_times(
                f"The dtype of the watched tensor must be floating (e.g. float32). "
                f"Got {leaf.dtype}: its gradient will be None."
            )
            if isinstance(leaf, Variable):
                self._variables.setdefault(leaf.number, (leaf, []))
        elif isinstance(leaf, Variable):
            self._variables.setdefault(leaf.number, (leaf, []))
            leaf.forget_leaf()
        else:
            follow(self._inside(leaf), self.token)

    def _inside(self, value: Any) -> Tensor:
        """Return the tensor that the tape records, with the examples of all vmaps around it."""
        if type(value) is Tensor:
            return value
        inside, levels = batching.unwrap(value)
        others = [level for level in levels if level not in self._levels]
        # Other levels may be rows of a Jacobian that calls a custom gradient.
        if others and batching.is_running(others):
            raise TapeError(
                "A tape made outside vmap cannot differentiate one example inside it. Make the "
                "tape inside the mapped function, or differentiate what vmap returns."
            )
        return inside  # type: ignore[no-any-return]

    def watched_variables(self) -> tuple[Variable, ...]:
        """Return the variables that the tape watches, in the order of their creation."""
        return tuple(self._variables[number][0] for number in sorted(self._variables))

    def _check_usable(self, method: str) -> None:
        if not self._was_entered:
            raise TapeError(
                f"{method}() needs a tape that has recorded something: enter the tape first, and "
                "compute the target inside `with tape:`."
            )
        if self._used_up:
            raise TapeError(
                "A non-persistent GradientTape can only be used to compute one set of gradients "
                f"(or jacobians). {self._used_up} Create it with GradientTape(persistent=True) to "
                "differentiate more than once, or record the computation again."
            )

    def _begin(self) -> None:
        """Stop a one-shot tape before a differentiation; warn that a persistent tape records it."""
        self._swept = self._asked = self._found = _NONE
        if not self._persistent:
            if self._recording:
                Recording.__exit__(self)
            self._used_up = FAILED
        elif self._recording:
            warn_once(
                "Calling gradient() on a persistent tape inside its block records the backward "
                "pass too, which costs time and memory. Do it only for higher-order derivatives."
            )

    def _end(self) -> None:
        """Mark a one-shot tape as used up after a differentiation."""
        if self._persistent:
            self._swept = self._asked = self._found = _NONE  # ids of nodes that will die
        else:
            self._used_up = USED_UP
            self.token.open = False

    def _release_history_of(self, targets: list[Any]) -> None:
        """Free the history of targets after sweeps that kept it."""
        if self._persistent:
            return
        ends = [node for target in targets for node in self._source_nodes(target)]
        for node in Plan(ends, (), self.token).nodes:
            if not any(token.open and token.keeps_history for token in node.tokens):
                release(node)

    def _in_sight(self) -> AbstractContextManager[None]:
        """Let this tape record inside the block, also after its own block has ended."""
        stack = active_stack()
        return using_stack(stack if self in stack.recorders else stack.with_recorder(self))

    def _source_nodes(self, source: Any) -> list[Node]:
        if isinstance(source, Variable):
            return self._variables.get(source.number, (source, []))[1]
        node = (source if type(source) is Tensor else self._inside(source)).node
        return [node] if node is not None and self.token in node.tokens else []

    def _target_node(self, target: Any, sources: list[Any]) -> Node | None:
        """Return the node to start from; a target that is a source has one even if unwatched."""
        if not target.dtype.is_differentiable:
            return None
        nodes = self._source_nodes(target)
        if isinstance(target, Variable):
            # Neither the leaves of its casts nor those of tensors from `value()`.
            nodes = [leaf for leaf in nodes if leaf.specs is None and "own" not in leaf.params]
        if nodes:
            return nodes[0]
        if not any(target is source for source in sources):
            return None
        if isinstance(target, Variable):
            leaf = make_leaf((self.token,))
            self._variables.setdefault(target.number, (target, []))[1].append(leaf)
            return leaf
        return follow(self._inside(target), self.token)
