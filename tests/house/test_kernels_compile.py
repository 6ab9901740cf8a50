"""Every CUDA kernel compiles, and keeps its variables in registers; no GPU is needed.

Sources are compiled for sm_90, about 100 of modules with more, and one in twenty for sm_80 and for
sm_100: that takes three minutes on two cores. TAPEGRAD_ALL_KERNELS=1 compiles all of them for each,
which is the whole proof. The modules of tapegrad_cupy are found without an import, so that
a machine that lacks CuPy gets a sentence.
"""

from __future__ import annotations

import ast
import functools
import importlib
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from tests.house import nvrtc
from tests.house.sources import find_modules, write_tree

ARCHITECTURES = {80: 20, 90: 1, 100: 20}
"""With how many sources there are to one that is compiled."""

MANY = 100
"""Up to so many sources of a module are all compiled for sm_90, and of more about as many."""

ALL = os.environ.get("TAPEGRAD_ALL_KERNELS") == "1"

PARTS = 6
"""Tests that share the sources of a module, so that several processes have something to do."""

# Who makes kernels of sources that others give it.
MAKERS = tuple(
    f"tapegrad_cupy.{name}"
    for name in (
        "compiled",
        "elementwise.formula",
        "elementwise.pointwise",
        "loops.joined",
        "loops.loops",
        "rows.row_launch",
    )
)
# What a module uses that has sources of its own.
MADE_BY = {"compiled", "compile_kernel", "launch", "Formula", "Pointwise"}
CUPY_CLASSES = {"RawKernel", "RawModule", "ElementwiseKernel", "ReductionKernel"}

compiles_here = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"),
    reason="CUDA is compiled on Linux (x86_64, aarch64) only: there are wheels of it and of CuPy",
)


def compiling_modules(modules: Mapping[str, Path]) -> set[str]:
    """The modules of the CUDA backend with sources of their own, by what they use and define."""
    ours = {name: path for name, path in modules.items() if name.startswith("tapegrad_cupy.")}
    return {name for name, path in ours.items() if name not in MAKERS and _compiles(path)}


def _compiles(path: Path) -> bool:
    return any(map(_is_sign, ast.walk(ast.parse(path.read_text(encoding="utf-8")))))


def _is_sign(node: ast.AST) -> bool:
    """Whether a node shows that its module compiles something."""
    if isinstance(node, ast.ImportFrom):
        return node.module in MAKERS and bool(MADE_BY & {alias.name for alias in node.names})
    if isinstance(node, ast.FunctionDef):
        return node.name == "variants"
    return isinstance(node, ast.Attribute) and node.attr in CUPY_CLASSES


MODULES = sorted(compiling_modules(find_modules()))


def load(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        pytest.fail(f"{module} cannot be imported: {error}. Run: {nvrtc.INSTALL}.", pytrace=False)


@functools.cache
def sources_of(module: str) -> list[Any]:
    loaded = load(module)
    if not hasattr(loaded, "variants"):
        rule = "The docstring of tapegrad_cupy/kernel_sources.py says what it yields."
        pytest.fail(f"{module} compiles CUDA and has no variants(). {rule}", pytrace=False)
    # Elementwise kernels are made from all primitives there are: the samples load them.
    importlib.import_module("tapegrad.testing.samples")
    load("tapegrad_cupy.kernel_sources")
    distinct = {(source.text, source.options): source for source in loaded.variants()}
    return list(distinct.values())


def sample(sources: list[Any], architecture: int) -> list[Any]:
    """What is compiled for an architecture: at least one, and for each another choice."""
    if ALL:
        return sources
    step = ARCHITECTURES[architecture]
    # By a number of no meaning: one in so many would leave out some dtypes or shapes.
    rare = -(-len(sources) // MANY)
    sources = [source for source in sources if crc32(source.text.encode()) % rare == 0]
    start = list(ARCHITECTURES).index(architecture) % min(step, len(sources))
    return sources[start::step]


def complaints(sources: list[Any], architecture: int) -> list[str]:
    """One sentence for each source that does not compile, or spills."""
    found = []
    for label, text, options in sources:
        try:
            spills = nvrtc.spills_of(text, options, architecture)
        except SyntaxError as error:
            found.append(f"{label} does not compile for sm_{architecture}: {error}")
        else:
            found += [
                f"{label}: {name} spills on sm_{architecture}, {stored} bytes out, {loaded} back"
                for name, stored, loaded in spills
            ]
    return found


@compiles_here
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda number: f"sm_{number}")
@pytest.mark.parametrize("module", MODULES, ids=lambda name: name.partition(".")[2])
def test_kernels_compile_and_spill_no_registers(module, architecture, part):
    try:
        sources = sample(sources_of(module), architecture)
        found = complaints(sources[part::PARTS], architecture)
    except nvrtc.MissingError as error:
        pytest.fail(str(error), pytrace=False)

    assert not found, "\n".join(found)


@compiles_here
def test_the_registry_has_every_module_that_compiles():
    registered = {module.__name__ for module in load("tapegrad_cupy.kernel_sources").MODULES}

    assert registered == set(MODULES)


@compiles_here
@pytest.mark.parametrize("module", MODULES, ids=lambda name: name.partition(".")[2])
def test_labels_tell_the_sources_of_a_module_apart(module):
    labels = [source.label for source in sources_of(module)]

    assert labels
    assert len(set(labels)) == len(labels)


# The checks above can fail.

SPILLING = """
extern "C" __global__ void __launch_bounds__(1024) crowded(const float* x, float* y) {
    float v[256];
    #pragma unroll
    for (int i = 0; i < 256; ++i) v[i] = x[i * 1024 + threadIdx.x];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 256; ++i) y[i * 1024 + threadIdx.x] = v[255 - i] * v[i ^ 77];
}
"""


@compiles_here
def test_a_kernel_that_spills_is_noticed():
    (complaint,) = complaints([("crowded float", SPILLING, ())], 90)

    assert complaint.startswith("crowded float: crowded spills on sm_90, ")


@compiles_here
def test_a_source_that_does_not_compile_is_noticed():
    broken = 'extern "C" __global__ void broken() { int x = y; }'

    (complaint,) = complaints([("broken", broken, ())], 80)

    assert complaint.startswith("broken does not compile for sm_80: ")
    assert 'identifier "y" is undefined' in complaint


def test_a_report_of_the_assembler_that_is_not_understood_is_noticed():
    with pytest.raises(ValueError, match="has another form than expected"):
        nvrtc.read_spills("Everything is fine.")


def test_a_machine_without_the_compiler_gets_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda", None)

    with pytest.raises(nvrtc.MissingError, match=r"Run: pip install .*'nvidia-cuda-nvrtc==13"):
        nvrtc._library.__wrapped__()


def test_a_module_with_sources_of_its_own_is_found(tmp_path):
    tree = {
        "backends/tapegrad_cupy/one.py": "from tapegrad_cupy.compiled import compiled\n",
        "backends/tapegrad_cupy/two.py": "import cupy\nkernel = cupy.RawKernel('', '')\n",
        "backends/tapegrad_cupy/three.py": "def variants():\n    yield from sources()\n",
        "backends/tapegrad_cupy/none.py": "from tapegrad_cupy.compiled import contiguous\n",
    }

    assert compiling_modules(write_tree(tmp_path, tree)) == {
        "tapegrad_cupy.one",
        "tapegrad_cupy.two",
        "tapegrad_cupy.three",
    }
