"""The folder of compiled loops ($TAPEGRAD_CACHE), which processes of several revisions may share.

Its entries depend on the machine and the compiler. An entry of another revision must therefore be
used correctly or ignored: it may neither raise an error nor change a result.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.compatibility.cases import Case, Outcome

PROGRAM = """
import json
import numpy as np
import tapegrad as tf

@tf.function
def f(x, y):
    return tf.reduce_sum(tf.abs(x * 2.0) + x * x * y, axis=0), x * 3.0 - y

x = np.linspace(-1.0, 1.0, 4096).reshape(64, 64)
for factor in (1.0, 0.5):
    total, line = f(tf.constant(x), tf.constant(factor * x))
print(json.dumps([total[:4].numpy().tolist(), line[:2, 0].numpy().tolist()]))
"""


def run_program(cache: Path) -> Outcome:
    """Run the program in a new process that keeps its compiled loops in a folder."""
    cache.mkdir(exist_ok=True)
    cache.chmod(0o700)  # other folders are not used, because the files in them are code
    environment = {
        **os.environ,
        "TAPEGRAD_CACHE": str(cache),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-W", "error", "-c", PROGRAM]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert not ended.stderr
    total, line = json.loads(ended.stdout)
    return Outcome({}, {"total": np.array(total), "line": np.array(line)})


def put_old_entries_under_new_names(cache: Path, scratch: Path) -> None:
    """Put an old library where this revision looks for its own ones."""
    old = sorted(path for path in cache.rglob("*") if path.is_file())
    run_program(scratch)
    new = [path.relative_to(scratch) for path in scratch.rglob("*") if path.is_file()]
    # A library whose name is the same was made from the same text and is the right one.
    for name in (name for name in new if not (cache / name).exists()):
        (cache / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(old[0], cache / name)


def _write(folder: Path) -> Outcome:
    return run_program(folder / "cache")


def _read(folder: Path) -> Outcome:
    return run_program(folder / "cache")


CASES = {"loop-cache": Case(_write, _read)}
