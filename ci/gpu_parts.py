"""Which tests run on a GPU, in which environment, and which do not and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from evidence import ROOT
from run_tests import Job

ON_THE_HOST = (
    # The rule in the test turns raw arrays into NumPy's.
    "tests/api/test_gradient_paths.py::test_G22_an_output_without_gradient_gets_zeros",
    # These count the bytes of the host.
    "tests/api/test_memory.py::test_L8_reset_releases_what_was_recorded",
    "tests/api/test_memory.py::test_L15_a_persistent_tape_keeps_everything_between_calls",
    "tests/api/test_memory.py::test_L17_the_sweep_frees_what_it_has_used",
    # CuPy loads ml_dtypes itself.
    "tests/api/test_dtype.py::test_bfloat16_is_loaded_when_its_name_is_asked_for",
    # NumPy imports no memory of a GPU.
    "tests/api/test_tensor.py::test_T1_dlpack_export",
)
"""Single tests that cannot hold on a GPU as they are written; the report lists them."""

# About the host, without a device, or with a counterpart in tests/gpu. Translations into other
# libraries are compared on the host, and scripts that get peers choose the CPU themselves;
# tests/gpu/test_bench_peers_on_cuda.py runs the peers on a GPU.
FILES_ON_THE_HOST = tuple(
    f"tests/api/test_{name}.py"
    for name in (
        "backend_registry", "bad_input", "bench", "bench_cheats", "bench_evidence", "bench_keras",
        "bench_reports", "bench_results", "bench_scripts", "bench_workloads", "casts_ahead",
        "compute_gradient", "extend", "faces", "function", "generic_kernels", "interop",
        "interrupts", "memory_info", "nest", "optimizers", "optimizers_in_functions",
        "sweep_as_on_a_device", "transfers", "translation", "translation_of_loops",
        "translation_table", "wrong_calls", "zoo", "zoo_contenders", "zoo_record", "zoo_reports",
    )
)  # fmt: skip

# The others read the programs and the C code that NumPy's backend makes of them.
PROGRAM_TESTS = tuple(
    f"tests/program/test_{name}.py"
    for name in (
        "control_flow_in_functions", "functions_and_tapes", "memory_budget", "recomputation",
        "recorded_loops", "recording", "windows", "written_parts",
    )
)  # fmt: skip


class Part(NamedTuple):
    """Tests about one thing: folders and files, the files left out, and the environment."""

    tests: tuple[str, ...]
    environment: Mapping[str, str]
    without: tuple[str, ...] = ()


# A proof is about all cases of a test, not about those that a day's run chooses.
_ALL_CASES = {"TAPEGRAD_LONG": "1"}
_ON_CUDA = {"TAPEGRAD_DEVICE": "cuda", **_ALL_CASES}
PARTS: dict[str, Part] = {
    # Every recorded sequence of launches is compared with the call that it was recorded from.
    "engine": Part(("tests/gpu",), {"TAPEGRAD_CHECK_REPLAYS": "1", **_ALL_CASES}),
    "tape": Part(("tests/api", *PROGRAM_TESTS), _ON_CUDA, FILES_ON_THE_HOST),
    # Real Keras needs an environment of its own: ci/keras.sh.
    "training": Part(
        ("tests/keras", "tests/data"),
        _ON_CUDA,
        tuple(f"tests/keras/test_real_keras{name}.py" for name in ("", "_data", "_export")),
    ),
    "examples": Part(("tests/examples", "tests/full"), _ON_CUDA),
    "numpy": Part(("tests/numpy",), _ON_CUDA),
    "scipy": Part(("tests/scipy",), _ON_CUDA),
    "autograd": Part(("tests/compat",), _ON_CUDA),
}
"""All but the engine's need array_api_strict."""


def files_of(part: Part, root: Path = ROOT) -> list[str]:
    """Return the test files of a part; a name that is not in the tree is an error."""
    left_out = {file for name in part.without for file in _files_in(root, name)}
    found = {file for place in part.tests for file in _files_in(root, place)}
    return sorted(found - left_out)


def _files_in(root: Path, place: str) -> Iterable[str]:
    path = root / place
    if not path.exists():
        raise SystemExit(f"{place} does not exist: ci/gpu_parts.py names a test that was moved.")
    paths = [path] if path.is_file() else path.rglob("test_*.py")
    return [file.relative_to(root).as_posix() for file in paths]


def jobs(root: Path = ROOT) -> dict[str, Job]:
    """Return what there is to run on a GPU, by test file."""
    found = {}
    for part in PARTS.values():
        for file in files_of(part, root):
            left_out = tuple(test for test in ON_THE_HOST if test.startswith(f"{file}::"))
            found[file] = Job(file, part.environment, left_out)
    return found


def part_of(file: str, root: Path = ROOT) -> str:
    """Return the name of the part that a test file belongs to."""
    return next(name for name, part in PARTS.items() if file in files_of(part, root))


def other_files(root: Path = ROOT) -> list[str]:
    """Return the test files that do not run on a GPU."""
    everything = {path.relative_to(root).as_posix() for path in root.glob("tests/**/test_*.py")}
    return sorted(everything - jobs(root).keys())
