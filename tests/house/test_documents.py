"""Code in the README, the pages in docs/ and docstring examples runs.

A block that is only a sketch says so in its fence: ```python sketch.
"""

from __future__ import annotations

import doctest
import importlib
import linecache
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.house.sources import ROOT, find_modules

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Loading the first runs the command line; the others need libraries that are not part of the tests.
NOT_IMPORTED = {
    "tapegrad.__main__",
    *(name for name in find_modules() if name.startswith("tapegrad_cupy.")),
    "tapegrad_bench.adapters.cuda_events",
    "tapegrad_bench.adapters.torch_graph",
    "tapegrad_bench.adapters.torch_models",
    *(
        f"tapegrad_bench.adapters.{name}"
        for library in ("autograd", "cupy", "jax", "tensorflow", "torch")
        for name in (f"on_{library}", f"{library}_ops")
    ),
}


def python_blocks(text: str) -> list[tuple[int, str]]:
    """The ```python blocks of a page, each with the number of lines before its first line."""
    blocks = re.finditer(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, block.start(1)), block[1]) for block in blocks]


def run_page(path: Path) -> int:
    """Run the blocks of a page one after the other, as a reader would; return how many."""
    names: dict[str, Any] = {"__name__": "__main__"}
    text = path.read_text(encoding="utf-8")
    blocks = python_blocks(text)
    lines = ["\n"] * (text.count("\n") + 1)
    for lines_before, block in blocks:
        code = block.splitlines(keepends=True)
        lines[lines_before : lines_before + len(code)] = code
    # Recorded functions convert the source of control flow, as they find it in a notebook.
    linecache.cache[str(path)] = len(text), None, lines, str(path)
    try:
        for lines_before, block in blocks:
            # The empty lines make a traceback show the line of the page.
            exec(compile("\n" * lines_before + block, str(path), "exec"), names)
    finally:
        linecache.cache.pop(str(path), None)
    return len(blocks)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_code_on_the_page_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    run_page(path)


def test_the_page_of_functions_says_what_the_samples_say():
    command = [sys.executable, str(ROOT / "ci" / "functions_page.py"), "--check"]

    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_page_of_names_says_what_the_package_has():
    command = [sys.executable, str(ROOT / "ci" / "tensorflow_page.py"), "--check"]

    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_readme_shows_code():
    assert python_blocks((ROOT / "README.md").read_text("utf-8"))


def failed_examples(module: ModuleType) -> int:
    """Run the examples of a module; return how many fail."""
    # For each docstring, doctest looks at the time stamps of all files in this cache.
    linecache.clearcache()
    return doctest.testmod(module).failed


@pytest.mark.parametrize("name", sorted(find_modules().keys() - NOT_IMPORTED))
def test_docstring_examples_run(name):
    assert failed_examples(importlib.import_module(name)) == 0


def test_a_wrong_example_is_noticed():
    module = ModuleType("example", ">>> 1 + 1\n2\n>>> 1 + 2\n4\n")

    assert failed_examples(module) == 1


def test_blocks_share_their_names_and_a_wrong_one_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 1\n```\ntext\n```bash\nexit 1\n```\n```python\nassert x == 1\n```\n"
    )
    wrong = tmp_path / "wrong.md"
    wrong.write_text("Two lines\nof text\n```python\nraise ValueError('in line 4')\n```\n")

    assert run_page(page) == 2
    with pytest.raises(ValueError, match="in line 4") as caught:
        run_page(wrong)
    assert caught.traceback[-1].lineno == 3  # counted from 0
