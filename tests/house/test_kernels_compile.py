"""Every CUDA kernel compiles, and keeps its variables in registers; no GPU is needed.

Sources are compiled for sm_90, and one in twenty for sm_80 and sm_100. `kernel_record.py` keeps a
record of those that compiled. Tests compile what is not in it (about 100 of modules with more), and
a few others that change with each commit. TAPEGRAD_ALL_KERNELS=1 compiles all for each
architecture, which is the whole proof. The modules of tapegrad_cupy are found without an import, so
that a machine that lacks CuPy gets a sentence.
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
from typing import Any, NamedTuple
from zlib import crc32

import pytest

from tests.house import kernel_record, nvrtc
from tests.house.kernel_record import ARCHITECTURES, digest, thinned
from tests.house.sources import find_modules, write_tree
from tests.seeds import SEED, is_chosen

MANY = 100
"""Up to so many new sources of a module are all compiled, and of more about as many."""

AGAIN = 60
"""How many recorded sources there are to one that is compiled again; others for each commit."""

ALL = os.environ.get("TAPEGRAD_ALL_KERNELS") == "1"

PARTS = 6 if ALL else 1
"""Tests that share the sources of a module, so that several processes have something to do."""

KNOWN_SPILLS = {(100, "column_gradient"): 20, (100, "column_products"): 52}
"""The most bytes that kernels spill on an architecture, until they are changed.

Batch normalization with a ReLU asks for four blocks at a time, which fits on sm_90 but not on
sm_100. No such device has been measured.
"""

# Who makes kernels of sources that others give it.
MAKERS = tuple(
    f"tapegrad_cupy.{name}"
    for name in (
        "launch.cuda_source",
        "launch.launch",
        "kernels.elementwise.formula",
        "kernels.elementwise.pointwise",
        "kernels.loops.joined",
        "kernels.loops.loops",
        "kernels.rows.row_launch",
    )
)
# What a module uses that has sources of its own.
MADE_BY = {
    "compile_kernel",
    "compile_row_kernel",
    "kernel_from",
    "launch",
    "Formula",
    "Pointwise",
}
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
    load("tapegrad_cupy.kernel_sources")
    return kernel_record.sources_of(module)


@functools.cache
def recorded() -> frozenset[str]:
    return kernel_record.read()


def to_compile(
    sources: list[Any], architecture: int, known: frozenset[str], seed: int = SEED
) -> list[Any]:
    """Return the sources that the record lacks, at most about MANY, and some of the others."""
    if ALL:
        return sources
    new, old = [], []
    for source in thinned(sources, architecture):
        is_known = digest(source.text, source.options, architecture) in known
        (old if is_known else new).append(source)
    # By a number of no meaning: one in so many would leave out some dtypes or shapes.
    rare = -(-len(new) // MANY)
    new = [source for source in new if crc32(source.text.encode()) % rare == 0]
    return new + [source for source in old if is_chosen(source.text, AGAIN, seed)]


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
                if max(stored, loaded) > KNOWN_SPILLS.get((architecture, name), 0)
            ]
    return found


@compiles_here
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda number: f"sm_{number}")
@pytest.mark.parametrize("module", MODULES, ids=lambda name: name.partition(".")[2])
def test_kernels_compile_and_spill_no_registers(module, architecture, part):
    try:
        sources = to_compile(sources_of(module), architecture, recorded())
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


class Source(NamedTuple):
    label: str
    text: str
    options: tuple[str, ...] = ()


SCALE = 'extern "C" __global__ void scale(float* x) {{ x[threadIdx.x] *= {}.0f; }}'
SCALES = [Source(f"scale {k}", SCALE.format(k)) for k in range(50)]


def record_of(sources: list[Any]) -> frozenset[str]:
    return frozenset(digest(source.text, source.options, 90) for source in sources)


@compiles_here
@pytest.mark.skipif(ALL, reason="All sources are compiled, whatever the record says.")
def test_a_changed_source_is_compiled_and_a_recorded_one_is_not(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "AGAIN", 10**9)
    text = SCALES[7].text.replace("*=", "+=")
    changed = [*SCALES[:7], Source("scale 7", text), *SCALES[8:]]
    known = record_of(SCALES)

    assert to_compile(SCALES, 90, known, seed=0) == []
    assert to_compile(changed, 90, known, seed=0) == [changed[7]]
    assert to_compile(SCALES, 90, frozenset(), seed=0) == SCALES


@compiles_here
def test_options_architecture_and_headers_are_part_of_a_record(monkeypatch):
    text = SCALES[0].text
    with_headers = "#include <cupy/complex.cuh>\n" + text
    before = digest(text, (), 90), digest(with_headers, (), 90)
    assert len({*before, digest(text, ("-DN=2",), 90), digest(text, (), 80)}) == 4

    versions = kernel_record._versions

    def newer(*names):
        return tuple(v + (".9" if "cupy" in v else "") for v in versions(*names))

    monkeypatch.setattr(kernel_record, "_versions", newer)

    assert digest(text, (), 90) == before[0]
    assert digest(with_headers, (), 90) != before[1]


@compiles_here
@pytest.mark.skipif(ALL, reason="All sources are compiled in any case.")
def test_recorded_sources_are_compiled_again_in_the_course_of_time():
    known = record_of(SCALES)
    days = [to_compile(SCALES, 90, known, seed=day) for day in range(600)]

    assert {source.label for day in days for source in day} == {source.label for source in SCALES}
    assert max(map(len, days)) < 10


@compiles_here
def test_a_record_is_read_as_it_was_written(tmp_path):
    known = record_of(SCALES)
    kernel_record.write(known, tmp_path / "record.json")

    assert kernel_record.read(tmp_path / "record.json") == known


@compiles_here
def test_a_kernel_that_spills_is_noticed():
    (complaint,) = complaints([("crowded float", SPILLING, ())], 90)

    assert complaint.startswith("crowded float: crowded spills on sm_90, ")


@compiles_here
@pytest.mark.parametrize(("architecture", "kernel"), KNOWN_SPILLS)
def test_known_spills_are_still_there(architecture, kernel):
    label = "BY_COLUMN 1 RELU 1"
    sources = sources_of("tapegrad_cupy.kernels.rows.column_launch")
    found = [s for s in sources if s.label.startswith(kernel) and s.label.endswith(label)]

    assert any(nvrtc.spills_of(s.text, s.options, architecture) for s in found)


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
        "backends/tapegrad_cupy/one.py": (
            "from tapegrad_cupy.launch.cuda_source import compile_kernel\n"
        ),
        "backends/tapegrad_cupy/two.py": "import cupy\nkernel = cupy.RawKernel('', '')\n",
        "backends/tapegrad_cupy/three.py": "def variants():\n    yield from sources()\n",
        "backends/tapegrad_cupy/none.py": (
            "from tapegrad_cupy.launch.cuda_source import contiguous\n"
        ),
    }

    assert compiling_modules(write_tree(tmp_path, tree)) == {
        "tapegrad_cupy.one",
        "tapegrad_cupy.two",
        "tapegrad_cupy.three",
    }
