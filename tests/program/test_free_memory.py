"""Memory that a recorded call frees goes back to the system before its program takes its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tapegrad_numpy.sequences.free_memory import return_free_memory

STATUS = Path("/proc/self/statm")
CODE = """
import json
import resource
from pathlib import Path
import numpy as np
from tapegrad_numpy.sequences.free_memory import return_free_memory

def held():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

del_first = np.ones(2**21)
del del_first  # from here on, the C library takes arrays of 16 MiB from its heap
arrays = [np.ones(2**21) for _ in range(12)]
last = arrays.pop()  # the end of the heap stays in use
full = held()
del arrays
return_free_memory()
print(json.dumps([full, held()]))
"""


@pytest.mark.skipif(
    not (STATUS.exists() and return_free_memory()), reason="the C library cannot return memory"
)
def test_freed_arrays_are_returned() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    full, after = json.loads(done.stdout)

    assert full - after > 10 * 2**24
