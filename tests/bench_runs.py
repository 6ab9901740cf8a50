"""Made-up benchmark runs, for tests of what is kept and shown of them."""

from __future__ import annotations

from tapegrad_bench.results import Ceiling, Cell, Machine, Run, Size, Status

MACHINE = Machine(cpu="Some CPU", cores=2, threads=1, os="Linux", gpu="Some GPU", driver="570")
CEILINGS = (Ceiling("cpu", "float32", 0.02, 0.04), Ceiling("cuda", "float32", 4.0, 50.0))


def make_cell(library="tapegrad", mode="eager", time=1e-3, *, noise=0.0, **changes) -> Cell:
    """A cell whose repeats lie around `time`; their interquartile range is `noise` of it."""
    fields = {
        "workload": "elementwise",
        "size": Size("2^20", 2**20),
        "dtype": "float32",
        "device": "cpu",
        "status": Status.OK,
        "times": tuple(time * (1 + noise * step) for step in (-1, -0.5, 0, 0.5, 1)),
        "bytes_needed": 24 * 2**20,
        "flops_needed": 8 * 2**20,
        "peak_host_bytes": 2**22,
    }
    return Cell(library=library, mode=mode, **{**fields, **changes})


def make_run(*cells: Cell, **changes) -> Run:
    versions = {"python": "3.12.1", "torch": "2.11"}
    fields = {"started": "2026-01-02T03:04:05+00:00", "machine": MACHINE, "versions": versions}
    return Run(cells=tuple(cells), ceilings=CEILINGS, **{**fields, **changes})


def power_law(device: str, scale: float, slope: float, fixed: float = 0.0, **changes) -> list[Cell]:
    return [
        make_cell(time=fixed + scale * n**slope, device=device, size=Size(f"2^{k}", n), **changes)
        for k in (10, 14, 18, 22)
        for n in (2**k,)
    ]


def make_full_run() -> Run:
    """Every status, two devices, two sizes, a unit other than seconds, awkward letters."""
    absent = {"status": Status.ABSENT, "times": (), "reason": "No module named 'jax'"}
    wrong = {"status": Status.WRONG, "times": (), "reason": "dx is off by <0.3> & more"}
    failed = {"status": Status.FAILED, "times": (), "reason": "RuntimeError: out | of memory"}
    return make_run(
        make_cell(time=2e-3, noise=0.01, loss_error=1e-7, warmup=3),
        make_cell(mode="function", time=0.5e-3, compile_seconds=0.25),
        make_cell("numpy", "handwritten", 1e-3),
        make_cell("torch", "eager", 4e-3),
        make_cell("torch", "compile", 1e-3),
        make_cell("jax", "jit", **absent),
        make_cell("tensorflow", "eager", **wrong),
        make_cell(device="cuda", time=1e-4, peak_device_bytes=2**30, launches=3, transfers=0),
        make_cell("torch", "eager", device="cuda", time=2e-4, peak_device_bytes=2**31),
        make_cell("torch", "compile", device="cuda", **failed),
        make_cell(time=1e-5, size=Size("2^10", 2**10)),
        make_cell(device="cuda", time=5e-5, size=Size("2^10", 2**10)),
        make_cell(workload="install", times=(2.5,), unit="MB", size=Size("wheel", 1)),
    )
