"""Say what is wrong with the workflows in .github: `python ci/workflows.py`.

Workflows only call the scripts in `ci`, so that everything they do can be done on any machine. The
schema below is what they may contain. Files are read as the part of YAML that they use: mappings,
lists, lists in brackets, and text in one line.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

ACTIONS = re.compile(r"actions/(checkout|setup-python)@v\d+")
COMMAND = re.compile(r"bash (ci/[a-z_]+\.sh)( [\w${}. -]+)?")
_KEY = re.compile(r"([\w-]+):(?: (.*))?$")

SCHEMA: dict[str, Any] = {
    "name": str,
    "on": {
        "push?": {"branches?": list, "tags?": list},
        "pull_request?": None,
        "schedule?": [{"cron": str}],
        "workflow_dispatch?": None,
    },
    "permissions": {"contents": str},
    "concurrency?": {"group": str, "cancel-in-progress": str},
    "jobs": {
        "*": {
            "runs-on": str,
            "timeout-minutes": str,
            "strategy?": {"fail-fast": str, "matrix": {"*": list}},
            "steps": [{"uses?": str, "run?": str, "with?": {"*": str}}],
        }
    },
}
"""Mappings by key ("?": optional, "*": any), lists of one kind, and the types of values."""


def parse(text: str) -> Any:
    """Return the value of a file.

    >>> parse("a:\\n  b: [x, 1]\\n  c:\\n    - d: e\\n")
    {'a': {'b': ['x', '1'], 'c': [{'d': 'e'}]}}
    """
    lines = [
        (len(line) - len(line.lstrip()), line.strip())
        for line in text.splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    value, rest = _block(lines)
    if rest:
        raise ValueError(f"The line {rest[0][1]!r} has another indentation than expected.")
    return value


Lines = list[tuple[int, str]]


def _block(lines: Lines) -> tuple[Any, Lines]:
    """Return the value of the first block, and the lines after it."""
    depth = lines[0][0]
    if lines[0][1].startswith("- "):
        items = []
        while lines and lines[0][0] == depth and lines[0][1].startswith("- "):
            lines = [(depth + 2, lines[0][1][2:]), *lines[1:]]
            item, lines = _block(lines) if _KEY.match(lines[0][1]) else (lines[0][1], lines[1:])
            items.append(item)
        return items, lines
    found: dict[str, Any] = {}
    while lines and lines[0][0] == depth:
        match = _KEY.match(lines[0][1])
        if match is None:
            raise ValueError(f"The line {lines[0][1]!r} has no key.")
        key, text = match.groups()
        lines = lines[1:]
        if text is not None:
            found[key] = _value(text)
        elif lines and lines[0][0] > depth:
            found[key], lines = _block(lines)
        else:
            found[key] = None
    return found, lines


def _value(text: str) -> Any:
    if text.startswith("["):
        return [_value(part.strip()) for part in text[1:-1].split(",")]
    return text.strip("\"'")


def problems(value: Any, schema: Any = SCHEMA, where: str = "file") -> Iterator[str]:
    """Yield a sentence for each part of a workflow that the schema does not allow."""
    if schema is None or schema in (str, list):
        if (schema is None and value is not None) or (schema and not isinstance(value, schema)):
            yield f"{where} is {value!r}, which is not of the expected kind."
    elif isinstance(schema, list):
        for place, item in enumerate(value if isinstance(value, list) else [None]):
            yield from problems(item, schema[0], f"{where}, item {place + 1}")
    elif not isinstance(value, dict):
        yield f"{where} is {value!r}, not a mapping."
    else:
        yield from _problems_of_keys(value, schema, where)


def _problems_of_keys(value: dict[str, Any], schema: dict[str, Any], where: str) -> Iterator[str]:
    known = {key.rstrip("?"): part for key, part in schema.items()}
    for key, part in value.items():
        if key not in known and "*" not in known:
            yield f"{where} has the unknown key {key!r}."
        else:
            yield from problems(part, known.get(key, known.get("*")), f"{where}, {key}")
    for key in schema:
        if not key.endswith(("?", "*")) and key not in value:
            yield f"{where} lacks the key {key!r}."


def problems_of_steps(workflow: dict[str, Any], root: Path = ROOT) -> Iterator[str]:
    """Yield a sentence for each step that does something other than to call a script in ci."""
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            command = COMMAND.fullmatch(step.get("run", ""))
            if "uses" in step:
                if not ACTIONS.fullmatch(step["uses"]):
                    yield f"The action {step['uses']!r} is not one of those that are allowed."
            elif command is None or not (root / command[1]).is_file():
                yield f"The step {step!r} does not call a script in ci."


def main() -> int:
    status = 0
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        workflow = parse(path.read_text(encoding="utf-8"))
        found = [*problems(workflow)] or [*problems_of_steps(workflow)]
        for sentence in found:
            print(f"{path.name}: {sentence}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
