"""Write docs/scale.md: predictions for many devices, and how they compare with runs.

    python ci/scale_page.py             # write the page
    python ci/scale_page.py --check     # fail if it differs from the record
    python ci/scale_page.py --record    # first run tests/distribute/programs/scale.py here

The record is `ci/scale.json`; the speed of a device comes from `benchmarks/results`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(1, str(ROOT / "ci"))

from scale_model import (  # noqa: E402  # found by the line above
    MODELS,
    MODES,
    Cluster,
    Link,
    Step,
    predicted,
    sent,
    state_bytes,
)

PAGE = ROOT / "docs" / "scale.md"
RECORD = ROOT / "ci" / "scale.json"
H200 = ROOT / "benchmarks" / "results" / "nvidia-h200.json"
COUNTS = (1, 8, 64, 512, 4096)
TOKENS = 8192
RUNS = [("whole", 1), *[(mode, size) for size in (2, 3) for mode in ("whole", "states", "weights")]]
TITLES = {
    "whole": "data parallel",
    "states": "ZeRO-1",
    "weights": "FSDP",
    "tensor": "tensor parallel in a node",
}

HEAD = """# Scale on paper

`ci/scale_page.py` writes this page. No cluster has been used: the tables for many devices are
predictions of `ci/scale_model.py`. The first section compares the model with runs of one to three
processes on a CPU."""

RUNS_TEXT = """## Compared with runs

Steps of a model of {layers} dense layers, with buckets of the size of a kernel. Memory is that of
arrays at the peak of a step, operands are what a process gives to collective calls. A step is
predicted from that of one process and from two sums that are timed in the same run. {machine},
{date}: other programs use this machine as well, and three processes share two cores, so that
seconds say little."""

ASSUMED = """## Predictions

Nodes of eight H200. Measured: the speed of a device, {speed:.0f} TFLOP/s, that of a recorded step
of GPT-2 124M in bfloat16 with 8 x 1,024 tokens; larger models are assumed to reach the same. From
vendors: 141 GB and 4.8 TB/s of memory, 450 GB/s to other devices of the node, 50 GB/s to other
nodes. Assumed: messages take 5 and 15 microseconds, activations are kept in half precision, and no
layer is recomputed.

Each process has {tokens:,} tokens, with tensor parallelism each node. A cell has the memory of a
device in GB, and the thousands of tokens per second of all devices: if communication waits for
computation, and if it is hidden behind it. Recorded steps compute while arrays travel, but for
tensor parallelism. `-` stands where memory does not suffice."""


def cluster() -> Cluster:
    """Return the cluster of the predictions."""
    return Cluster(8, Link(5e-6, 450e9), Link(15e-6, 50e9), measured_speed(), 141e9, 4.8e12)


def measured_speed() -> float:
    """Return the operations per second that a recorded step of GPT-2 124M reached on an H200."""
    records = json.loads(H200.read_text(encoding="utf-8"))["cells"]
    seconds = min(
        min(one["times"])
        for one in records
        if (one["workload"], one["library"], one["dtype"], one["status"])
        == ("gpt2", "tapegrad", "bfloat16", "ok")
    )
    speed: float = MODELS[0].flops(TOKENS) / seconds
    return speed


def table(titles: list[str], rows: list[list[str]]) -> str:
    """Return a table whose columns but the first are aligned to the right."""
    lines = [titles, ["---", *["--:"] * (len(titles) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(step: Step, limit: float) -> str:
    """Return what the table says about a predicted step."""
    if step.nbytes > limit:
        return f"{step.nbytes / 1e9:,.0f} GB: -"
    now, most = rounded(step.tokens_per_second / 1e3), rounded(step.most_tokens_per_second / 1e3)
    speeds = f"{now:,}" if now == most else f"{now:,} to {most:,}"
    return f"{step.nbytes / 1e9:,.0f} GB: {speeds}"


def rounded(x: float) -> int:
    """Return a number with two digits that say something.

    >>> rounded(12_345.0)
    12000
    """
    return int(float(f"{x:.2g}"))


def predictions() -> list[str]:
    """Return the tables of all models."""
    where, parts = cluster(), []
    for model in MODELS:
        rows = [
            [
                f"{count:,}",
                *[
                    cell(predicted(model, mode, count, where, TOKENS), where.memory)
                    for mode in MODES
                ],
            ]
            for count in COUNTS
        ]
        size = f"{model.weights / 1e6:,.0f} million weights"
        shape = f"{model.layers} layers, {model.width:,} wide, {size}"
        text = table(["devices", *TITLES.values()], rows)
        parts.append(f"### {model.name}\n\n{shape}.\n\n{text}")
    return parts


def comparison(record: dict[str, Any]) -> str:
    """Return the table that compares recorded runs with the model."""
    rows = []
    alone = next(run for run in record["runs"] if run["size"] == 1)
    for run in record["runs"]:
        weights = run["layers"] * run["width"] * (run["width"] + 1)
        size, mode = run["size"], run["mode"]
        kernel = run["width"] ** 2
        memory = state_bytes(mode, weights, kernel, size, bucket=4 * kernel)
        expected = sent(mode, weights, size)
        found = dict.fromkeys(expected, 0.0)
        for name, nbytes in run.get("calls", ()):
            found[name] = found.get(name, 0.0) + nbytes
        seconds = alone["seconds"] + exchange_seconds(run)
        rows.append(
            [
                f"{TITLES[mode]}, {size}",
                f"{run['peak'] / 1e6:.1f}",
                f"{memory / 1e6:.1f}",
                f"{sum(found.values()) / 1e6:.2f}",
                f"{sum(expected.values()) / 1e6:.2f}",
                f"{run['seconds'] * 1e3:.0f}",
                f"{seconds * 1e3:.0f}",
            ]
        )
    titles = ["what is sharded, processes", "memory, MB", "model", "operands, MB", "model",
              "step, ms", "model"]  # fmt: skip
    return table(titles, rows)


def exchange_seconds(run: dict[str, Any]) -> float:
    """Predict the seconds of a run's collective calls from two sums that were timed in it.

    A sum counts as two calls of the same array, a gather as one of all parts together.
    """
    if run["size"] == 1:
        return 0.0
    (small, short), (large, long) = [(int(n), s) for n, s in run["sums"].items()]
    rate = max(long - short, 0.0) / (large - small)
    total = 0.0
    for name, nbytes in run["calls"]:
        whole = nbytes * run["size"] if name == "all_gather" else nbytes
        total += (short + rate * whole) * (1.0 if name == "all_reduce" else 0.5)
    return total


def page(record: dict[str, Any]) -> str:
    """Return the text of the page."""
    given = {name: record[name] for name in ("machine", "date")}
    runs = RUNS_TEXT.format(layers=record["runs"][0]["layers"], **given)
    assumed = ASSUMED.format(speed=measured_speed() / 1e12, tokens=TOKENS)
    return "\n\n".join([HEAD.rstrip(), runs, comparison(record), assumed, *predictions()]) + "\n"


def recorded() -> dict[str, Any]:
    """Run the program in all configurations."""
    runs = []
    program = str(ROOT / "tests" / "distribute" / "programs" / "scale.py")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TAPEGRAD_WAIT": "1"}
    for mode, size in RUNS:
        launch = ["-m", "tapegrad", "run", "-n", str(size)] if size > 1 else []
        command = [sys.executable, *launch, program, mode]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=env)
        line = next(one for one in done.stdout.splitlines() if "{" in one)
        runs.append(json.loads(line[line.index("{") :]))
    machine = f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores"
    return {"runs": runs, "machine": machine, "date": dt.datetime.now(dt.UTC).date().isoformat()}


def main(arguments: list[str], path: Path = PAGE) -> int:
    """Write the page, compare it with the record, or record runs."""
    parser = argparse.ArgumentParser(description="Write docs/scale.md.")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args(arguments)
    if given.record:
        RECORD.write_text(json.dumps(recorded(), indent=1) + "\n", encoding="utf-8")
    text = page(json.loads(RECORD.read_text(encoding="utf-8")))
    if not given.check:
        path.write_text(text, encoding="utf-8")
        return 0
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return 0
    print(f"{path} differs from the record. Run: python ci/scale_page.py")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
