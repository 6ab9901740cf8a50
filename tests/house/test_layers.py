"""Imports point one way. The tables below are the order; change them with a reason."""

from __future__ import annotations

import graphlib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tests.house.sources import (
    Import,
    find_imports,
    find_modules,
    imports_of_this_tree,
    write_tree,
)

# A module may import from its own row and from the rows above it, never from below.
LAYERS: Sequence[Sequence[str]] = (
    ("errors",),
    ("core",),
    ("ops",),
    ("autodiff",),
    ("engine",),
    ("program",),
    ("special_functions",),
)
# Whatever is not named above is a face (math, nn, keras, testing, ...): it stands below all of them
# and above nothing but the package root, the programs that use it, and the command line, which
# starts these. Imports inside functions obey the same order.
LAST = (
    "tapegrad",
    "tapegrad_bench",
    "tapegrad_gradbench",
    "tapegrad_zoo",
    "tapegrad.cli",
    "tapegrad.__main__",
)

# The same inside core, where every module is named.
CORE: Sequence[Sequence[str]] = (
    (
        "values.array_interface",
        "values.device_name",
        "values.nest",
        "values.dtypes",
        "values.operator_types",  # a stub
        "values.sizes",
        "values.tensor_shape",
        "values.trial",
        "absent_attributes",
        "arena",
        "argument_checks",
        "call_site",
        "checkpoints",
        "determinism",
        "eager_hooks",
        "exact_key",
        "exports",
        "files.atomic",
        "files.formats",
        "files.limits",
        "observed",
        "ownership",
        "precision",
        "symbolic_calls",
        "threads",
        "gc_pause",
        "html",
        "primitive.shape_words",
        "tracebacks",
        "uninterrupted",
        "update_lock",
        "value_use",
        "warn_once",
    ),
    ("event_log", "failed_calls", "memory_trace", "origin", "values.library_arrays"),
    ("background",),
    ("checked_calls",),
    ("backend.native_sequences", "backend.communication"),
    ("backend.optional_parts", "files.private_cache"),
    ("backend.capabilities",),
    ("backend.protocol",),
    ("backend.registry",),
    ("values.device", "world"),
    ("recorder",),
    ("exits", "number_checks"),
    ("values.host", "out_of_memory", "trace.expression", "values.dlpack"),
    ("values.tensor", "trace.expression_namespace", "trace.c_source", "trace.loop"),
    ("trace.zero_in_rules", "values.variable_value"),
    ("values.shared",),
    (
        "values.convert",
        "primitive.checked_kernel",
        "primitive.real_operands",
        "primitive.rule",
    ),
    ("values.strings",),
    ("string_variable",),
    ("values.variable", "values.indexed_slices", "primitive.kernel_errors"),
    ("commit", "memory_holders"),
    ("primitive.primitive",),
    ("primitive.fastpath", "primitive.operand", "primitive.index_check"),
    ("primitive.families",),
    ("dtypes", "tensor", "variable"),  # names that old pickles refer to
)

CORE_PACKAGES = {"backend", "files", "primitive", "trace", "values"}

# Packages in the tree that use the public API, and so may import any module of it.
USERS = {"tapegrad_bench", "tapegrad_gradbench", "tapegrad_zoo"}

# Faces that never import each other: shared code lives below both.
UNRELATED_FACES = (("tapegrad.numpy", "tapegrad.scipy"),)

# What a backend may know of the engine.
BACKENDS_MAY_IMPORT = ("tapegrad.errors", "tapegrad.core")

# What one backend may take from another: the CUDA sources are written with the coefficient tables
# of NumPy's special functions, so that there is one copy of them.
BETWEEN_BACKENDS = {"tapegrad_cupy": "tapegrad_numpy.kernels.special"}

# Foreign libraries that a module and the modules in it may import.
FOREIGN: dict[str, set[str]] = {
    "tapegrad": {"numpy"},
    "tapegrad.commands.doctor": {"rich"},
    "tapegrad.demo.progress": {"rich"},
    # Optional: bfloat16 needs ml_dtypes.
    "tapegrad.core.values.dtypes": {"ml_dtypes"},
    "tapegrad.keras.saving.tensor_file": {"ml_dtypes"},
    # Optional: arrays on the CPU are exchanged through MPI.
    "tapegrad.distribute.process_group": {"mpi4py"},
    # Optional: image files need Pillow.
    "tapegrad.io.images": {"PIL"},
    "tapegrad.keras.utils.pillow": {"PIL"},
    # Optional: texts to token numbers.
    "tapegrad.hub.tokens": {"tokenizers"},
    # Optional: the files of Keras are HDF5.
    "tapegrad.keras.saving.hdf5": {"h5py"},
    # Optional: models are exported as the messages of ONNX.
    "tapegrad.onnx": {"onnx"},
    "tapegrad.program.onnx.building": {"onnx"},
    # Optional: with KERAS_BACKEND=tapegrad, `tapegrad.keras` is real Keras.
    "tapegrad.lazy": {"keras", "keras_tapegrad"},
    # Sparse direct solvers are those of SciPy and cuSOLVER.
    "tapegrad.scipy.sparse.linalg.direct": {"scipy", "cupy", "cupyx"},
    # Optional: methods that tapegrad lacks are SciPy's.
    "tapegrad.scipy.optimize.scipy_searches": {"scipy"},
    # Functions without a gradient are SciPy's.
    "tapegrad.compat.autograd.scipy": {"scipy"},
    "tapegrad.testing": {"scipy"},
}


def is_ours(name: str) -> bool:
    return name.partition(".")[0].startswith("tapegrad")


def is_within(module: str, place: str) -> bool:
    return f"{module}.".startswith(f"{place}.")


def rank_in(table: Sequence[Sequence[str]], name: str) -> int:
    """The row of `name`; names that are in no row come after all of them."""
    return next((row for row, names in enumerate(table) if name in names), len(table))


def layer(module: str) -> int:
    rest = module.partition(".")[2]
    place = next((p for p in reversed(LAST) if is_within(module, p)), LAST[-1])
    if place == "tapegrad" and rest:
        return rank_in(LAYERS, rest.partition(".")[0])
    return len(LAYERS) + 1 + LAST.index(place)


def arrows_that_run_back(imports: Iterable[Import]) -> list[str]:
    engine = [i for i in imports if i.source.startswith("tapegrad.")]
    found = [
        str(i)
        for i in engine
        if is_ours(i.target) and i.target != "tapegrad" and layer(i.target) > layer(i.source)
    ]
    for i in engine:
        source, target = core_name(i.source), core_name(i.target)
        if source and target and rank_in(CORE, target) > rank_in(CORE, source):
            found.append(str(i))
    return found


def core_name(module: str) -> str:
    return module.removeprefix("tapegrad.core.") if module.startswith("tapegrad.core.") else ""


def sideways_imports(imports: Iterable[Import]) -> list[str]:
    """Imports between faces that must not know each other, lazy ones included."""
    pairs = [pair for faces in UNRELATED_FACES for pair in (faces, faces[::-1])]
    return [
        str(i)
        for i in imports
        if any(
            is_within(i.source, source) and is_within(i.target, target) for source, target in pairs
        )
    ]


def imports_of_the_root(imports: Iterable[Import]) -> list[str]:
    return [str(i) for i in imports if i.target == "tapegrad" and package_of(i) not in USERS]


def package_of(i: Import) -> str:
    return i.source.partition(".")[0]


def unexplained_imports(imports: Iterable[Import]) -> list[str]:
    """Our own modules imported inside functions without a comment that says why."""
    local = [i for i in imports if i.is_local and is_ours(i.target) and not i.has_comment]
    # A program of the zoo imports each library in the version for that library.
    return [str(i) for i in local if package_of(i) != "tapegrad_zoo"]


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
    """The modules of one cycle among the imports, those inside functions included, or []."""
    graph: dict[str, set[str]] = {}
    for i in imports:
        if is_ours(i.target):
            graph.setdefault(i.source, set()).add(i.target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


@pytest.fixture(scope="module")
def imports() -> tuple[Import, ...]:
    return imports_of_this_tree()


def test_no_import_runs_back_up_the_layers(imports):
    assert arrows_that_run_back(imports) == []


def test_every_module_of_core_has_its_place_in_the_table():
    names = {core_name(module) for module in find_modules()} - {"", *CORE_PACKAGES}

    assert {name for name in names if rank_in(CORE, name) == len(CORE)} == set()


def test_the_numpy_and_scipy_faces_do_not_import_each_other(imports):
    assert sideways_imports(imports) == []


def test_no_module_imports_the_package_root(imports):
    assert imports_of_the_root(imports) == []


def test_imports_inside_functions_say_why(imports):
    assert unexplained_imports(imports) == []


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
    "tapegrad/core/values/__init__.py": "",
    "tapegrad/core/values/nest.py": "from tapegrad.core.values import tensor\n",
    "tapegrad/core/values/tensor.py": "import numpy\n"
    "from tapegrad.core.values.nest import flatten\n",
    "tapegrad/numpy/special.py": "from tapegrad.scipy.stats import norm\n",
    "tapegrad/scipy/sparse.py": "from tapegrad.numpy.linalg import norm\n",
    "tapegrad/ops/math.py": "import tapegrad\nimport cupy\n",
    "tapegrad/core/values/device.py": "def f():\n    from tapegrad.ops.math import exp\n",
    "tapegrad/core/values/host.py": "from importlib import import_module\n"
    "def f():\n    return import_module('tapegrad.numpy')\n"
    "def g(name):\n    # Reached on first use.\n    return import_module(f'tapegrad.{name}')\n",
    "tapegrad/nn.py": "def f():\n    from tapegrad_bench import command  # heavy\n",
    "tapegrad/keras/__init__.py": "import importlib\n"
    "f = lambda: importlib.import_module(f'{__name__}.layers')\n",
    "tapegrad/keras/layers.py": "from tapegrad.keras import f\n",
    "tapegrad/cli.py": "def f():\n    from tapegrad_bench import command  # heavy\n",
    "benchmarks/tapegrad_bench/command.py": "import tapegrad\n",
    "backends/tapegrad_stray/__init__.py": "from tapegrad.core.values.nest import flatten\n"
    "from tapegrad.ops import math\nfrom tapegrad_stray import kernels\n",
    "backends/tapegrad_stray/kernels.py": "import cupy\n",
}


@pytest.fixture
def broken(tmp_path: Path) -> list[Import]:
    return find_imports(write_tree(tmp_path, BROKEN))


def test_arrows_that_run_back_are_noticed(broken):
    assert arrows_that_run_back(broken) == [
        "tapegrad.core.values.device:2 imports tapegrad.ops.math",
        "tapegrad.core.values.host:3 imports tapegrad.numpy",
        "tapegrad.core.values.host:6 imports tapegrad.*",
        "tapegrad.nn:2 imports tapegrad_bench.command",
        "tapegrad.core.values.nest:1 imports tapegrad.core.values.tensor",
    ]


def test_imports_between_the_numpy_and_scipy_faces_are_noticed(broken):
    assert sideways_imports(broken) == [
        "tapegrad.numpy.special:1 imports tapegrad.scipy.stats",
        "tapegrad.scipy.sparse:1 imports tapegrad.numpy.linalg",
    ]


def test_importing_the_package_root_is_noticed(broken):
    assert imports_of_the_root(broken) == ["tapegrad.ops.math:1 imports tapegrad"]


def test_an_import_inside_a_function_without_a_reason_is_noticed(broken):
    assert unexplained_imports(broken) == [
        "tapegrad.core.values.device:2 imports tapegrad.ops.math",
        "tapegrad.core.values.host:3 imports tapegrad.numpy",
        "tapegrad.keras:2 imports tapegrad.keras.layers",
    ]


def test_a_backend_that_reaches_into_ops_is_noticed(broken):
    assert backend_trespasses(broken) == ["tapegrad_stray:2 imports tapegrad.ops.math"]


def test_an_engine_that_imports_cupy_is_noticed(broken):
    assert foreign_imports(broken) == ["tapegrad.ops.math:2 imports cupy"]


def test_a_cycle_is_noticed(broken):
    in_values = [i for i in broken if is_within(i.source, "tapegrad.core.values")]

    assert set(import_cycle(in_values)) == {
        "tapegrad.core.values.nest",
        "tapegrad.core.values.tensor",
    }


def test_a_cycle_through_a_function_is_noticed(broken):
    in_keras = [i for i in broken if is_within(i.source, "tapegrad.keras")]

    assert set(import_cycle(in_keras)) == {"tapegrad.keras", "tapegrad.keras.layers"}
