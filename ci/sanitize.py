"""Run the kernels written here under NVIDIA's compute-sanitizer, on a machine with a CUDA device.

python ci/sanitize.py [memcheck racecheck ...]    what to look for (default: both)

Every array gets memory of its own from CUDA, so that reading beyond one is noticed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from subprocess import PIPE, STDOUT

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("memcheck", "racecheck")
TESTS = {
    "tests/gpu/test_loops_on_cuda.py": "float32 or bfloat16 or broadcast or over_one or one_launch",
    "tests/gpu/test_small_products_on_cuda.py": "17 or 100",
    "tests/gpu/test_loss_pair_on_cuda.py": "1000 or 10-",
    "tests/gpu/test_rows_on_cuda.py": "normalisation and (512 or 1000)",
    "tests/gpu/test_casts_on_cuda.py": "float32 or table or elsewhere",
    "tests/gpu/test_multi_updates_on_cuda.py": "float32",
    "tests/gpu/test_cast_groups_on_cuda.py": "all_are_cast",
    "tests/gpu/test_updates_on_cuda.py": "averages or moving",
    "tests/gpu/test_host_rows_on_cuda.py": "dtypes or anywhere or more_arrays or number_of_rows",
    "tests/gpu/test_bare_calls_on_cuda.py": "attention or (bfloat16 and (sizes2 or channels1))",
}
"""Files, and which of their tests: a sanitizer makes kernels a hundred times slower."""

OF_LIBRARIES = ("tests/gpu/test_bare_calls_on_cuda.py",)
"""Tests of NVIDIA's kernels: whether they get right addresses, not how they are written."""

AT_ONCE = 5
"""Runs that share the device: most of their time is the host's."""

PLAIN_MEMORY = (
    "import sys, cupy, pytest; cupy.cuda.set_allocator(None); "
    "raise SystemExit(pytest.main(['-q', '-x', '-p', 'no:cacheprovider', *sys.argv[1:]]))"
)


def main(tools: list[str]) -> int:
    """Run each tool over all tests; return how many runs found something."""
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(sanitizer).exists():
        print("compute-sanitizer is not installed: it comes with the CUDA toolkit.")
        return 1

    def found_something(task: tuple[str, str]) -> bool:
        tool, file = task
        tests = [sys.executable, "-c", PLAIN_MEMORY, str(ROOT / file), "-k", TESTS[file]]
        # What calls of CUDA return, CuPy and the engine look at themselves.
        options = ["--tool", tool, "--error-exitcode", "9", "--report-api-errors", "no"]
        command = [sanitizer, *(options if tool == "memcheck" else options[:4]), *tests]
        ended = subprocess.run(
            command, cwd=ROOT, check=False, text=True, stdout=PIPE, stderr=STDOUT
        )
        print(f"== {tool} {file}\n{ended.stdout}", flush=True)
        return ended.returncode != 0

    tasks = [t for t in product(tools, TESTS) if t[0] == "memcheck" or t[1] not in OF_LIBRARIES]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return sum(pool.map(found_something, tasks))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:] or list(TOOLS)))
