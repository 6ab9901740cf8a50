"""Rules of the floor plan that the layers test cannot read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.sources import ROOT

MOST_SWEEP_LINES = 200


def operations_named_in(folder: Path) -> list[str]:
    """Places that look a primitive up by a literal name: `PRIMITIVES["add"]`."""
    return [
        f"{path.relative_to(folder)}:{node.lineno}"
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "PRIMITIVES"
        and isinstance(node.slice, ast.Constant)
    ]


def kernel_keys(folder: Path) -> Iterator[str]:
    """Keys of kernel tables, and look-ups in them, that are not plain names of primitives."""
    for path in sorted(folder.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "kernels" not in source.lower():  # to parse every file takes seconds
            continue
        for node in ast.walk(ast.parse(source)):
            found: list[ast.expr | None] = []
            if isinstance(node, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == "KERNELS" for target in node.targets
            ):
                found = node.value.keys if isinstance(node.value, ast.Dict) else []
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "get"
                and isinstance(node.func.value, ast.Attribute)
                and node.func.value.attr == "kernels"
            ):
                found = node.args[:1]
            for key in found:
                text = key.value if isinstance(key, ast.Constant) else ""
                if isinstance(key, ast.JoinedStr) or not str(text or "a").isidentifier():
                    yield f"{path.relative_to(folder)}:{node.lineno}"


def test_core_names_no_operation() -> None:
    assert operations_named_in(ROOT / "tapegrad" / "core") == []


def test_kernel_tables_hold_nothing_but_kernels_of_primitives() -> None:
    assert list(kernel_keys(ROOT / "backends")) == []
    assert list(kernel_keys(ROOT / "tapegrad")) == []


def test_the_sweep_is_the_textbook_algorithm() -> None:
    text = (ROOT / "tapegrad" / "autodiff" / "sweep.py").read_text(encoding="utf-8")

    assert len(text.splitlines()) < MOST_SWEEP_LINES
    assert "core.backend" not in text


def test_a_named_operation_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('add = PRIMITIVES["add"]\nother = PRIMITIVES[name]\n')

    assert operations_named_in(tmp_path) == ["a.py:1"]


def test_a_key_that_is_no_primitive_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        'KERNELS = {"add": f, "add.into": g}\nbackend.kernels.get(f"{name}.vjp")\n'
        'backend.kernels.get("add")\nbackend.kernels.get(name)\n'
    )

    assert list(kernel_keys(tmp_path)) == ["a.py:1", "a.py:2"]
