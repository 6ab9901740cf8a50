"""Strategies with several replicas reach the weights of one replica."""

from __future__ import annotations

import json
import runpy
from typing import Any

import numpy as np
import pytest

from tests.distribute.processes import PROGRAMS, needs_mpi, run
from tests.seeds import LONG


def _flat(values: Any) -> np.ndarray:
    return np.concatenate([np.ravel(value) for value in values])


@needs_mpi
@pytest.mark.parametrize("count", [2, 3, 4] if LONG else [2])
def test_replicas_train_as_one_does(
    count: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["strategies.py"])
    runpy.run_path(str(PROGRAMS / "strategies.py"))
    expected = json.loads(capsys.readouterr().out)

    done = run("strategies.py", count, "different")

    # At the end the replicas make different layers, which the error names.
    assert done.status == 1
    assert "rank 0 is kernel:0 float32[4, 3], that of rank 1 is kernel:0 float32[4, 4]" in done.err
    printed = [line.partition("] ")[2] for line in done.out.splitlines()]
    # Programs that accumulate gradients and use Horovod's API check their results themselves.
    assert {f"done {rank}" for rank in range(count)} <= {*printed}
    assert {f"accumulated {rank}" for rank in range(count)} <= {*printed}
    found = json.loads(next(line for line in printed if line.startswith("{")))
    # Metrics count a last batch of fewer rows than replicas more than once.
    for name in expected.keys() - ({"history"} if count > 2 else set()):
        np.testing.assert_allclose(
            _flat(found[name]), _flat(expected[name]), rtol=2e-5, atol=1e-6, err_msg=name
        )
