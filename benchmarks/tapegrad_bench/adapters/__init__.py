"""Who is timed: every library and mode, whether it is here, and which module runs it.

Nothing here imports any of the libraries; a worker process does, one library in each.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from dataclasses import dataclass

from tapegrad.core.backend.registry import describe_backends
from tapegrad_bench.adapters.library import Library


@dataclass(frozen=True)
class Contender:
    """A library in one of its modes."""

    library: str
    mode: str
    module: str
    """Its adapter."""
    devices: tuple[str, ...]
    process: str
    """Contenders with the same word share a worker process."""
    is_slow_to_compile: bool
    """Whether its preparation takes so long that a short budget had better do without it."""
    workloads: tuple[str, ...] = ()
    """What it runs; nothing stands for everything."""
    is_on_request: bool = False
    """Whether it runs only if somebody asks for it."""

    def runs(self, workload: str, device: str) -> bool:
        """Say whether it has a form of the workload, and of itself, for a kind of device."""
        return device in self.devices and (not self.workloads or workload in self.workloads)

    @property
    def name(self) -> str:
        """Library and mode as users write them: "torch:eager"."""
        return f"{self.library}:{self.mode}"


def _contender(
    library: str,
    mode: str,
    devices: str = "cpu cuda",
    process: str | None = None,
    is_slow_to_compile: bool = False,
) -> Contender:
    module = f"tapegrad_bench.adapters.on_{library}"
    return Contender(
        library, mode, module, tuple(devices.split()), process or library, is_slow_to_compile
    )


def _keras_contender(mode: str) -> Contender:
    return Contender(
        "tapegrad",
        mode,
        "tapegrad_bench.adapters.on_tapegrad_keras",
        devices=("cpu", "cuda"),
        process="tapegrad-keras",
        is_slow_to_compile=False,
        workloads=("mlp_small", "mlp_mid", "mlp_large", "rnn", "convnet", "gpt2"),
        is_on_request=True,
    )


def _layer_contender(mode: str, devices: str, process: str) -> Contender:
    """PyTorch with layers of torch.nn, where a workload is what one of them computes."""
    return Contender(
        "torch",
        mode,
        "tapegrad_bench.adapters.on_torch",
        tuple(devices.split()),
        process,
        is_slow_to_compile=False,
        workloads=("rnn",),
    )


CONTENDERS: tuple[Contender, ...] = (
    _contender("tapegrad", "eager"),
    _contender("tapegrad", "function"),
    _contender("numpy", "handwritten", "cpu"),
    _contender("cupy", "handwritten", "cuda"),
    _contender("torch", "eager"),
    # In processes of their own they can be given up without losing the rest.
    _contender("torch", "compile", "cpu cuda", "torch-compile", is_slow_to_compile=True),
    _contender("torch", "compile-overhead", "cuda", "torch-overhead", is_slow_to_compile=True),
    _contender("torch", "max-autotune", "cpu cuda", "torch-autotune", is_slow_to_compile=True),
    _contender("torch", "graph", "cuda", "torch-graph", is_slow_to_compile=True),
    _layer_contender("nn", "cpu cuda", "torch"),
    _layer_contender("nn-graph", "cuda", "torch-graph"),
    _contender("jax", "jit"),
    _contender("tensorflow", "eager"),
    _contender("tensorflow", "function"),
    _contender("tensorflow", "jit"),
    _contender("autograd", "eager", "cpu"),
    _keras_contender("keras"),
    _keras_contender("keras-function"),
)

LIBRARIES: tuple[str, ...] = tuple(dict.fromkeys(c.library for c in CONTENDERS))


def load(contender: Contender, device: str) -> Library:
    """Import the library and return its adapter on `device`."""
    library: Library = importlib.import_module(contender.module).load(device)
    return library


def reason_absent(library: str) -> str | None:
    """Say why a library cannot be used here, or return None.

    >>> reason_absent("numpy") is None
    True
    """
    if importlib.util.find_spec(library) is None:
        return f"{library} is not installed."
    return None


def reason_without(device: str) -> str | None:
    """Say why a kind of device cannot be used here, or return None.

    >>> reason_without("cpu") is None
    True
    """
    if device == "cpu":
        return None
    status = dict(describe_backends())["cupy"]
    return status.removeprefix("unavailable: ") if status.startswith("unavailable") else None


def version_of(library: str) -> str | None:
    """Return the installed version without importing the library, or None.

    >>> version_of("numpy") is None
    False
    """
    names = importlib.metadata.packages_distributions().get(library, [library])
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None
