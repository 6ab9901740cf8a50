"""The table of samples, one module per family of functions."""

from __future__ import annotations

import importlib
import pkgutil

from tapegrad.testing.sample import Sample


def all_samples() -> list[Sample]:
    """Return every sample; names are unique."""
    samples: list[Sample] = []
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        # The modules are found by listing the folder.
        samples.extend(importlib.import_module(f"{__name__}.{module}").SAMPLES)
    names = [sample.name for sample in samples]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ValueError(f"Sample names must be unique. Repeated: {sorted(repeated)}.")
    return samples
