"""The stack of active recorders and the nodes that say how a value was made.

Every value that some recorder follows carries a `Node`. A node refers to the nodes of the
inputs, never to tensors or tapes, so that a result nobody uses frees its whole history by
reference counting alone, and nothing here forms a cycle. Tapes find their way back through the
nodes; who else wants to hear of each operation (forward accumulators, persistent tapes) is a
listener.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, Protocol

next_order = count(1).__next__
_new = object.__new__
NO_PARAMS: dict[str, Any] = {}


class Token:
    """A recorder's mark on the values it follows; `open` until that recorder is used up.

    `keeps_history` says that the recorder will walk back through the nodes later.
    """

    __slots__ = ("keeps_history", "open")

    def __init__(self, keeps_history: bool) -> None:
        self.open = True
        self.keeps_history = keeps_history


class Node:
    """How one value was made, as far as the recorders in `tokens` need to know.

    `inputs` holds the inputs' nodes (None where an input is not followed); `saved` holds, per
    followed input, the arrays that its rule reads; `fit` holds, per input, the shape and dtype
    its gradient must be brought to, or is None where nothing has to be done. A leaf (a watched
    value) has no primitive; one for a variable in another dtype has the variable's dtype as its
    `fit`. `tangents` holds a value's tangent per accumulator's token; the node
    of a primitive with several outputs holds one such table per output.
    """

    __slots__ = (
        "__weakref__",
        "fit",
        "inputs",
        "order",
        "params",
        "primitive",
        "saved",
        "tangents",
        "tokens",
    )

    order: int
    tokens: tuple[Token, ...]
    primitive: Any
    params: dict[str, Any]
    inputs: tuple[Node | None, ...]
    saved: Any
    fit: Any
    tangents: dict[Any, Any] | None

    def release(self) -> None:
        """Let go of everything that only a sweep needs."""
        self.inputs = ()
        self.saved = self.fit = None


class Listener(Protocol):
    """A recorder that is told about each operation whose inputs it follows."""

    token: Token

    def hear(self, operation: Operation) -> None:
        """Take note of an operation."""


class Operation:
    """What a listener hears: a primitive with its operands, its results and their nodes.

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
    """The recorders that are active now, in the order in which they were entered."""

    __slots__ = ("cutters", "framed", "listeners", "parent", "recorders", "tokens")

    def __init__(self, recorders: tuple[Any, ...], parent: Stack | None = None) -> None:
        self.recorders = recorders
        self.parent = parent
        tokens, listeners, framed, cutters = [], [], [], []
        for recorder in recorders:
            tokens.append(recorder.token)
            if recorder.listens:
                listeners.append(recorder)
            if recorder.frame is not None:
                framed.append(recorder)
            if recorder.notes_cuts:
                cutters.append(recorder)
        self.tokens: tuple[Token, ...] = tuple(tokens)
        self.listeners: tuple[Listener, ...] = tuple(listeners)
        self.framed: tuple[Any, ...] = tuple(framed)
        self.cutters: tuple[Any, ...] = tuple(cutters)

    def with_recorder(self, recorder: Any) -> Stack:
        return Stack((*self.recorders, recorder), parent=self)

    def without(self, recorder: Any) -> Stack:
        # The parent is reused so that nodes made before and after an inner block share tokens.
        if self.parent is not None and self.recorders[-1] is recorder:
            return self.parent
        return Stack(tuple(r for r in self.recorders if r is not recorder))

    def below(self, recorder: Any) -> Stack:
        """The recorders entered before `recorder`: those that see its own arithmetic."""
        return Stack(self.recorders[: self.recorders.index(recorder)])


EMPTY = Stack(())
"""Nobody records."""

RAW = Stack(())
"""Nobody records, and primitives called with raw arrays answer with raw arrays (the fast sweep)."""

_stack: ContextVar[Stack] = ContextVar("tapegrad_recorders", default=EMPTY)
active_stack = _stack.get


class using_stack:  # noqa: N801  # a function to its users; as a generator it costs twice
    """Let exactly the recorders of `stack` listen inside the block."""

    __slots__ = ("_stack", "_token")

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def __enter__(self) -> None:
        self._token = _stack.set(self._stack)

    def __exit__(self, *_: object) -> None:
        _stack.reset(self._token)


def enter_recorder(recorder: Any) -> None:
    """Put `recorder` on top of the active recorders."""
    _stack.set(_stack.get().with_recorder(recorder))


def leave_recorder(recorder: Any) -> None:
    """Take `recorder` off the active recorders, wherever it stands."""
    _stack.set(_stack.get().without(recorder))


def make_leaf(tokens: tuple[Token, ...], params: dict[str, Any] = NO_PARAMS) -> Node:
    """Return the node of a watched value."""
    node: Node = _new(Node)
    node.order = next_order()
    node.tokens = tokens
    node.primitive = None
    node.params = params
    node.inputs = ()
    node.saved = node.fit = node.tangents = None
    return node


def make_node(
    tokens: tuple[Token, ...],
    primitive: Any,
    params: dict[str, Any],
    inputs: tuple[Node | None, ...],
    saved: Any,
    fit: Any,
) -> Node:
    """Return the node of a computed value."""
    node: Node = _new(Node)
    node.order = next_order()
    node.tokens = tokens
    node.primitive = primitive
    node.params = params
    node.inputs = inputs
    node.saved = saved
    node.fit = fit
    node.tangents = None
    return node


def common_tokens(stack: Stack, nodes: Sequence[Node | None]) -> tuple[Token, ...]:
    """Tokens of the active recorders that follow at least one of the nodes.

    When all of them do, the stack's own tuple is returned, so that the common case (every value
    followed by every recorder) is recognised by identity further on.
    """
    followed: set[Token] = set()
    for node in nodes:
        if node is not None:
            if node.tokens is stack.tokens:
                return stack.tokens
            followed.update(node.tokens)
    active = tuple(token for token in stack.tokens if token in followed)
    return stack.tokens if len(active) == len(stack.tokens) else active


def tell(stack: Stack, tokens: tuple[Token, ...], operation: Operation) -> None:
    """Let each listener among `tokens` hear of the operation, outermost first.

    The order matters: an inner accumulator's arithmetic reads what outer ones know of the result.
    """
    for listener in stack.listeners:
        if listener.token in tokens:
            listener.hear(operation)


def note_cut(reason: str, nodes: Sequence[Node | None]) -> None:
    """Tell the active tapes that followed values end here, so they can explain a None later."""
    stack = _stack.get()
    if not stack.cutters:
        return
    for node in nodes:
        if node is not None:
            for recorder in stack.cutters:
                if recorder.token in node.tokens:
                    recorder.note_cut(reason, node, call_site())


def call_site() -> str:
    """File and line of the innermost caller outside tapegrad."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(("tapegrad.", "tapegrad_", "contextlib")) and module != "tapegrad":
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def replace_recorder(recorder: Any) -> None:
    """Rebuild the active stack in place, because `recorder` changed its token."""
    _stack.set(Stack(_stack.get().recorders))


# Computing again

_region: ContextVar[int] = ContextVar("tapegrad_region", default=0)
_next_region = count(1).__next__


@contextmanager
def computing_again() -> Iterator[None]:
    """Mark what runs inside as computed a second time on purpose, to save memory.

    A recorded program must not compute it once for both.
    """
    token = _region.set(_next_region())
    try:
        yield
    finally:
        _region.reset(token)


def current_region() -> int:
    """A number for the innermost block of `computing_again`, 0 outside."""
    return _region.get()
