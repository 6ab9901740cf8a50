"""The tool's side of GradBench's protocol: one JSON message per line, one answer per message."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

Message = Mapping[str, Any]
Answer = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """One function of an evaluation; only `compute` is timed."""

    prepare: Callable[[Any], tuple[Any, ...]]
    """From the input of a message to the arguments of `compute`."""
    compute: Callable[..., Any]
    answer: Callable[[Any], Any]
    """From the result of `compute` to plain lists and numbers."""


Evaluations = Callable[[str], Mapping[str, Entry]]
"""Returns the functions of an evaluation by name, or raises an error if there are none."""


def evaluate(entry: Entry, given: Any) -> Answer:
    """Compute one function as often as the input asks for, and time each run.

    >>> square = Entry(lambda x: (x["x"],), lambda x: x * x, float)
    >>> answer = evaluate(square, {"x": 3, "min_runs": 2, "min_seconds": 0})
    >>> answer["output"], [timing["name"] for timing in answer["timings"]]
    (9.0, ['evaluate', 'evaluate'])
    """
    asked = given if isinstance(given, Mapping) else {}
    runs, seconds = asked.get("min_runs", 1), asked.get("min_seconds", 0)
    arguments = entry.prepare(given)
    timings: list[Mapping[str, Any]] = []
    elapsed = 0
    while len(timings) < runs or elapsed < seconds * 1e9:
        start = time.perf_counter_ns()
        result = entry.compute(*arguments)
        spent = time.perf_counter_ns() - start
        timings.append({"name": "evaluate", "nanoseconds": spent})
        elapsed += spent
    return {"success": True, "output": entry.answer(result), "timings": timings}


def answer(message: Message, evaluations: Evaluations) -> Answer:
    """Answer one message; an error becomes an answer without success.

    >>> answer({"id": 0, "kind": "start", "eval": "hello"}, dict)
    {'id': 0, 'tool': 'tapegrad'}
    """
    found: Answer = {}
    try:
        if message["kind"] == "start":
            found = {"tool": "tapegrad"}
        elif message["kind"] == "define":
            evaluations(message["module"])
            found = {"success": True}
        elif message["kind"] == "evaluate":
            entry = evaluations(message["module"])[message["function"]]
            found = evaluate(entry, message["input"])
    except Exception:
        found = {"success": False, "error": traceback.format_exc()}
    return {"id": message["id"], **found}


def serve(lines: Iterable[str], out: TextIO, evaluations: Evaluations) -> None:
    """Answer all messages of a stream, one line each."""
    for line in lines:
        out.write(json.dumps(answer(json.loads(line), evaluations)) + "\n")
        out.flush()
