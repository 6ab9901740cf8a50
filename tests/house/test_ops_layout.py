"""Families in tapegrad/ops: primitives.py declares primitives, functions.py declares none."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.house.sources import find_modules, write_tree

DECLARING = {
    "Primitive",
    "binary",
    "elementwise",
    "linear",
    "nondifferentiable",
    "primitive",
    "unary",
}


def _declarations(path: Path) -> list[str]:
    """Return "name:line" of every primitive that a file declares, inside functions too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [f"{name}:{line}" for node in ast.walk(tree) for name, line in _declared_by(node)]


def _declared_by(node: ast.AST) -> Iterator[tuple[str, int]]:
    if isinstance(node, ast.Call):
        called = [node.func]
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        called = [found for found in node.decorator_list if not isinstance(found, ast.Call)]
    else:
        return
    for function in called:
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in DECLARING:
            yield name, function.lineno


def _violations(modules: Mapping[str, Path]) -> list[str]:
    found = []
    for module, path in modules.items():
        if not module.startswith("tapegrad.ops."):
            continue
        declared = _declarations(path)
        if path.name == "functions.py" and declared:
            found.append(f"{module} declares {', '.join(declared)}")
        if path.name == "primitives.py" and not declared:
            found.append(f"{module} declares no primitive")
    return found


def test_functions_declare_no_primitive_and_primitives_do() -> None:
    modules = find_modules()

    names = [path.name for module, path in modules.items() if module.startswith("tapegrad.ops.")]

    assert names.count("functions.py") > 5
    assert names.count("primitives.py") > 5
    assert _violations(modules) == []


def test_a_primitive_in_the_wrong_file_is_noticed(tmp_path: Path) -> None:
    modules = write_tree(
        tmp_path,
        {
            "tapegrad/ops/shape/functions.py": "flip_p = linear('flip')\n",
            "tapegrad/ops/linalg/functions.py": (
                "def declare(name):\n    return families.Primitive(name)\n"
            ),
            "tapegrad/ops/nn/functions.py": "@primitive\ndef relu(x):\n    return x\n",
            "tapegrad/ops/random/functions.py": "def normal(shape):\n    return draw_p(shape)\n",
            "tapegrad/ops/random/primitives.py": "def as_shape(shape):\n    return shape\n",
            "tapegrad/ops/shape/primitives.py": "reshape_p = linear('reshape')\n",
            "tapegrad/keras/functions.py": "soft_p = unary('soft')\n",
        },
    )

    assert sorted(_violations(modules)) == [
        "tapegrad.ops.linalg.functions declares Primitive:2",
        "tapegrad.ops.nn.functions declares primitive:1",
        "tapegrad.ops.random.primitives declares no primitive",
        "tapegrad.ops.shape.functions declares linear:1",
    ]
