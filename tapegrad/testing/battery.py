"""The battery that every backend must pass: its protocol, then all samples against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tapegrad.core.backend.protocol import Backend
from tapegrad.core.backend.registry import capabilities_of, get_backend
from tapegrad.core.values.device import device
from tapegrad.core.values.host import place
from tapegrad.core.values.tensor import wrap
from tapegrad.testing.capability_checks import check_capabilities
from tapegrad.testing.checks import ALL_CHECKS
from tapegrad.testing.sample import Sample
from tapegrad.testing.samples import all_samples

DTYPES = ("bool", "int32", "int64", "uint8", "float32", "float64", "complex64", "complex128")


def check_backend(name: str, samples: Iterable[Sample] | None = None) -> None:
    """Run the whole battery on the backend called `name`; raise on the first failure.

    >>> from tapegrad.testing.samples import all_samples
    >>> check_backend("numpy", [s for s in all_samples() if s.name == "add"])
    """
    backend = get_backend(name)
    check_protocol(backend)
    check_capabilities(backend, capabilities_of(backend.array_types[0]))
    with device(backend.devices()[0]):
        for sample in all_samples() if samples is None else samples:
            check_sample(sample)


def check_protocol(backend: Backend) -> None:
    """Placement, dtypes, and independence of host buffers."""
    devices = backend.devices()
    assert devices, f"Backend {backend.name!r} lists no device."
    for dtype in DTYPES:
        value = np.ones((2, 3), dtype)
        array: Any = backend.from_host(value, devices[0])
        kind = type(array)
        assert issubclass(kind, backend.array_types), f"from_host gave {kind.__name__}."
        assert backend.device_of(array) == devices[0]
        assert backend.dtype_of(array) == np.dtype(dtype)
        assert tuple(array.shape) == (2, 3)
        value[...] = 0
        back = backend.to_host(array)
        assert isinstance(back, np.ndarray)
        assert back.all(), "from_host must copy: a later change of the host array showed."
        back[...] = 0
        assert backend.to_host(array).all(), "to_host must copy."
    check_memory(backend)


_MEMORY = ("description", "libraries", "read_later", "used", "reset_peak", "release", "set_limit")


def check_memory(backend: Backend) -> None:
    """The counters answer, and a peak that is counted is not below what is in use."""
    for name in backend.devices():
        memory: Any = backend.memory(name)
        missing = [member for member in _MEMORY if not hasattr(memory, member)]
        assert not missing, (
            f"memory({name!r}) of backend {backend.name!r} must return an object with the members "
            f"of tapegrad.core.backend.protocol.Memory. Got {type(memory).__name__}, which lacks "
            f"{', '.join(missing)}."
        )
        assert isinstance(memory.description, str)
        memory.release()
        memory.reset_peak()
        assert isinstance(memory.set_limit(None), bool)
        array = backend.from_host(np.ones(1000), name)
        current, peak = memory.used()
        assert current is None or peak is None or current <= peak
        assert all(label and state for label, state in memory.libraries())
        reading = memory.read_later(array)
        assert isinstance(reading.done(), bool)
        assert reading.result().tolist() == [1.0] * 1000
        assert reading.done()
        del array


def check_sample(sample: Sample) -> None:
    """All checks of one sample, and equality with NumPy's result."""
    checks: list[Callable[[Sample], Any]] = [check_equals_numpy]
    checks += [check for check in ALL_CHECKS if sample.differentiable or check in ALWAYS]
    for check in checks:
        try:
            check(sample)
        except Exception as error:
            raise AssertionError(f"{sample.name}: {check.__name__} failed: {error}") from error


ALWAYS = tuple(c for c in ALL_CHECKS if c.__name__ in ("check_forward", "check_dtypes"))


def check_equals_numpy(sample: Sample) -> None:
    """The result on this device equals NumPy's within rounding."""
    arrays = sample.make()
    here = _values(sample.function(*[wrap(place(array)) for array in arrays]))
    with device("cpu"):
        there = _values(sample.function(*[wrap(place(array)) for array in arrays]))
    for one, other in zip(here, there, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def _values(result: Any) -> list[Any]:
    parts = result if isinstance(result, list | tuple) else [result]
    return [part.numpy() for part in parts]
