"""Imports inside the backends and inside tapegrad/program point one way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.house.sources import (
    Import,
    find_imports,
    find_modules,
    imports_of_this_tree,
    write_tree,
)

# The parts of each package, lowest first: folders, and files that stand beside them. A module
# imports only from its own part and from parts in lower rows. The files that no row names come
# last. Imports inside functions obey the same order.
LAYERS: Mapping[str, Sequence[Sequence[str]]] = {
    "tapegrad_cupy": (
        ("runtime", "switches"),
        ("launch",),
        ("library_calls",),
        ("kernels",),
        ("graphs",),
    ),
    "tapegrad_numpy": (
        ("ownership", "switches"),
        ("kernels",),
        ("loops",),
        ("sequences",),
        ("eager",),
    ),
    "tapegrad.program": (
        ("graph",),
        ("record", "passes"),
        ("fusion",),
        ("emit",),
        ("inspect",),
        ("argument_writes", "failed_replay", "origins", "progress", "replay"),
        ("not_finite",),
        ("program", "unfused"),
        ("building",),
        ("result_structure",),
        ("forward_backward",),
        ("outer_tape", "program_cache", "recorded_call"),
        ("loops",),
        ("autograph",),
        ("changing_numbers", "families"),
        ("checked_twin", "concrete", "eager_mode", "explanation", "graph_mode"),
        ("eager_reasons", "memory_blocks", "memory_budget", "reported"),
        ("host_call",),
        ("function",),
        ("saved",),
        ("onnx",),
    ),
}


def part_of(module: str, package: str) -> str:
    """Return the part of the package that a module is in, or "" if no row names it."""
    first = module.removeprefix(package).removeprefix(".").partition(".")[0]
    return first if any(first in row for row in LAYERS[package]) else ""


def rank(part: str, package: str) -> int:
    rows = LAYERS[package]
    return next((number for number, row in enumerate(rows) if part in row), len(rows))


def upward_imports(imports: Iterable[Import]) -> list[str]:
    """Return the imports from one part to another that is not below it."""
    found = []
    for package in LAYERS:
        for i in imports:
            if not all(f"{end}.".startswith(f"{package}.") for end in (i.source, i.target)):
                continue
            source, target = part_of(i.source, package), part_of(i.target, package)
            if source != target and rank(target, package) >= rank(source, package):
                found.append(str(i))
    return found


def unknown_folders(modules: Mapping[str, Path]) -> set[str]:
    """Return the folders of a package that no row names."""
    return {
        f"{package}.{path.parent.name}"
        for package in LAYERS
        for module, path in modules.items()
        if path.name == "__init__.py"
        and module.rpartition(".")[0] == package
        and not part_of(module, package)
    }


def test_parts_import_only_from_parts_below_them() -> None:
    modules = find_modules()

    for package, rows in LAYERS.items():
        within = [module for module in modules if module.startswith(f"{package}.")]
        assert {part_of(module, package) for module in within} >= {p for row in rows for p in row}
    assert upward_imports(imports_of_this_tree()) == []


def test_every_folder_has_a_row() -> None:
    assert unknown_folders(find_modules()) == set()


# The rules above can fail.


def test_an_import_from_a_higher_part_is_noticed(tmp_path: Path) -> None:
    modules = write_tree(
        tmp_path,
        {
            "backends/tapegrad_cupy/__init__.py": "",
            "backends/tapegrad_cupy/backend.py": "from tapegrad_cupy.graphs import capture\n",
            "backends/tapegrad_cupy/runtime/memory.py": "from tapegrad_cupy.backend import names\n",
            "backends/tapegrad_cupy/library_calls/cublaslt.py": (
                "from tapegrad_cupy.kernels.products import Gemm\n"
            ),
            "backends/tapegrad_cupy/graphs/capture.py": "from tapegrad_cupy.kernels import copy\n",
            "backends/tapegrad_numpy/kernels/table.py": (
                "def f():\n    from tapegrad_numpy.loops.entry_points import matvecs  # lazy\n"
            ),
            "backends/tapegrad_numpy/loops/entry_points.py": (
                "from tapegrad_numpy.kernels.products import matmul\n"
            ),
            "tapegrad/program/record/recording.py": "from tapegrad.program.passes import algebra\n",
            "tapegrad/program/passes/algebra.py": "from tapegrad.program.graph import graph\n",
            "tapegrad/program/fusion/fusion.py": "import tapegrad.program.function\n",
            "tapegrad/program/function.py": "from tapegrad.program.emit import lowering\n",
        },
    )

    assert sorted(upward_imports(find_imports(modules))) == [
        "tapegrad.program.fusion.fusion:1 imports tapegrad.program.function",
        "tapegrad.program.record.recording:1 imports tapegrad.program.passes.algebra",
        "tapegrad_cupy.library_calls.cublaslt:1 imports tapegrad_cupy.kernels.products",
        "tapegrad_cupy.runtime.memory:1 imports tapegrad_cupy.backend",
        "tapegrad_numpy.kernels.table:2 imports tapegrad_numpy.loops.entry_points",
    ]


def test_a_folder_without_a_row_is_noticed(tmp_path: Path) -> None:
    modules = write_tree(
        tmp_path,
        {
            "backends/tapegrad_cupy/__init__.py": "",
            "backends/tapegrad_cupy/kernels/__init__.py": "",
            "backends/tapegrad_cupy/kernels/rows/__init__.py": "",
            "backends/tapegrad_cupy/helpers/__init__.py": "",
        },
    )

    assert unknown_folders(modules) == {"tapegrad_cupy.helpers"}
