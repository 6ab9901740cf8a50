"""Imports point one way. The tables below are the order; change them with a reason."""

from __future__ import annotations

import graphlib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tests.house.sources import Import, find_imports, find_modules, write_tree

# A module may import from its own row and from the rows above it, never from below.
LAYERS: Sequence[Sequence[str]] = (
    ("errors",),
    ("core",),
    ("ops",),
    ("autodiff",),
    ("program",),
)
# Whatever is not named above is a face (math, nn, keras, testing, cli, ...): it stands below all
# of them and above nothing but the package root.

# The same inside core, where every module is named.
CORE: Sequence[Sequence[str]] = (
    ("nest", "dtypes", "operator_types", "arena", "choices"),
    ("backend",),
    ("device",),
    ("recorder",),
    ("host", "recovery", "expression", "dlpack"),
    ("tensor", "expression_namespace", "c_source", "loop"),
    ("convert", "rule"),
    ("variable", "indexed_slices"),
    ("primitive",),
    ("fastpath", "operand", "index_check"),
    ("families",),
)

# Packages in the tree that use tapegrad as anybody else would, and so import what they like.
USERS = {"tapegrad_bench"}

# What a backend may know of the engine.
BACKENDS_MAY_IMPORT = ("tapegrad.errors", "tapegrad.core")

# What one backend may take from another: the CUDA sources are written with the coefficient tables
# of NumPy's special functions, so that there is one copy of them.
BETWEEN_BACKENDS = {"tapegrad_cupy": "tapegrad_numpy.special"}

# Imports that stand inside a function so that a heavy part loads on first use: source -> targets.
LAZY: dict[str, set[str]] = {
    # Methods of arrays are those of the NumPy face, which loads nearly everything.
    "tapegrad.core.dtypes": {"tapegrad.numpy.creation"},
    "tapegrad.ops.numpy_protocol": {"tapegrad.numpy.namesakes"},
    "tapegrad.ops.array_methods": {"tapegrad.numpy", "tapegrad.numpy.methods"},
    "tapegrad.cli": {"tapegrad.demo.digits", "tapegrad_bench.command"},
    "tapegrad.ops.operators": {"tapegrad.ops.numpy_protocol"},
    "tapegrad_bench.adapters.on_tapegrad": {"tapegrad_bench.adapters.cuda_events"},
}

# Foreign libraries that a module and the modules in it may import.
FOREIGN: dict[str, set[str]] = {
    "tapegrad": {"numpy"},
    "tapegrad.demo.progress": {"rich"},
    "tapegrad.testing": {"array_api_strict", "scipy"},
}


def is_ours(name: str) -> bool:
    return name.partition(".")[0].startswith("tapegrad")


def is_within(module: str, place: str) -> bool:
    return f"{module}.".startswith(f"{place}.")


def rank_in(table: Sequence[Sequence[str]], name: str) -> int:
    """The row of `name`; names that are in no row come after all of them."""
    return next((row for row, names in enumerate(table) if name in names), len(table))


def layer(module: str) -> int:
    parts = module.split(".")
    return rank_in(LAYERS, parts[1]) if len(parts) > 1 else len(LAYERS) + 1


def arrows_that_run_back(imports: Iterable[Import]) -> list[str]:
    engine = [i for i in imports if i.source.startswith("tapegrad.") and not is_lazy(i)]
    found = [
        str(i)
        for i in engine
        if i.target.startswith("tapegrad.") and layer(i.target) > layer(i.source)
    ]
    for i in engine:
        source, target = core_name(i.source), core_name(i.target)
        if source and target and rank_in(CORE, target) > rank_in(CORE, source):
            found.append(str(i))
    return found


def core_name(module: str) -> str:
    return module.removeprefix("tapegrad.core.") if module.startswith("tapegrad.core.") else ""


def is_lazy(i: Import) -> bool:
    return i.is_local and i.target in LAZY.get(i.source, ())


def imports_of_the_root(imports: Iterable[Import]) -> list[str]:
    return [str(i) for i in imports if i.target == "tapegrad" and package_of(i) not in USERS]


def package_of(i: Import) -> str:
    return i.source.partition(".")[0]


def hidden_imports(imports: Iterable[Import]) -> list[str]:
    """Our own modules imported inside functions, beyond those that are listed as lazy."""
    return [str(i) for i in imports if i.is_local and is_ours(i.target) and not is_lazy(i)]


def backend_trespasses(imports: Iterable[Import]) -> list[str]:
    found = []
    for i in imports:
        package = package_of(i)
        if (
            package in {"tapegrad", *USERS}
            or i.target.partition(".")[0] == package
            or not is_ours(i.target)
        ):
            continue
        allowed = (*BACKENDS_MAY_IMPORT, BETWEEN_BACKENDS.get(package, "tapegrad.errors"))
        if not any(is_within(i.target, place) for place in allowed):
            found.append(str(i))
    return found


def foreign_imports(imports: Iterable[Import]) -> list[str]:
    """Libraries that `tapegrad` (not a backend) imports although the table does not allow it."""
    found = []
    for i in imports:
        library = i.target.partition(".")[0]
        if package_of(i) != "tapegrad" or is_ours(library):
            continue
        allowed = (libraries for place, libraries in FOREIGN.items() if is_within(i.source, place))
        if library not in sys.stdlib_module_names.union(*allowed):
            found.append(str(i))
    return found


def import_cycle(imports: Iterable[Import]) -> list[str]:
    """The modules of one cycle among the imports that run when a module is loaded, or []."""
    graph: dict[str, set[str]] = {}
    for i in imports:
        if is_ours(i.target) and not i.is_local:
            graph.setdefault(i.source, set()).add(i.target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    return find_imports(find_modules())


def test_no_import_runs_back_up_the_layers(imports):
    assert arrows_that_run_back(imports) == []


def test_every_module_of_core_has_its_place_in_the_table():
    names = {core_name(module) for module in find_modules()} - {""}

    assert {name for name in names if rank_in(CORE, name.partition(".")[0]) == len(CORE)} == set()


def test_no_module_imports_the_package_root(imports):
    assert imports_of_the_root(imports) == []


def test_our_own_modules_are_imported_at_the_top(imports):
    assert hidden_imports(imports) == []


def test_backends_know_only_errors_and_core(imports):
    assert backend_trespasses(imports) == []


def test_numpy_is_the_only_library_the_engine_imports(imports):
    assert foreign_imports(imports) == []


def test_there_is_no_import_cycle(imports):
    assert import_cycle(imports) == []


# The rules above can fail: a made-up tree breaks each of them once.

BROKEN = {
    "tapegrad/__init__.py": "",
    "tapegrad/core/__init__.py": "",
    "tapegrad/core/nest.py": "from tapegrad.core import tensor\n",
    "tapegrad/core/tensor.py": "import numpy\nfrom tapegrad.core.nest import flatten\n",
    "tapegrad/ops/math.py": "import tapegrad\nimport cupy\n",
    "tapegrad/core/device.py": "def f():\n    from tapegrad.ops.math import exp\n",
    "backends/tapegrad_stray/__init__.py": "from tapegrad.core.nest import flatten\n"
    "from tapegrad.ops import math\nfrom tapegrad_stray import kernels\n",
    "backends/tapegrad_stray/kernels.py": "import cupy\n",
}


@pytest.fixture
def broken(tmp_path: Path) -> list[Import]:
    return find_imports(write_tree(tmp_path, BROKEN))


def test_arrows_that_run_back_are_noticed(broken):
    assert arrows_that_run_back(broken) == [
        "tapegrad.core.device:2 imports tapegrad.ops.math",
        "tapegrad.core.nest:1 imports tapegrad.core.tensor",
    ]


def test_importing_the_package_root_is_noticed(broken):
    assert imports_of_the_root(broken) == ["tapegrad.ops.math:1 imports tapegrad"]


def test_a_hidden_import_is_noticed(broken):
    assert hidden_imports(broken) == ["tapegrad.core.device:2 imports tapegrad.ops.math"]


def test_a_backend_that_reaches_into_ops_is_noticed(broken):
    assert backend_trespasses(broken) == ["tapegrad_stray:2 imports tapegrad.ops.math"]


def test_an_engine_that_imports_cupy_is_noticed(broken):
    assert foreign_imports(broken) == ["tapegrad.ops.math:2 imports cupy"]


def test_a_cycle_is_noticed(broken):
    assert set(import_cycle(broken)) == {"tapegrad.core.nest", "tapegrad.core.tensor"}
