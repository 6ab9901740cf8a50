"""Arrays in files, states of random generators, and results of benchmarks."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad import keras
from tapegrad_bench.results import Ceiling, Cell, Machine, Run, Size, Status, load, save
from tests.compatibility.cases import Case, Outcome

# Arrays in safetensors files

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)


def _arrays() -> dict[str, Any]:
    values = np.array([[0, 1, 2], [3, 100, 7]])
    found = {f"of/{name}": tf.cast(tf.constant(values), name) for name in DTYPES}
    found["complex"] = tf.constant(values / 3 + 1j * values)
    return {**found, "scalar": tf.constant(1.5), "empty": tf.zeros([0, 3]), "ü ~": tf.ones([1])}


def _write_arrays(folder: Path) -> Outcome:
    arrays = _arrays()
    keras.saving.write_tensors(folder / "a.safetensors", arrays, {"note": "ä", "json": "{}"})
    return Outcome({"arrays": arrays, "metadata": {"note": "ä", "json": "{}"}})


def _read_arrays(folder: Path) -> Outcome:
    with keras.saving.TensorFile(folder / "a.safetensors") as file:
        assert sorted(file) == sorted(_arrays())
        arrays = {name: file[name] for name in _arrays()}
        metadata = {name: file.metadata[name] for name in ("note", "json")}
    return Outcome({"arrays": arrays, "metadata": metadata})


# Arrays in the files of NumPy


def _write_numpy(folder: Path) -> Outcome:
    a, b = tnp.array([[1.5, -2.0]]), tnp.arange(3)
    tnp.save(folder / "a.npy", a)
    tnp.savez(folder / "two.npz", a, b=b)
    tnp.savez_compressed(folder / "packed.npz", b=b)
    tnp.savetxt(folder / "a.txt", a)
    return Outcome({"npy": a, "npz": [a, b], "packed": b, "txt": a})


def _read_numpy(folder: Path) -> Outcome:
    two, packed = tnp.load(folder / "two.npz"), tnp.load(folder / "packed.npz")
    text = tnp.loadtxt(folder / "a.txt", ndmin=2)
    stored = {
        "npy": tnp.load(folder / "a.npy"),
        "npz": [two["arr_0"], two["b"]],
        "packed": packed["b"],
        "txt": text,
    }
    return Outcome(stored)


# Random generators


def _generators() -> dict[str, Any]:
    return {
        "tf": tf.random.Generator.from_seed(11),
        "keras": keras.random.SeedGenerator(12),
        "numpy": tnp.random.default_rng(13),
        "legacy": tnp.random.RandomState(14),
    }


def _write_states(folder: Path) -> Outcome:
    made = _generators()
    _draw(made)
    states = {
        "tf": made["tf"].state.numpy().tolist(),
        "keras": made["keras"].state.numpy().tolist(),
        "numpy": made["numpy"].bit_generator.state,
        "legacy": made["legacy"].get_state().tolist(),
    }
    (folder / "states.json").write_text(json.dumps(states))
    return _draw(made)


def _read_states(folder: Path) -> Outcome:
    states = json.loads((folder / "states.json").read_text())
    made = _generators()
    made["tf"] = tf.random.Generator.from_state(states["tf"])
    made["keras"] = keras.random.SeedGenerator(state=states["keras"])
    made["numpy"].bit_generator.state = states["numpy"]
    made["legacy"].set_state(states["legacy"])
    return _draw(made)


def _draw(made: dict[str, Any]) -> Outcome:
    """Draw from every generator; whole numbers and uniform draws are the same on all machines."""
    stateless = {"shape": [3], "seed": [1, 2]}
    stored = {
        "tf words": made["tf"].uniform_full_int([2]),
        "tf uniform": made["tf"].uniform([3]),
        "tf seeds": made["tf"].make_seeds(2),
        "keras": keras.random.uniform((3,), seed=made["keras"]),
        "keras integers": keras.random.randint((3,), 0, 100, seed=made["keras"]),
        "numpy": made["numpy"].random(3),
        "numpy integers": made["numpy"].integers(0, 1000, 3),
        "numpy order": made["numpy"].permutation(5),
        "legacy": made["legacy"].random_sample(3),
        "stateless": tf.random.stateless_uniform(**stateless),
        "split": tf.random.split([1, 2], 2),
    }
    computed = {
        "tf normal": made["tf"].normal([3]),
        "keras normal": keras.random.normal((3,), seed=made["keras"]),
        "numpy normal": made["numpy"].normal(size=3),
        "numpy gamma": made["numpy"].gamma(2.0, size=3),
        "stateless normal": tf.random.stateless_normal(**stateless),
    }
    return Outcome(stored, computed)


# Results of benchmarks


def _run() -> Run:
    machine = Machine("Some CPU", 2, 1, "Linux", "Some GPU", "570", "13.0")
    cell = Cell(
        "elementwise",
        Size("2^20", 2**20, batch=8, depth=3),
        "float32",
        "cpu",
        "tapegrad",
        "function",
        Status.OK,
        times=(1e-3, 1.25e-3, 1.5e-3),
        device_times=(1e-3,),
        warmup=3,
        compile_seconds=0.25,
        peak_host_bytes=2**22,
        peak_device_bytes=2**23,
        launches=3.0,
        transfers=0.0,
        bytes_needed=24 * 2**20,
        flops_needed=8 * 2**20,
        loss_error=1e-7,
    )
    absent = replace(cell, status=Status.ABSENT, times=(), library="jax", reason="No module 'jax'")
    weighed = Cell(
        "install", Size("wheel", 1), "float32", "cpu", "tapegrad", "eager", Status.OK,
        times=(2.5,), unit="MB",
    )  # fmt: skip
    return Run(
        "2026-11-16T19:14:49+00:00",
        machine,
        {"python": "3.11.2"},
        (cell, absent, weighed),
        (Ceiling("cpu", "float32", 0.02, 0.04),),
        complete=False,
    )


def _write_benchmark(folder: Path) -> Outcome:
    run = _run()
    save(run, folder / "results.json")
    return _observe_benchmark(run)


def _read_benchmark(folder: Path) -> Outcome:
    return _observe_benchmark(load(folder / "results.json"))


def _observe_benchmark(run: Run) -> Outcome:
    cells = [{"median": c.median, "spread": c.spread, "name": c.name} for c in run.cells]
    percent = [run.percent_of_ceiling(cell) for cell in run.cells]
    kept = [
        (c.times, c.device_times, c.launches, c.reason, c.unit, c.size.depth) for c in run.cells
    ]
    more = [run.started, asdict(run.machine), dict(run.versions), run.complete]
    return Outcome({"cells": cells, "percent": percent, "kept": kept, "run": more})


CASES = {
    "safetensors": Case(_write_arrays, _read_arrays),
    "numpy-files": Case(_write_numpy, _read_numpy),
    "random-states": Case(_write_states, _read_states),
    "benchmark-results": Case(_write_benchmark, _read_benchmark),
}
