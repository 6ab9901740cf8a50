"""Pair an evaluation of the suite with a tool: two processes, without containers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import Any

OURS = "tapegrad"
ASYNCHRONOUS = {"jax"}
AWAITED = Path(__file__).with_name("awaited.py")


@dataclass
class Run:
    """Times in nanoseconds of one evaluation with one tool, by workload and function."""

    times: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    is_valid: dict[tuple[str, str], bool] = field(default_factory=dict)
    problem: str = ""
    """Why the evaluation ended early, or what was wrong."""


@dataclass(frozen=True)
class Suite:
    """A checkout of the suite, and how its processes run."""

    path: Path
    pythons: Mapping[str, str] = field(default_factory=dict)
    """The interpreter of a tool by its name; `eval` is that of the evaluations."""
    cpu: int | None = 0
    """The core that tools run on; None for all."""
    limit: float = 120.0
    """How many seconds a tool may take for one message."""

    @property
    def sources(self) -> Path:
        return self.path / "python" / "gradbench"

    def python(self, name: str) -> str:
        return self.pythons.get(name, sys.executable)

    def evaluation(self, name: str, arguments: Sequence[str]) -> list[str]:
        """Return the command of an evaluation."""
        script = self.sources / "gradbench" / "evals" / name / "run.py"
        return [self.python("eval"), str(script), *arguments]

    def tool(self, name: str) -> list[str]:
        """Return the command of a tool: ours, one in Python, or one in C++."""
        if name == OURS:
            return [self.python(name), "-m", "tapegrad_gradbench.tool"]
        script = self.sources / "gradbench" / "tools" / name / "run.py"
        if script.exists():
            first = [str(AWAITED)] if name in ASYNCHRONOUS else []
            return [self.python(name), *first, str(script)]
        return [self.python("eval"), str(self.sources / "gradbench" / "cpp.py"), name]

    def has_entry(self, tool: str, evaluation: str) -> bool:
        """Whether a tool of the suite that is written in Python knows an evaluation."""
        folder = self.sources / "gradbench" / "tools" / tool
        return tool == OURS or not folder.exists() or (folder / f"{evaluation}.py").exists()

    def environment(self, *, is_tool: bool) -> dict[str, str]:
        """Return the environment of a process; tools have one thread."""
        found = dict(os.environ)
        if is_tool:
            found |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        paths = [str(self.sources), found.get("PYTHONPATH", "")]
        return found | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}

    def run(self, evaluation: str, tool: str, arguments: Sequence[str] = ()) -> Run:
        """Run one evaluation with one tool."""
        if not self.has_entry(tool, evaluation):
            return Run(problem=NO_ENTRY)
        with tempfile.TemporaryFile("w+") as errors:
            asking = self._started(self.evaluation(evaluation, arguments), errors)
            answering = self._started(self.tool(tool), errors, is_tool=True)
            try:
                found = forward(asking, answering, self.limit)
            finally:
                for process in (asking, answering):
                    process.kill()
                    process.communicate()
            if found.problem == LOST:
                errors.seek(0)
                found.problem = errors.read().strip().rpartition("\n")[2] or LOST
        return found

    def _started(
        self, command: Sequence[str], errors: Any, is_tool: bool = False
    ) -> subprocess.Popen[str]:
        pin: Callable[[], None] | None = None
        if is_tool and self.cpu is not None and hasattr(os, "sched_setaffinity"):
            cpus = {self.cpu}
            pin = lambda: os.sched_setaffinity(0, cpus)  # noqa: E731  # a hook of one line
        return subprocess.Popen(
            command,
            cwd=self.path,
            env=self.environment(is_tool=is_tool),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            preexec_fn=pin,
        )


NO_ENTRY = "The suite has no entry."
LOST = "A process ended without an answer."


def forward(asking: Any, answering: Any, limit: float) -> Run:
    """Hand each message of an evaluation to a tool, and the answer back; return the times."""
    found = Run()
    keys: dict[int, tuple[str, str]] = {}
    for line in asking.stdout:
        message = json.loads(line)
        timer = Timer(limit, answering.kill)
        timer.start()
        try:
            answering.stdin.write(line)
            answering.stdin.flush()
            text = answering.stdout.readline()
        except BrokenPipeError:
            text = ""
        is_late = not timer.is_alive()
        timer.cancel()
        if not text:
            found.problem = f"An answer took more than {limit:.0f} s." if is_late else LOST
            return found
        note(found, keys, message, json.loads(text))
        try:
            asking.stdin.write(text)
            asking.stdin.flush()
        except BrokenPipeError:
            break
    return found


def note(
    found: Run,
    keys: dict[int, tuple[str, str]],
    message: Mapping[str, Any],
    answer: Mapping[str, Any],
) -> None:
    """Keep what one message and its answer say: times, failures, and judgements of outputs."""
    kind = message["kind"]
    if kind == "analysis":
        key = keys[message["of"]]
        found.is_valid[key] = message["valid"] and found.is_valid.get(key, True)
        if not message["valid"]:
            found.problem = f"{' '.join(key)}: {message.get('error', 'wrong output')}"
        return
    if kind == "evaluate":
        key = (message.get("description", ""), message["function"])
        keys[message["id"]] = key
        times = [
            one["nanoseconds"] for one in answer.get("timings") or () if one["name"] == "evaluate"
        ]
        found.times.setdefault(key, []).extend(times)
    if answer.get("success") is False:
        found.problem = str(answer.get("error") or f"{kind} failed").strip().rpartition("\n")[2]
