"""What runs on a GPU: the engine's own tests, and those that run on NumPy too, with their sources.

The sources of a part may change while the proof of the other parts holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
ENGINE = (
    "backends",
    *(f"tapegrad/{part}" for part in ("core", "ops", "autodiff", "program", "optimizers")),
)
"""What all tests and all figures depend on."""

# What users see, on the GPU: the same tests that run on NumPy. Of tests/api these are left out:
# test_optimizers (needs array_api_strict), and what is about the host, needs no device, or has GPU
# tests of its own (benchmarks, faces, nest, registry, transfers, interop).
TAPE_TESTS = tuple(
    f"tests/api/test_{name}.py"
    for name in (
        "awkward_points", "bias_sums", "clipping", "custom_gradient", "custom_gradient_in_vmap",
        "custom_gradient_nested", "data_model", "dtype", "errors", "explain", "forward",
        "gradient", "gradient_paths", "guides", "half_precision", "inplace", "jacobian",
        "memory", "module", "neighbours", "numpy_protocol", "operator_turns", "optimizer_groups",
        "patterns",
        "random", "recompute", "tape_lifecycle", "tape_use", "tensor", "transforms", "tutorials",
        "variable", "vmap", "watch",
    )
) + tuple(
    f"tests/program/test_{name}.py"
    for name in (
        "control_flow_in_functions", "functions_and_tapes", "memory_budget", "recomputation",
        "recording",
    )
)  # fmt: skip
# Single tests that cannot hold on a GPU as they are written.
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


class Part(NamedTuple):
    """Tests about one thing, and what they depend on besides the engine."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    environment: Mapping[str, str]


_ON_CUDA = {"TAPEGRAD_DEVICE": "cuda"}
PARTS = {
    # Every recorded sequence of launches is compared with the call that it was recorded from.
    "engine": Part((), ("tests/gpu",), {"TAPEGRAD_CHECK_REPLAYS": "1"}),
    "tape": Part((), TAPE_TESTS, _ON_CUDA),
    "training": Part(("tapegrad/keras", "tapegrad/data"), ("tests/keras", "tests/data"), _ON_CUDA),
    "examples": Part(
        ("tapegrad/keras", "tapegrad/data", "examples"), ("tests/examples", "tests/full"), _ON_CUDA
    ),
    "numpy": Part(("tapegrad/numpy",), ("tests/numpy",), _ON_CUDA),
    "scipy": Part(("tapegrad/numpy", "tapegrad/scipy"), ("tests/scipy",), _ON_CUDA),
    "autograd": Part(
        ("tapegrad/numpy", "tapegrad/scipy", "tapegrad/compat"), ("tests/compat",), _ON_CUDA
    ),
}
"""All but the engine's need array_api_strict."""


def digest(places: Iterable[str]) -> str:
    """One number for files, and for all Python files in folders."""
    total = hashlib.sha256()
    for path in sorted(path for place in places for path in _python_files(ROOT / place)):
        total.update(str(path.relative_to(ROOT)).encode())
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def test_files(part: Part) -> list[str]:
    """The files of a part that hold tests."""
    files = (path for place in part.tests for path in _python_files(ROOT / place))
    return sorted(str(path.relative_to(ROOT)) for path in files if path.name.startswith("test_"))


def sources_of(part: Part) -> str:
    """One number for what all tests of a part depend on: its sources, and what its tests share."""
    folders = {Path(place) if not place.endswith(".py") else Path(place).parent
               for place in part.tests}  # fmt: skip
    shared = (path for folder in folders for path in (ROOT / folder).rglob("*.py")
              if not path.name.startswith("test_"))  # fmt: skip
    return digest([*part.sources, *(str(path.relative_to(ROOT)) for path in shared)])


def _python_files(place: Path) -> Iterable[Path]:
    return [place] if place.is_file() else place.rglob("*.py")
