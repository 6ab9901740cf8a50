"""The stack of active recorders, and the nodes of the recorded computation graph.

Every value that a recorder tracks has a `Node`. A node refers to the nodes of its inputs, never to
tensors or tapes. The graph therefore has no cycles, and the history of an unused result is freed
by reference counting alone. Tapes traverse the nodes backwards. Recorders that must see each
operation when it runs (forward accumulators, persistent tapes) are listeners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, Protocol

from tapegrad.core.call_site import call_site
from tapegrad.core.uninterrupted import starts_uninterrupted

next_order = count(1).__next__
_new = object.__new__
NO_PARAMS: dict[str, Any] = {}
RELEASED: dict[str, Any] = {}
"""The parameters of a node whose history has been freed, by identity."""


class Token:
    """Marks the values that a recorder tracks; `open` until that recorder is used up.

    `keeps_history` is true if the recorder will traverse the nodes later. `levels` are those of the
    batching in which each example has its own values for the recorder.
    """

    __slots__ = ("keeps_history", "levels", "open")

    def __init__(self, keeps_history: bool, levels: tuple[int, ...] = ()) -> None:
        self.open = True
        self.keeps_history = keeps_history
        self.levels = levels


class Node:
    """The operation that produced a value, for the recorders in `tokens`.

    - `inputs`: the nodes of the inputs, None for an input that is not tracked.
    - `saved`: per tracked input, the arrays that its rule reads.
    - `specs`: per input, the shape and dtype that its gradient is reduced and cast to. None if no
      input needs this. The node of a primitive with several outputs has the shape and dtype of
      each output instead, from which missing cotangents are made.
    - `tangents`: the value's tangents by the accumulators' tokens. The node of a primitive with
      several outputs has one such table per output.

    A leaf (a watched value) has no primitive. The leaf of a variable that is read in another dtype
    has the variable's dtype as its `specs`.
    """

    __slots__ = (
        "__weakref__",
        "inputs",
        "order",
        "params",
        "primitive",
        "saved",
        "specs",
        "tangents",
        "tokens",
    )

    order: int
    tokens: tuple[Token, ...]
    primitive: Any
    params: dict[str, Any]
    inputs: tuple[Node | None, ...]
    saved: Any
    specs: Any
    tangents: dict[Any, Any] | None

    def release(self) -> None:
        """Drop everything that only the backward pass needs."""
        self.inputs = ()
        self.saved = self.specs = None


class Listener(Protocol):
    """A recorder that is notified of each operation on values that it tracks."""

    token: Token

    def on_operation(self, operation: Operation) -> None:
        """Handle an operation that has just run."""


class Operation:
    """An operation that has just run: a primitive, its operands, its results and their nodes.

    `outputs` has one node per result, None for a result that has no derivative.
    """

    __slots__ = ("nodes", "operands", "outputs", "params", "primitive", "result")

    def __init__(
        self,
        primitive: Any,
        params: dict[str, Any],
        operands: Sequence[Any],
        nodes: Sequence[Node | None],
        result: Any,
        outputs: tuple[Node | None, ...],
    ) -> None:
        self.primitive = primitive
        self.params = params
        self.operands = operands
        self.nodes = nodes
        self.result = result
        self.outputs = outputs


class Stack:
    """The active recorders in the order in which they were entered.

    `exit_listeners` are notified when a value leaves them for plain Python, and those that keep a
    history also of operations without derivative. Inside a recorder that allows exits (the body of
    a custom gradient) the recorders around it are not notified.
    """

    __slots__ = ("exit_listeners", "framed", "listeners", "parent", "recorders", "tokens")

    def __init__(self, recorders: tuple[Any, ...], parent: Stack | None = None) -> None:
        self.recorders = recorders
        self.parent = parent
        tokens, listeners, framed = [], [], []
        exit_listeners: list[Any] = []
        for recorder in recorders:
            tokens.append(recorder.token)
            if recorder.listens:
                listeners.append(recorder)
            if recorder.frame is not None:
                framed.append(recorder)
            if recorder.tracks_exits:
                exit_listeners.append(recorder)
            elif recorder.allows_exits:
                exit_listeners.clear()
        self.tokens: tuple[Token, ...] = tuple(tokens)
        self.listeners: tuple[Listener, ...] = tuple(listeners)
        self.framed: tuple[Any, ...] = tuple(framed)
        self.exit_listeners: tuple[Any, ...] = tuple(exit_listeners)

    def with_recorder(self, recorder: Any) -> Stack:
        return Stack((*self.recorders, recorder), parent=self)

    def without(self, recorder: Any) -> Stack:
        # Reuse the parent so that nodes made before and after an inner block share tokens.
        if self.parent is not None and self.recorders[-1] is recorder:
            return self.parent
        if recorder not in self.recorders:
            return self
        return Stack(tuple(r for r in self.recorders if r is not recorder))

    def below(self, recorder: Any) -> Stack:
        """The recorders entered before `recorder`, which record its arithmetic."""
        return Stack(self.recorders[: self.recorders.index(recorder)])


EMPTY = Stack(())
"""No recorders."""

RAW = Stack(())
"""No recorders, and primitives map raw arrays to raw arrays (used by the backward pass)."""

_stack: ContextVar[Stack] = ContextVar("tapegrad_recorders", default=EMPTY)
active_stack = _stack.get


class using_stack:  # noqa: N801  # used like a function; a generator would be twice as slow
    """Make `stack` the active stack inside the block."""

    __slots__ = ("_stack", "_token")

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def __enter__(self) -> None:
        self._token = _stack.set(self._stack)

    @starts_uninterrupted
    def __exit__(self, *_: object) -> None:
        _stack.reset(self._token)


def call_with_stack(stack: Stack, function: Callable[..., Any], *args: Any) -> Any:
    """Return `function(*args)` with `stack` active.

    Unlike with `using_stack`, an interrupt at any instruction leaves the old stack active, since
    Python delivers none between the end of a `try` block and the first call in C after it.
    """
    before = _stack.get()
    try:
        _stack.set(stack)
        return function(*args)
    finally:
        _stack.set(before)


def restore_stack(stack: Stack) -> None:
    """Make `stack` active again, after an exception that may have kept a recorder from leaving."""
    if _stack.get() is not stack:
        _stack.set(stack)


def enter_recorder(recorder: Any) -> None:
    """Push `recorder` on the active stack; after an interrupt it is not there."""
    try:
        _stack.set(_stack.get().with_recorder(recorder))
    except BaseException:
        _leave(recorder)
        raise


@starts_uninterrupted
def leave_recorder(recorder: Any) -> None:
    """Remove `recorder` from the active stack, wherever it is, even if a signal interrupts it."""
    try:
        _leave(recorder)
    except BaseException:
        _leave(recorder)
        raise


def _leave(recorder: Any) -> None:
    _stack.set(_stack.get().without(recorder))


def make_leaf(tokens: tuple[Token, ...], params: dict[str, Any] = NO_PARAMS) -> Node:
    """Return the node of a watched value."""
    node: Node = _new(Node)
    node.order = next_order()
    node.tokens = tokens
    node.primitive = None
    node.params = params
    node.inputs = ()
    node.saved = node.specs = node.tangents = None
    return node


def make_node(
    tokens: tuple[Token, ...],
    primitive: Any,
    params: dict[str, Any],
    inputs: tuple[Node | None, ...],
    saved: Any,
    specs: Any,
) -> Node:
    """Return the node of a computed value."""
    node: Node = _new(Node)
    node.order = next_order()
    node.tokens = tokens
    node.primitive = primitive
    node.params = params
    node.inputs = inputs
    node.saved = saved
    node.specs = specs
    node.tangents = None
    return node


def with_saved(node: Node, saved: Any) -> Node:
    """Return a node that differs only in what its rules read."""
    twin = make_node(node.tokens, node.primitive, node.params, node.inputs, saved, node.specs)
    twin.order = node.order
    return twin


def common_tokens(stack: Stack, nodes: Sequence[Node | None]) -> tuple[Token, ...]:
    """Return the tokens of the active recorders that track at least one of the nodes.

    If all of them do, the result is `stack.tokens` itself, so that callers recognise this common
    case by identity.
    """
    followed: set[Token] = set()
    for node in nodes:
        if node is not None:
            if node.tokens is stack.tokens:
                return stack.tokens
            followed.update(node.tokens)
    active = tuple(token for token in stack.tokens if token in followed)
    return stack.tokens if len(active) == len(stack.tokens) else active


def notify(stack: Stack, tokens: tuple[Token, ...], operation: Operation) -> None:
    """Notify each listener among `tokens` of the operation, outermost first.

    The order matters: the arithmetic of an inner accumulator reads the tangents that outer ones
    have set on the result.
    """
    for listener in stack.listeners:
        if listener.token in tokens:
            listener.on_operation(operation)


def note_cut(reason: str, nodes: Sequence[Node | None]) -> None:
    """Record in the active tapes that tracked values end here, to explain a None gradient."""
    stack = _stack.get()
    if not stack.exit_listeners:
        return
    for node in nodes:
        if node is not None:
            for recorder in stack.exit_listeners:
                if recorder.token.keeps_history and recorder.token in node.tokens:
                    recorder.note_cut(reason, node, call_site())


def replace_recorder(recorder: Any) -> None:
    """Rebuild the active stack in place, because `recorder` changed its token."""
    _stack.set(Stack(_stack.get().recorders))


# Recomputation

_region: ContextVar[tuple[int, int | None]] = ContextVar("tapegrad_region", default=(0, None))
_next_region = count(1).__next__


@contextmanager
def computing_again(segments: int | None = None) -> Iterator[None]:
    """Mark operations as a deliberate recomputation that saves memory.

    A recorded program must not merge them with the first computation. Its loops are divided into
    `segments`, whose rounds run again.
    """
    token = _region.set((_next_region(), segments))
    try:
        yield
    finally:
        _region.reset(token)


def current_region() -> int:
    """Return the number of the innermost `computing_again` block, 0 outside."""
    return _region.get()[0]


def current_segments() -> int | None:
    """Return the number of segments that the innermost `computing_again` block asks for."""
    return _region.get()[1]
