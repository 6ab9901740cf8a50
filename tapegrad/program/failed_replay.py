"""Errors of a program that runs again: name the user's operation and line.

Fused loops report an error in terms of what they compute, such as an index that stands for "out of
range". So the recorded calls are made once more, one by one. The call that fails there has the
error that eager code would raise, and knows its line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.backend.protocol import Array
from tapegrad.errors import ArgumentError
from tapegrad.program.graph.graph import Call, Graph, Value, last_uses
from tapegrad.program.record.effects import silence


def explained(
    error: Exception, graph: Graph, inputs: Sequence[Array], variables: Sequence[Array]
) -> Exception:
    """Return the error to raise for one that a program raised; `graph` is the recorded one."""
    if isinstance(error, MemoryError):
        return error
    with silence():
        call, found = _first_failure(graph, inputs, variables)
    return error if call is None or found is None else _with_location(found, call)


def _first_failure(
    graph: Graph, inputs: Sequence[Array], variables: Sequence[Array]
) -> tuple[Call | None, Exception | None]:
    """Make the calls of a graph; return the first that raises an error, and the error."""
    values: dict[int, Any] = dict(graph.constants)
    values.update(zip([value.number for value in graph.inputs], inputs))
    values.update(zip([value.number for value in graph.variables.values()], variables))
    for call, dead in zip(graph.calls, last_uses(graph.calls, set(graph.constants))):
        operands = [values[o.number] if isinstance(o, Value) else o for o in call.operands]
        try:
            made = call.primitive.kernel(call.array_type)(*operands, **call.params)
        except Exception as error:
            return call, error
        results = made if isinstance(made, tuple | list) else (made,)
        values.update(zip([value.number for value in call.results], results))
        for number in dead:
            values.pop(number, None)
    return None, None


def _with_location(error: Exception, call: Call) -> Exception:
    """Add the operation and the line to the message of an error."""
    message = str(error)
    if not call.site or call.site in message:
        return error
    name = call.function or call.primitive.name
    if isinstance(error, ArgumentError):  # its message names what was called
        is_named = not call.function or message.startswith(name)
        where = f"at {call.site}" if is_named else f"{name} at {call.site}"
        text = f"{message.rstrip('.')}. The call is {where}."
    else:
        text = f"{name} at {call.site}: {message}"
    error.args = (text,)
    if str(error) != text:  # the class makes its message of something else
        error.add_note(f"The call is {name} at {call.site}.")
    return error
